"""Lock files between processes on this machine."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Locks a file (``flock``) for the block; yields False if another process has it and `wait` is False."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:  # never deleted: otherwise two processes could lock two files of the same name
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
