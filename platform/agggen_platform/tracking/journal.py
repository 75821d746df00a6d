"""The run log's file: one JSON line per event. It is authoritative; MLflow gets the same events, in this order.

Each line is appended by one write, so two processes may log to the same file. A killed writer may leave an incomplete
last line: it is skipped, and the next event begins on a new line.
"""

from __future__ import annotations

import errno
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

NAME = "tracking.jsonl"

# The required fields of each kind of event, in addition to `event` (its kind) and `time`.
_KINDS = {
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
    event: Event | None  # None: the line is not an event (incomplete, or edited by hand)
    end: int  # offset of the next line, in bytes

    @property
    def is_file(self) -> bool:
        return self.event is not None and self.event["event"] == "artifact"


class Journal:
    """Appends events to a file; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: int | None = None
        self._torn = False  # whether the file's last line is incomplete

    def append(self, event: Mapping[str, Any]) -> None:
        """Writes one line, or raises OSError. NaN and infinities become the strings "nan", "inf" and "-inf"."""
        text = json.dumps(_finite(event), ensure_ascii=False, allow_nan=False, default=str)
        line = text.encode("utf-8", "replace") + b"\n"
        with self._lock:
            file = self._open()
            written = os.write(file, b"\n" + line if self._torn else line)
            self._torn = written < len(line) + self._torn
            if self._torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def close(self) -> None:
        """Closes the file; the next event opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        return self._file


def entries(path: Path, start: int = 0) -> Iterator[Entry]:
    """The complete lines from the offset `start` on; none if the file does not exist."""
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
            yield Entry(_event(line), end)


def numbers(event: Event) -> dict[str, float]:
    return {name: float(value) for name, value in event["values"].items()}


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("time"), int | float):
        return None
    needed = _KINDS.get(event.get("event", ""))
    return None if needed is None or not needed <= set(event) else event


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
