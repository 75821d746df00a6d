"""Learning-rate schedules: factors of the learning rate by update number s = 1, 2, ..."""

from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["linear", "noam"]


def schedule(name: ScheduleName, warmup: int, total: int) -> Callable[[int], float]:
    """The schedule `name`.

    linear: a linear increase to 1 over `warmup` updates, then a linear decrease to 0.01 at `total`.
    noam: min(s^-0.5, s * warmup^-1.5), without the model-size term (Vaswani et al. 2017, section 5.3).
    """
    warmup = max(warmup, 1)

    def linear(step: int) -> float:
        decay = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
        return min(step / warmup, 1.0) * max(1.0 - decay, 0.01)

    def noam(step: int) -> float:
        return float(min(step**-0.5, step * warmup**-1.5))

    return linear if name == "linear" else noam
