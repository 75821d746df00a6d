"""Sweeps: an Optuna study chooses the trials, Ray Tune runs them.

The study is the only durable state: finished trials, trials that were running when the driver died, their parameters,
and every reported evaluation. So the same command resumes with exactly the remaining budget. Tune asks the study for
parameters and for the trials to stop. Tune's own snapshots are not used: they lag by seconds, so that after a kill some
trials would run twice or differ; they cannot extend a finished sweep; and they are pickles.

    config      the settings of a sweep: the budget, the metric, early stopping, the space
    space       the distributions of the space, checked against the configuration of a run
    study       the Optuna study in a journal: suggest, evaluate, stop early, complete, resume
    trials      the study as Tune's searcher and scheduler, the actor of a trial, and the number of concurrent trials
    report      the table of trials
    job         the entry point, `sweep`
"""
