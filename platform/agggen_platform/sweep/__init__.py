"""Sweeps: an Optuna study decides the trials, Ray Tune runs them.

The study is the only durable state. It knows the trials that are done, those that were running when the driver died,
with their parameters, and every evaluation that was reported; so the same command has exactly the budget that is left.
Tune asks the study what to try and which trial to stop. Tune's own snapshots are not used: they lag behind by seconds,
so that after a kill trials would run twice or other trials be proposed; they cannot extend a finished sweep; and they
are pickles.

    config      the settings of a sweep: the budget, the metric, early stopping, the space
    space       the distributions of the space, checked against the configuration of a run
    study       the Optuna study in a journal: suggest, evaluate, stop early, complete, resume
    trials      the study as Tune's search and scheduler, a trial as its actor, and how many run at once
    report      the table of trials
    job         all of it: `sweep`
"""
