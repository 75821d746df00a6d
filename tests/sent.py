"""A copy of an object as a Ray worker receives it."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import TypeVar

T = TypeVar("T")


def sent(thing: T, at_most: int | None = None) -> T:
    """A copy of `thing` by its pickle functions; fails if it has no pickle, or one of more than `at_most` bytes."""
    size = len(pickle.dumps(thing))
    assert at_most is None or size <= at_most, f"the pickle has {size} bytes"
    return deepcopy(thing)
