"""Copies of objects as Ray workers receive them."""

import pickle
from copy import deepcopy
from typing import TypeVar

T = TypeVar("T")


def pickle_copy(value: T, max_bytes: int | None = None) -> T:
    """A copy by the pickle protocol; fails if `value` cannot be pickled or its pickle exceeds `max_bytes` bytes."""
    size = len(pickle.dumps(value))
    assert max_bytes is None or size <= max_bytes, f"the pickle has {size} bytes"
    return deepcopy(value)
