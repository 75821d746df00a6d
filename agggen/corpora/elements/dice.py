"""Seeded choices that come out the same on every machine and Python version.

Only ``Random.random`` is promised to keep its sequence for a seed across versions of Python; ``choice``, ``shuffle``
and ``sample`` are not, so everything here is built on ``random``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A source of choices that depends on `seed` alone."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self._random.random()

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`, all equally likely."""
        return options[int(self._random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One item of (item, weight) pairs, as likely as its weight."""
        left = self._random.random() * sum(weight for _, weight in options)
        for item, weight in options:
            left -= weight
            if left < 0:
                return item
        return options[-1][0]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """`items` in a random order."""
        rest, result = list(items), []
        while rest:
            result.append(rest.pop(int(self._random.random() * len(rest))))
        return result
