"""What Ray does to an object on its way to a worker; the only pickles that tests load are those made here."""

from __future__ import annotations

import pickle
from typing import TypeVar

T = TypeVar("T")


def sent(thing: T, at_most: int | None = None) -> T:
    """`thing` as a worker gets it; fails where it weighs more than `at_most` bytes."""
    content = pickle.dumps(thing)
    assert at_most is None or len(content) <= at_most, f"{len(content)} bytes travel"
    arrived: T = pickle.loads(content)
    return arrived
