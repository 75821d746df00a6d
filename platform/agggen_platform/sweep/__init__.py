"""Sweeps: an Optuna study chooses the trials, Ray Tune runs them.

Only the study is stored: all trials, including those that run, with their parameters and every reported evaluation.
After a kill, the same command therefore runs exactly the remaining trials. The study proposes the parameters and stops
trials early. Tune's own snapshots are not used: they are pickles, cannot extend a finished sweep, and are seconds old,
so that after a kill some trials would run twice or with other parameters.
"""
