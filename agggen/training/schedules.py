"""Learning-rate schedules by name: factors on a base rate, as functions of the update number s = 1, 2, ..."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["noam", "linear", "cosine", "constant"]
Schedule = Callable[[int], float]


def schedule(name: ScheduleName, warmup: int, total: int) -> Schedule:
    """The schedule `name`.

    noam: min(s^-0.5, s * warmup^-1.5), without the model-size term, so that the base rate is the "factor" the paper
    calls learning rate (METHOD 5). linear, cosine: a linear rise to 1 over `warmup` updates, then down to 0.01 at
    `total`. constant: the rise, then 1.
    """
    warmup = max(warmup, 1)

    def noam(step: int) -> float:
        return float(min(step**-0.5, step * warmup**-1.5))

    def progress(step: int) -> float:
        return min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)

    def linear(step: int) -> float:
        return min(step / warmup, 1.0) * max(1.0 - progress(step), 0.01)

    def cosine(step: int) -> float:
        return min(step / warmup, 1.0) * max(0.5 * (1 + math.cos(math.pi * progress(step))), 0.01)

    def constant(step: int) -> float:
        return min(step / warmup, 1.0)

    return {"noam": noam, "linear": linear, "cosine": cosine, "constant": constant}[name]
