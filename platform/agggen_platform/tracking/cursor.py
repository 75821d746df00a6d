"""How much of a run log MLflow has: a small file beside the log, with MLflow's id of the run, so that a run of the same
name continues that run. One process at a time sends a run log, the holder of its lock.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from agggen_platform.locks import locked
from agggen_platform.tracking import journal

NAME = "tracking.sent.json"
_LOCK = "tracking.lock"


@dataclass
class Cursor:
    """What MLflow has of a run log. Files have their own offset: the artifact store may fail while MLflow works."""

    to: str  # the address of MLflow, without credentials, and the experiment
    run_id: str | None = None
    sent: int = 0  # offset in the run log up to which all entries other than files are sent, in bytes
    files: int = 0  # offset up to which all files are sent
    rejected: int = 0  # number of values and files that MLflow rejected
    parented: bool = False  # whether MLflow knows the parent run

    def unsent(self, folder: Path, parent: str | None) -> int:
        """Entries of the run log in `folder` that MLflow lacks; the parent counts as one."""
        start = min(self.sent, self.files)
        behind = sum(
            entry.end > (self.files if entry.is_file else self.sent)
            for entry in journal.entries(folder / journal.NAME, start)
        )
        return behind + (parent is not None and not self.parented)


def load(folder: Path, uri: str, experiment: str) -> Cursor:
    """The cursor of the run in `folder`; a new one if the run was last sent to another MLflow.

    If the file is missing or damaged, the run is found by its tag and sent again; MLflow drops what it already has.
    """
    to = f"{uri} {experiment}"
    try:
        cursor = Cursor(**json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return Cursor(to)
    return cursor if cursor.to == to else Cursor(to)


def save(folder: Path, cursor: Cursor) -> None:
    """Writes the cursor atomically; raises OSError."""
    beside = folder / f".{NAME}.{os.getpid()}"
    beside.write_text(json.dumps(asdict(cursor), indent=1), encoding="utf-8")
    os.replace(beside, folder / NAME)


def lock_of(folder: Path) -> Path:
    """The lock of the process that sends the run log in `folder`."""
    return folder / _LOCK


def is_held(folder: Path) -> bool:
    """Whether a living process logs to, or sends, the run in `folder`."""
    if not lock_of(folder).exists():
        return False
    with locked(lock_of(folder), wait=False) as acquired:
        return not acquired
