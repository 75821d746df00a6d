"""Sweeps: an Optuna study decides the trials, Ray tasks run them.

The study is the only state. It knows the trials that are done, those that were running when the driver died, with their
parameters, and every evaluation that was reported; so the same command has exactly the budget that is left. Ray Tune
would keep a second state: its snapshots of the search lag behind by seconds, so after a kill it runs trials twice or
proposes others; it cannot extend a finished sweep; and it stores pickles.

    config      the settings of a sweep: the budget, the metric, early stopping, the space
    space       the distributions of the space, checked against the configuration of a run
    study       the Optuna study in a journal or a database: ask, report, tell, continue
    halving     when a trial is stopped early (asynchronous successive halving, a pure function)
    trials      the trials as Ray tasks, and how many run at once
    report      the table and the plots
    job         all of it: `sweep`
"""
