"""The cursor of a run log: a small file next to the log that records how much of the log was sent, and the id of the
MLflow run, which the next run of the same name continues. Only the process that holds the log's lock sends the log.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from agggen_platform.locks import locked
from agggen_platform.tracking import journal

NAME = "tracking.sent.json"
LOCK = "tracking.lock"  # the file that a process locks while it may send the run log beside it


@dataclass
class Cursor:
    """The part of a run log that was sent. Files have their own offset: the artifact store can fail separately."""

    to: str  # the destination: MLflow's address without credentials, and the experiment
    run_id: str | None = None
    sent: int = 0  # offset in the run log up to which all entries other than files are sent, in bytes
    files: int = 0  # offset up to which all files are sent
    rejected: int = 0  # number of values and files that MLflow rejected
    parented: bool = False  # whether the parent run is set in MLflow

    def unsent(self, folder: Path, parent: str | None) -> int:
        """The number of entries of the run log in `folder` that MLflow lacks; a parent not set counts as one."""
        start = min(self.sent, self.files)
        behind = sum(
            entry.end > (self.files if entry.is_file else self.sent)
            for entry in journal.entries(folder / journal.NAME, start)
        )
        return behind + (parent is not None and not self.parented)


def load(folder: Path, uri: str, experiment: str) -> Cursor:
    """The cursor of the run in `folder`; a new one if the run was last sent to another MLflow.

    If the cursor's file is missing or damaged, the whole log is sent again to the run, which is found by its tag;
    MLflow drops duplicates.
    """
    to = f"{uri} {experiment}"
    try:
        cursor = Cursor(**json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return Cursor(to)
    return cursor if cursor.to == to else Cursor(to)


def save(folder: Path, cursor: Cursor) -> None:
    """Writes the cursor atomically; raises OSError."""
    temporary = folder / f".{NAME}.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(cursor), indent=1), encoding="utf-8")
    os.replace(temporary, folder / NAME)


def is_held(folder: Path) -> bool:
    """Whether a running process holds the lock of the run log in `folder`."""
    if not (folder / LOCK).exists():
        return False
    with locked(folder / LOCK, wait=False) as acquired:
        return not acquired
