"""Converts JSON objects and table rows to rows of `record_schema`; an invalid item becomes a row with an ``error``."""

import io
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain
from sqlite3 import connect
from typing import Any

import pyarrow as pa

from agggen.corpora.lines import Row, identifier_of
from agggen.corpora.prepared import schema
from agggen.corpora.rejects import Reject
from agggen.corpora.tables import REJECTED_ROW, read_table, record_of_row, text_of
from agggen.errors import AggGenError, RecordError
from agggen.records import Plan, Record
from agggen_platform.sharded.shards import record_without_references


def record_schema() -> pa.Schema:
    """The columns of input records, and of the copies of text files.

    plan     the plan to follow; null: the model chooses a plan
    line     the first line of the record in a text file, from 1
    error    why the row is invalid
    """
    text = pa.string()
    category, triples = schema().field("category"), schema().field("triples").with_nullable(True)
    return pa.schema([("id", text), category, triples, ("plan", text), ("line", pa.int64()), ("error", text)])


USER_COLUMNS = ("id", "category", "triples", "plan")  # the columns read from a user's Parquet file


def read_record(row: Mapping[str, Any]) -> tuple[Record, Plan | None]:
    """The record of a row, and the plan in the row (None if there is none); raises AggGenError for an invalid row."""
    if row.get("error") is not None:
        raise RecordError(row["error"])
    return record_without_references(row), Plan.parse(row["plan"]) if row.get("plan") else None


class Stream(io.RawIOBase):
    """A readable stream over chunks of bytes; `digest`: a hash object that is updated with all bytes read."""

    def __init__(self, chunks: Iterator[bytes], digest: Any = None) -> None:
        self._chunks, self._unread, self.digest = chunks, memoryview(b""), digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._unread:
            self._unread = memoryview(next(self._chunks, b""))
            if self.digest:
                self.digest.update(self._unread)
        size = min(len(buffer), len(self._unread))
        buffer[:size], self._unread = self._unread[:size], self._unread[size:]
        return size


class LineReader(io.BufferedReader):
    """A stream that counts the bytes and lines read by `readline`."""

    offset, line = 0, 1  # the next line's byte offset, and its number from 1

    def readline(self, size: int | None = -1) -> bytes:
        content = super().readline(size)
        self.offset += len(content)
        self.line += content.endswith(b"\n")
        return content


def _row(record: Record, line: int, plan: str | None) -> dict[str, Any]:
    triples = list(map(asdict, record.triples))
    return {"id": record.id, "category": record.category, "triples": triples, "plan": plan, "line": line}


def _invalid_row(line: int | None, identifier: str | None, reason: str) -> dict[str, Any]:
    identifier = identifier and identifier.encode(errors="backslashreplace").decode()
    return {"id": identifier, "line": line, "error": reason.encode(errors="backslashreplace").decode()}


def object_rows(items: Iterator[tuple[int, Any] | Reject], prefix: str) -> Iterator[dict[str, Any]]:
    """One row of `record_schema` per JSON object or row of a wide table; the default id is `prefix` + line number."""
    for item in items:
        if isinstance(item, Reject):
            yield _invalid_row(item.line, item.id, item.reason)
            continue
        line, value = item
        fields = value if isinstance(value, dict) else {}
        try:
            plan = fields.pop("plan", None)
            if plan is not None and not isinstance(plan, str):
                raise RecordError(f"a plan must be written as a string, not as {type(plan).__name__}")
            row = _row(record_of_row(value, f"{prefix}{line}"), line, text_of(plan))
        except AggGenError as error:
            identifier = fields.get("id")
            row = _invalid_row(line, identifier if isinstance(identifier, str) else None, str(error))
        yield row


def triple_rows(
    items: Iterator[tuple[int, Any] | Reject], rejected_ids: Collection[str | None] = ()
) -> Iterator[dict[str, Any]]:
    """Rows of `record_schema` for a table with one triple per row: one per record, followed by its rejected rows.

    Consecutive rows with the same id form a record; rows without an id are rejected. A record is invalid if its id is
    in `rejected_ids`, or if a row with its id was rejected among its rows or directly before them.
    """
    rows: list[Row] = []
    rejects_before: list[Reject] = []
    rejects: list[Reject] = []
    for item in chain(items, (None,)):
        if isinstance(item, Reject):
            rejects.append(item)
        elif item and rows and identifier_of(item[1]) == identifier_of(rows[0][1]) != "":
            rows.append(item)
        else:
            if rows:
                identifier = identifier_of(rows[0][1])
                nearby_ids = {reject.id for reject in (*rejects_before, *rejects)}
                is_invalid = identifier in rejected_ids or identifier in nearby_ids
                yield _invalid_row(rows[0][0], identifier, REJECTED_ROW) if is_invalid else _row_of_triples(rows)
            yield from (_invalid_row(reject.line, reject.id, reject.reason) for reject in rejects)
            rows, rejects_before, rejects = [item] if item else [], rejects, []


def _row_of_triples(rows: Sequence[Row]) -> dict[str, Any]:
    """The row of `record_schema` for the record in `rows`, which have one triple each and the same id."""
    table = read_table(((line, row | {"split": ""}) for line, row in rows), "")
    if table.rejects:
        # Quotes the reasons of the invalid rows, not REJECTED_ROW, the reason of a record with an invalid row.
        first, *later = [reject for reject in table.rejects if reject.reason != REJECTED_ROW] or table.rejects
        reason = "; ".join([first.reason, *(f"line {reject.line}: {reject.reason}" for reject in later)])
        return _invalid_row(first.line, identifier_of(rows[0][1]) or None, reason)
    ((record,),) = table.records.values()
    try:
        plans = [text_of(row.get("plan")) for _, row in rows]
    except RecordError as error:
        return _invalid_row(rows[0][0], record.id, str(error))
    return _row(record, rows[0][0], next(filter(None, plans), None))


def grouped_by_record(items: Iterator[Row | Reject], rejected_ids: set[str | None]) -> Iterator[Row | Reject]:
    """The rejects, whose ids it adds to `rejected_ids`, then all rows grouped by record, in the order of first rows."""
    with tempfile.TemporaryDirectory(prefix="agggen-") as scratch, closing(connect(f"{scratch}/rows.sqlite")) as table:
        table.execute("PRAGMA journal_mode=OFF")  # a temporary file needs no crash recovery
        table.execute("CREATE TABLE rows (id BLOB, line INTEGER, content TEXT)")
        for item in items:
            if isinstance(item, Reject):
                rejected_ids.add(item.id)
                yield item
            else:
                line, row = item
                key = identifier_of(row).encode(errors="surrogateescape")
                table.execute("INSERT INTO rows VALUES (?, ?, ?)", (key, line, json.dumps(row)))
        ordered_rows = table.execute(
            "SELECT line, content FROM rows NATURAL JOIN (SELECT id, MIN(line) AS first FROM rows GROUP BY id) "
            "ORDER BY first, line"
        )
        yield from ((line, json.loads(content)) for line, content in ordered_rows)
