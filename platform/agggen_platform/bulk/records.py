"""Records as rows with the columns of `record_schema`, read from lines of text; a line that is none says why."""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from agggen.corpora import delimited
from agggen.corpora.delimited import NEEDED, RowGroup, identifier_of
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
        self._chunks, self._left, self._place, self.digest = chunks, memoryview(b""), 0, digest

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
            if self.digest:
                self.digest.update(self._left)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        self._place += size
        return size


def _row(record: Record, line: int, plan: str | None) -> dict[str, Any]:
    triples = [{"subject": t.subject, "predicate": t.predicate, "object": t.object} for t in record.triples]
    return {"id": record.id, "category": record.category, "triples": triples, "plan": plan, "line": line}


def _bad_row(line: int | None, identifier: str | None, reason: str) -> dict[str, Any]:
    identifier = identifier and identifier.encode(errors="backslashreplace").decode()
    return {"id": identifier, "line": line, "error": reason.encode(errors="backslashreplace").decode()}


def object_rows(items: Iterator[tuple[int, Any] | Reject], prefix: str) -> Iterator[dict[str, Any]]:
    """One record an object: of JSON lines, or of a CSV with a column for each predicate. A record without an id is
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
            yield _row(record, line, plan)


def wide_rows(stream: BinaryIO, address: str, delimiter: str) -> Iterator[tuple[int, Any] | Reject]:
    """The rows of a CSV with one record a row, as objects."""
    for item in delimited.read_rows(stream, address, (), delimiter, exact=True, undecodable="keep"):
        if not isinstance(item, Reject) and not item[1].get("plan", "-").strip():
            del item[1]["plan"]
        yield item


def csv_rows(stream: BinaryIO, address: str) -> Iterator[dict[str, Any]]:
    """Brings the rows of each record together, in the order of the records' first rows, on the disk."""
    with tempfile.TemporaryDirectory(prefix="agggen-") as scratch:
        database = sqlite3.connect(Path(scratch) / "rows.sqlite")
        try:
            database.execute("PRAGMA journal_mode=OFF")  # it goes with this pass
            database.execute("CREATE TABLE rows (id TEXT, line INTEGER, content TEXT)")
            for item in delimited.read_rows(stream, address, NEEDED, undecodable="keep"):
                if isinstance(item, Reject):
                    yield _bad_row(item.line, item.id, item.reason)
                    continue
                line, row = item
                name = identifier_of(row)
                try:
                    "".join(row.values()).encode()
                except UnicodeEncodeError as error:
                    byte = ord(error.object[error.start]) & 0xFF
                    yield _bad_row(line, name, f"not UTF-8 (byte 0x{byte:02x})")
                    name, row = name.encode(errors="replace").decode(), {}
                database.execute("INSERT INTO rows VALUES (?, ?, ?)", (name, line, json.dumps(row)))
            ordered = database.execute(
                "SELECT rows.id, rows.line, content FROM rows "
                "JOIN (SELECT id, MIN(line) AS first FROM rows GROUP BY id) AS firsts ON firsts.id = rows.id "
                "ORDER BY first, rows.line"
            )
            for identifier, rows in groupby(ordered, key=lambda found: found[0]):
                yield from _record_rows(identifier, rows)
        finally:
            database.close()


def _record_rows(identifier: str, rows: Iterator[tuple[str, int, str]]) -> Iterator[dict[str, Any]]:
    group = RowGroup(identifier)
    for _, line, content in rows:
        if content == "{}":  # it has been rejected
            group.bad = True
            continue
        try:
            group.take(line, json.loads(content))
        except RecordError as error:
            yield _bad_row(line, identifier or None, str(error))
    if group.triples:
        try:
            yield _row(group.record(), group.line, group.plan)
        except AggGenError as error:
            yield _bad_row(group.line, identifier, str(error))
