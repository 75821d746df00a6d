"""How much of a run log MLflow has: a small file beside it, with MLflow's id of the run, so that the same name
continues the same run. One process at a time sends a run log; the kernel drops its lock however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from agggen_platform.tracking import journal

NAME = "tracking.sent.json"
_LOCK = "tracking.lock"


@dataclass
class Cursor:
    """What MLflow has of a run log. Files have a place of their own: their store may fail while MLflow is well."""

    to: str  # which MLflow, without credentials, and the experiment
    run_id: str | None = None
    sent: int = 0  # bytes of the run log whose entries MLflow has, files left out
    files: int = 0  # bytes of the run log whose files it has
    rejected: int = 0  # values and files that it refused
    parented: bool = False  # whether it knows the parent

    def unsent(self, folder: Path, parent: str | None) -> int:
        """Entries of the run log in `folder` that MLflow lacks; the parent counts as one."""
        start = min(self.sent, self.files)
        behind = sum(
            entry.end > (self.files if entry.is_file else self.sent)
            for entry in journal.entries(folder / journal.NAME, start)
        )
        return behind + (parent is not None and not self.parented)


def load(folder: Path, uri: str, experiment: str) -> Cursor:
    """The cursor of the run in `folder`; a new one if it was not sent to this MLflow last.

    A file that is missing or broken costs finding the run by its tag and sending it again, which adds nothing twice.
    """
    to = f"{uri} {experiment}"
    try:
        cursor = Cursor(**json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return Cursor(to)
    return cursor if cursor.to == to else Cursor(to)


def save(folder: Path, cursor: Cursor) -> None:
    """Writes the cursor atomically. Raises OSError where it cannot."""
    beside = folder / f".{NAME}.{os.getpid()}"
    beside.write_text(json.dumps(asdict(cursor), indent=1), encoding="utf-8")
    os.replace(beside, folder / NAME)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Holds the lock file `path` for the block; without `wait`, yields whether it could be had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:  # never removed: a second holder would lock another inode
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def lock_of(folder: Path) -> Path:
    """The lock of the process that sends the run log in `folder`."""
    return folder / _LOCK


def is_held(folder: Path) -> bool:
    """Whether a living process logs to, or sends, the run in `folder`."""
    if not lock_of(folder).exists():
        return False
    with locked(lock_of(folder), wait=False) as got:
        return not got
