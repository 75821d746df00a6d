"""Rejects: invalid records, with file, line, record id and reason.

Readers yield records and rejects in one stream. An invalid record is a `Reject`; an invalid file (missing, empty, not
UTF-8, without a required column) is a `CorpusError`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from agggen.errors import CorpusError
from agggen.files import replacing
from agggen.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reject:
    """An invalid record or reference; `line` counts from 1, None if unknown."""

    file: str
    line: int | None
    id: str | None
    reason: str

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        omits_id = self.id is None or self.reason.startswith(f"record {self.id!r}")
        return f"{location}: {self.reason}" if omits_id else f"{location}: record {self.id!r}: {self.reason}"


def split_rejects(items: Iterable[Record | Reject]) -> tuple[list[Record], list[Reject]]:
    """The records and the rejects of a reader's stream, both in its order."""
    all_items = list(items)
    records = [item for item in all_items if isinstance(item, Record)]
    return records, [item for item in all_items if isinstance(item, Reject)]


def without_rejects(items: Iterable[T | Reject]) -> Iterator[T]:
    """The items of a reader's stream; raises CorpusError at the first reject."""
    for item in items:
        if isinstance(item, Reject):
            raise CorpusError(f"{item.file}, line {item.line}: {item.reason}")
        yield item


def write_rejects(path: Path | str, rejects: Iterable[Reject]) -> int:
    """Writes the rejects as JSON lines (file, line, id, reason), atomically; returns their number."""
    count = 0
    # Non-ASCII characters are escaped, since a reason may quote characters that are invalid in UTF-8.
    with replacing(Path(path)) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for reject in rejects:
            stream.write(json.dumps(asdict(reject)) + "\n")
            count += 1
    return count


def check_reject_share(n_records: int, rejects: list[Reject], limit: float, source: str, noun: str = "records") -> None:
    """Raises CorpusError if more than the fraction `limit` of all items is rejected; `n_records`: the valid items."""
    n_items = n_records + len(rejects)
    if rejects and (share := len(rejects) / n_items) > limit:
        raise CorpusError(
            f"{source}: {len(rejects)} of {n_items} {noun} were rejected ({share:.1%}, at most {limit:.1%} allowed); "
            f"the first: {rejects[0]}"
        )
