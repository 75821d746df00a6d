"""The cursor of a run log: a file with the offset up to which the log was sent, and the id of the MLflow run."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from agggen_platform.locks import locked
from agggen_platform.tracking import journal

FILE_NAME = "tracking.sent.json"
LOCK_NAME = "tracking.lock"  # locked by the process that sends the run log


@dataclass
class Cursor:
    """How much of a run log was sent. Files have their own offset, because only the artifact store may be down."""

    to: str  # destination: MLflow's address without credentials, a space, and the experiment
    run_id: str | None = None
    sent: int = 0  # offset in bytes up to which all entries except files are sent
    files: int = 0  # offset up to which all files are sent
    rejected: int = 0  # number of values and files that MLflow rejected
    parented: bool = False  # whether the parent run is set in MLflow

    def unsent(self, folder: Path, parent: str | None) -> int:
        """The number of unsent entries of the run log in `folder`; a `parent` that is not set yet counts as one."""
        start = min(self.sent, self.files)
        entries = sum(
            entry.end > (self.files if entry.is_file else self.sent)
            for entry in journal.entries(folder / journal.FILE_NAME, start)
        )
        return entries + (parent is not None and not self.parented)


def load(folder: Path, uri: str, experiment: str) -> Cursor:
    """The cursor of the run in `folder`; a new cursor if its file is missing, damaged, or of another destination."""
    destination = f"{uri} {experiment}"
    try:
        cursor = Cursor(**json.loads((folder / FILE_NAME).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return Cursor(destination)
    return cursor if cursor.to == destination else Cursor(destination)


def save(folder: Path, cursor: Cursor) -> None:
    temporary = folder / f".{FILE_NAME}.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(cursor), indent=1), encoding="utf-8")
    os.replace(temporary, folder / FILE_NAME)


def is_locked(folder: Path) -> bool:
    if not (folder / LOCK_NAME).exists():
        return False
    with locked(folder / LOCK_NAME, wait=False) as acquired:
        return not acquired
