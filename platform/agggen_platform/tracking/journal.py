"""The files of a run log: a JSON line per event, in the order in which `sender` sends them to MLflow, and a cursor.

Each line is appended by one ``write`` call, so several processes may log to the same file. A killed process may leave
an incomplete last line: readers skip it, and the next event begins on a new line.
"""

import errno
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from agggen_platform.locks import locked

FILE_NAME = "tracking.jsonl"
LOCK_NAME = "tracking.lock"  # locked by the process that sends the run log
_CURSOR_NAME = "tracking.sent.json"

_REQUIRED_FIELDS = {
    "start": {"experiment", "run", "mlflow", "tags"},
    "params": {"values"},
    "metrics": {"step", "values"},
    "tags": {"values"},
    "dataset": {"name", "split", "fingerprint", "source"},
    "model": {"name", "fingerprint", "params", "metrics", "dataset", "digest"},
    "artifact": {"path", "folder"},
    "end": {"status"},
}

Event = dict[str, Any]


class Entry(NamedTuple):
    event: Event | None  # None if the line is not a valid event
    end: int  # offset in bytes of the next line

    @property
    def is_file(self) -> bool:
        return self.event is not None and self.event["event"] == "artifact"


class Journal:
    """Appends events to a file; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: int | None = None
        self._is_incomplete = False  # whether the file's last line is incomplete

    def append(self, event: Mapping[str, Any]) -> None:
        """Writes one line; raises OSError. NaN and infinities become the strings "nan", "inf" and "-inf"."""
        text = json.dumps(_json_value(event), ensure_ascii=False, allow_nan=False, default=str)
        line = text.encode("utf-8", "replace") + b"\n"
        with self._lock:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
                size = os.fstat(self._file).st_size
                self._is_incomplete = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
            n_written = os.write(self._file, b"\n" + line if self._is_incomplete else line)
            self._is_incomplete = n_written < len(line) + self._is_incomplete
            if self._is_incomplete:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def close(self) -> None:
        """Closes the file; the next event opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None


def entries(path: Path, start: int = 0) -> Iterator[Entry]:
    """The complete lines from the byte offset `start` on; empty if the file does not exist."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(start)
        end = start
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            yield Entry(_parse_event(line), end)


def metric_values(event: Event) -> dict[str, float]:
    """The values of a ``metrics`` event; the strings "nan", "inf" and "-inf" become floats again."""
    return {name: float(value) for name, value in event["values"].items()}


def _parse_event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("time"), int | float):
        return None
    required = _REQUIRED_FIELDS.get(event.get("event", ""))
    return None if required is None or not required <= set(event) else event


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value


@dataclass
class Cursor:
    """How much of a run log was sent. Files have their own offset, because only the artifact store may be down."""

    to: str  # destination: MLflow's address without credentials, a space, and the experiment
    run_id: str | None = None  # MLflow's
    sent: int = 0  # offset in bytes up to which all entries except files are sent
    files: int = 0  # offset up to which all files are sent
    rejected: int = 0  # number of values and files that MLflow rejected
    parented: bool = False  # whether the parent run is set in MLflow

    @classmethod
    def load(cls, folder: Path, uri: str, experiment: str) -> Self:
        """The cursor of a run; a new one if its file is missing, damaged, or of another destination."""
        destination = f"{uri} {experiment}"
        try:
            cursor = cls(**json.loads((folder / _CURSOR_NAME).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return cls(destination)
        return cursor if cursor.to == destination else cls(destination)

    def save(self, folder: Path) -> None:
        temporary = folder / f".{_CURSOR_NAME}.{os.getpid()}"
        temporary.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        os.replace(temporary, folder / _CURSOR_NAME)

    def unsent(self, folder: Path, parent: str | None) -> int:
        """The number of unsent entries of the run log in `folder`; a `parent` that is not set yet counts as one."""
        unsent_entries = sum(
            entry.end > (self.files if entry.is_file else self.sent)
            for entry in entries(folder / FILE_NAME, min(self.sent, self.files))
        )
        return unsent_entries + (parent is not None and not self.parented)


def is_locked(folder: Path) -> bool:
    if not (folder / LOCK_NAME).exists():
        return False
    with locked(folder / LOCK_NAME, wait=False) as acquired:
        return not acquired
