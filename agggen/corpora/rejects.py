"""Bad records as data: one reject names the file, line, record id and reason, and the job goes on.

Readers yield records and rejects in one stream. What is wrong with a single record is a `Reject`; what is wrong with a
file as a whole (missing, empty, not UTF-8, without a needed column) is a `CorpusError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from agggen.errors import CorpusError
from agggen.records import Record


@dataclass(frozen=True, slots=True)
class Reject:
    """A record (or one reference of it) that could not be read; `line` counts from 1, None where it is not known."""

    file: str
    line: int | None
    id: str | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}" if self.id is None else f"{place}: record {self.id!r}: {self.reason}"


def split_rejects(items: Iterable[Record | Reject]) -> tuple[list[Record], list[Reject]]:
    """The records and the rejects of a reader's stream, each in its order."""
    records: list[Record] = []
    rejects: list[Reject] = []
    for item in items:
        if isinstance(item, Reject):
            rejects.append(item)
        else:
            records.append(item)
    return records, rejects


def write_rejects(path: Path | str, rejects: Iterable[Reject]) -> int:
    """Writes one JSON object a line (file, line, id, reason), atomically; returns how many."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        # A reason may quote the very bytes that were wrong, so escapes keep the file valid UTF-8.
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            for reject in rejects:
                stream.write(json.dumps(asdict(reject)) + "\n")
                count += 1
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def check_reject_share(records: int, rejects: list[Reject], limit: float, what: str, noun: str = "records") -> None:
    """Passes if rejects are at most the share `limit` (0..1) of all that was read.

    Raises:
        CorpusError: names the numbers, the limit and the first reject.
    """
    total = records + len(rejects)
    if rejects and len(rejects) / total > limit:
        raise CorpusError(
            f"{what}: {len(rejects)} of {total} {noun} were rejected ({len(rejects) / total:.1%}, at most {limit:.1%} "
            f"allowed); the first: {rejects[0]}"
        )
