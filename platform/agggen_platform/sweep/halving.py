"""When a trial is stopped early: asynchronous successive halving (Li et al. 2020, "A System for Massively Parallel
Hyperparameter Tuning", algorithm 2), as a function of what the study knows.

Tune's own ASHA keeps its rungs in the driver's memory. This one reads them from the reported evaluations, so a decision
is the same before and after the driver died, and may be asked for twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from agggen_platform.sweep.config import AshaConfig


def is_rung(position: int, asha: AshaConfig, last: int) -> bool:
    """Whether trials are judged after `position` epochs; never after the `last`, where nothing is left to save."""
    rung = asha.grace
    while rung < position:
        rung *= asha.factor
    return rung == position < last


def falls_behind(value: float, others: Sequence[float], factor: int) -> bool:
    """Whether a trial with `value` at a rung is not among the best one in `factor` of those that came there.

    Of fewer than `factor` trials the best goes on, so the first always does. Equals go on together.
    """
    better = sum(other < value for other in others)
    return better >= max(1, (len(others) + 1) // factor)
