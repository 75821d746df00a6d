"""How far MLflow has a run log: a small file beside it, one entry for each MLflow that was sent to.

The file also remembers MLflow's id of the run, so that the same name continues the same run, and children find their
parent. One process at a time sends a run log; the kernel drops its lock however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

NAME = "tracking.sent.json"
_LOCK = "tracking.lock"


@dataclass
class Cursor:
    """What one MLflow has of a run log."""

    run_id: str | None = None
    sent: int = 0  # bytes of the run log that MLflow has
    refused: int = 0  # values and files that MLflow would not have
    parented: bool = False  # whether MLflow knows the parent
    late: list[int] = field(default_factory=list)  # where in the run log a file is told of that is set aside


def destination(uri: str, experiment: str) -> str:
    """The name of an MLflow in the file; `uri` is without credentials."""
    return f"{uri} {experiment}"


def load(folder: Path, to: str) -> Cursor | None:
    """The cursor of the run in `folder` for the destination `to`, if there is one."""
    found = _read(folder).get(to)
    known = {one.name for one in fields(Cursor)}
    return Cursor(**{name: value for name, value in found.items() if name in known}) if found else None


def destinations(folder: Path) -> list[str]:
    """The MLflows that the run in `folder` was sent to."""
    return list(_read(folder))


def save(folder: Path, to: str, cursor: Cursor) -> None:
    """Writes the cursor, whole or not at all.

    Raises:
        OSError: it could not be written.
    """
    content = json.dumps(_read(folder) | {to: asdict(cursor)}, indent=1)
    beside = folder / f".{NAME}.{os.getpid()}"
    beside.write_text(content, encoding="utf-8")
    os.replace(beside, folder / NAME)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Holds the lock file `path`; yields whether it was got, which without `wait` it may not be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:  # never removed: a second holder would lock another inode
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def lock_of(folder: Path) -> Path:
    """The lock of whoever sends the run log in `folder`."""
    return folder / _LOCK


def is_held(folder: Path) -> bool:
    """Whether a living process logs to, or sends, the run in `folder`."""
    if not lock_of(folder).exists():
        return False
    with locked(lock_of(folder), wait=False) as got:
        return not got


def _read(folder: Path) -> dict[str, dict]:
    # A file that is missing or broken costs finding the run by its tag and sending again, which MLflow takes only once.
    try:
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
