"""Sweeps: an Optuna study chooses the trials, Ray Tune runs them.

Only the study is stored: all trials, also those that were running when the driver died, with their parameters and every
reported evaluation. The same command therefore resumes with exactly the remaining trials. Tune asks the study for
parameters, and which trials to stop. Tune's own snapshots are not used: they are seconds old, so that after a kill some
trials would run twice or with other parameters; they cannot extend a finished sweep; and they are pickles.
"""
