"""Lock files that exclude other processes on this machine."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Holds the lock file `path` for the block; without `wait`, yields whether the lock was acquired.

    The kernel releases the lock when the process ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:  # never deleted: another process could then lock a new file
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
