"""Records as rows with the columns of `record_schema`, of objects or of rows; what is no record says why."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from sqlite3 import connect
from typing import Any

import pyarrow as pa

from agggen.corpora.delimited import Row, RowGroup, identifier_of
from agggen.corpora.prepared import schema
from agggen.corpora.rejects import Reject
from agggen.corpora.tables import record_of_row
from agggen.errors import AggGenError, RecordError
from agggen.records import Plan, Record
from agggen_platform.sharded.shards import bare_record


def record_schema() -> pa.Schema:
    """The columns of records to write about, and of the copies of text files.

    plan     the record's own plan, to be followed; null searches
    line     where in a text file the record begins, from 1
    error    why a line is no record
    """
    prepared = schema()
    columns = [
        pa.field("id", pa.string()),
        prepared.field("category"),
        prepared.field("triples").with_nullable(True),
        pa.field("plan", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("error", pa.string()),
    ]
    return pa.schema(columns)


USERS = ("id", "category", "triples", "plan")  # columns that a user's Parquet file may have


def read_record(row: Mapping[str, Any]) -> tuple[Record, Plan | None]:
    """The record of a row, and its own plan.

    Raises:
        AggGenError: the row is no record, or its plan none.
    """
    if row.get("error") is not None:
        raise RecordError(row["error"])
    record = bare_record(row)
    return record, Plan.parse(row["plan"]) if row.get("plan") else None


def is_record(row: dict[str, Any]) -> bool:
    try:
        read_record(row)
    except AggGenError:
        return False
    return True


class Stream(io.RawIOBase):
    """A file that is read through chunk by chunk."""

    def __init__(self, chunks: Iterator[bytes], digest: Any = None) -> None:
        """`digest`: is told all that is read."""
        self._chunks, self._left, self.digest = chunks, memoryview(b""), digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
            if self.digest:
                self.digest.update(self._left)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


class LineReader(io.BufferedReader):
    """A file that is read line by line and knows where it is."""

    place, line = 0, 1
    """The byte and the line that come next."""

    def readline(self, size: int | None = -1) -> bytes:
        content = super().readline(size)
        self.place += len(content)
        self.line += content.endswith(b"\n")
        return content


def _row(record: Record, line: int, plan: str | None) -> dict[str, Any]:
    triples = [{"subject": t.subject, "predicate": t.predicate, "object": t.object} for t in record.triples]
    return {"id": record.id, "category": record.category, "triples": triples, "plan": plan, "line": line}


def _bad_row(line: int | None, identifier: str | None, reason: str) -> dict[str, Any]:
    identifier = identifier and identifier.encode(errors="backslashreplace").decode()
    return {"id": identifier, "line": line, "error": reason.encode(errors="backslashreplace").decode()}


def object_rows(items: Iterator[tuple[int, Any] | Reject], prefix: str) -> Iterator[dict[str, Any]]:
    """One record an object: of JSON lines, or of a table with a column for each predicate. A record without an id is
    called by `prefix` and its line.
    """
    for item in items:
        if isinstance(item, Reject):
            yield _bad_row(item.line, item.id, item.reason)
            continue
        line, value = item
        try:
            plan = value.pop("plan", None) if isinstance(value, dict) else None
            if plan is not None and not isinstance(plan, str):
                raise RecordError(f"a plan must be written as a string, not as {type(plan).__name__}")
            record = record_of_row(value, f"{prefix}{line}")
        except AggGenError as error:
            identifier = value.get("id") if isinstance(value, dict) else None
            yield _bad_row(line, identifier if isinstance(identifier, str) else None, str(error))
        else:
            yield _row(record, line, (plan or "").strip() or None)


def triple_rows(items: Iterator[tuple[int, Any] | Reject]) -> Iterator[dict[str, Any]]:
    """One record for consecutive rows of one id, each row a triple; then what could not be read among them.

    A row without an id is rejected by itself.
    """
    rows: list[Row] = []
    rejects: list[Reject] = []
    for item in chain(items, (None,)):
        if isinstance(item, Reject):
            rejects.append(item)
        elif item and rows and identifier_of(item[1]) == identifier_of(rows[0][1]) != "":
            rows.append(item)
        else:
            if rows:
                yield _record_of(rows)
            yield from (_bad_row(reject.line, reject.id, reject.reason) for reject in rejects)
            rows, rejects = [item] if item else [], []


def _record_of(rows: Sequence[Row]) -> dict[str, Any]:
    group, errors = RowGroup(identifier_of(rows[0][1])), list[tuple[int, str]]()
    for line, row in rows:
        try:
            "".join(row.values()).encode()
            group.take(line, row)
        except UnicodeEncodeError as error:
            errors.append((line, f"not UTF-8 (byte 0x{ord(error.object[error.start]) & 0xFF:02x})"))
        except RecordError as error:
            errors.append((line, str(error)))
    if not errors:
        try:
            return _row(group.record(), group.line, group.plan)
        except AggGenError as error:
            errors.append((group.line, str(error)))
    reason = "; ".join([errors[0][1], *(f"line {line}: {error}" for line, error in errors[1:])])
    return _bad_row(errors[0][0], group.identifier or None, reason)


def brought_together(items: Iterator[Row | Reject]) -> Iterator[Row | Reject]:
    """The rejects, then the rows of each record together, in the order of the records' first rows; uses the disk."""
    with tempfile.TemporaryDirectory(prefix="agggen-") as scratch, closing(connect(f"{scratch}/rows.sqlite")) as rows:
        rows.execute("PRAGMA journal_mode=OFF")  # it goes with this pass
        rows.execute("CREATE TABLE rows (id BLOB, line INTEGER, content TEXT)")
        for item in items:
            if isinstance(item, Reject):
                yield item
            else:
                key = identifier_of(item[1]).encode(errors="surrogateescape")
                rows.execute("INSERT INTO rows VALUES (?, ?, ?)", (key, item[0], json.dumps(item[1])))
        ordered = rows.execute(
            "SELECT line, content FROM rows NATURAL JOIN (SELECT id, MIN(line) AS first FROM rows GROUP BY id) "
            "ORDER BY first, line"
        )
        yield from ((line, json.loads(content)) for line, content in ordered)
