"""When a trial is stopped early: asynchronous successive halving (Li et al. 2020, "A System for Massively Parallel
Hyperparameter Tuning", algorithm 2), as a function of what the study knows.

The rungs are read from the reported evaluations, so a decision is the same before and after the driver died. Optuna's
pruner would compare a trial that skips a rung (its baseline may end early) with trials of the other stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from agggen_platform.sweep.config import AshaConfig


def is_rung(position: int, asha: AshaConfig, last: int) -> bool:
    """Whether trials are judged after `position` epochs; never after the `last`, when nothing is left to save."""
    rung = asha.grace
    while rung < position:
        rung *= asha.factor
    return rung == position < last


def falls_behind(value: float, others: Sequence[float], factor: int) -> bool:
    """Whether a trial with `value` at a rung is not in the best 1 / `factor` of those that reached it.

    Of fewer than `factor` trials the best continues, so the first always does. Ties continue together.
    """
    better = sum(other < value for other in others)
    return better >= max(1, (len(others) + 1) // factor)
