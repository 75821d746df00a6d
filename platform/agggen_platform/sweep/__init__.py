"""Sweeps: Ray Tune runs the trials, an Optuna study that survives everything decides which.

The study is the only state. It knows the trials that are done, those that were running when the driver died, with their
parameters, and every evaluation that was reported; so the same command has exactly the budget that is left. Tune asks
it for trials and tells it what they report, and keeps nothing of its own.

    config      what a sweep is told: the budget, the metric, early stopping, the space
    space       the dimensions of the space, checked against the configuration of a run
    study       the Optuna study in a journal or a database: ask, report, tell, continue
    halving     when a trial is stopped early (asynchronous successive halving, a pure function)
    capacity    how many trials a cluster can run at once without starving the runs that they start
    trial       a trial in its process, in step with Tune
    tuning      Tune, driven by the study
    report      the table and the plots
    job         all of it: `sweep`
"""
