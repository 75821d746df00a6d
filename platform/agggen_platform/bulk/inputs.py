"""Records from files of several kinds, as Parquet files that shards can be cut from.

A Parquet file is read where it lies. Records in text files are copied to Parquet in one pass, a line at a time; so are
those of a Parquet file whose row groups are too large to give each worker a few records. A line that is no record
becomes a row that says why.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.delimited import NEEDED, RowGroup, delimiter_in, identifier_of, read_rows
from agggen.corpora.json_lines import read_values
from agggen.corpora.prepared import schema
from agggen.corpora.rejects import Reject
from agggen.corpora.tables import record_of_row
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Plan, Record
from agggen_platform.bulk.config import BulkError
from agggen_platform.sharded.config import ShardedConfig, check_unchanged
from agggen_platform.sharded.output import REJECTS
from agggen_platform.sharded.shards import (
    PARTS_OF_A_GROUP,
    Shard,
    bare_record,
    cut,
    file_at,
    find_duplicates,
    open_parquet,
)
from agggen_platform.storage.folder import Folder

KINDS = ("parquet", "jsonl", "csv")
_NEEDED_COLUMNS = ("id", "triples")
_BUFFER = 1 << 20  # bytes of a text file that are held at once
_ROWS = 1024  # records that are held at once


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


_USERS = ("id", "category", "triples", "plan")  # columns that a user's Parquet file may have


def columns_to_read(address: str) -> Sequence[str]:
    """Those of the file at `address`, or of its copy: a user's Parquet file may have a column ``error`` of its own."""
    return _USERS if _kind(address) == "parquet" else record_schema().names


def read_record(row: Mapping[str, Any]) -> tuple[Record, Plan | None]:
    """The record of a row, and its own plan.

    Raises:
        AggGenError: the row is no record, or its plan none.
    """
    if row.get("error") is not None:
        raise RecordError(row["error"])
    record = bare_record(row)
    return record, Plan.parse(row["plan"]) if row.get("plan") else None


@dataclass(frozen=True)
class InputFile:
    """A file of records, as the user names it."""

    folder: Folder
    name: str
    fingerprint: str
    """Of its content."""
    several: bool
    """Whether there are others, so that a line number does not name a record."""

    @property
    def address(self) -> str:
        return self.folder.at(self.name)

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2].lower()


@dataclass(frozen=True)
class ReadyFile:
    """The Parquet file that an input's records are read from: the input itself, or a copy."""

    input: InputFile
    folder: Folder
    name: str
    groups: tuple[int, ...]
    """The rows of each row group."""

    @property
    def rows(self) -> int:
        return sum(self.groups)

    @property
    def is_text(self) -> bool:
        """Whether records stand on lines, and not in rows."""
        return self.input.kind != "parquet"


def find_inputs(address: str) -> list[InputFile]:
    """The files to read: the one at `address`, or all of a folder, in the order of their names.

    Raises:
        CorpusError: nothing is there, a file is of another kind, or is no Parquet with records.
    """
    if _kind(address) in KINDS:
        folder, name = file_at(address)
        return [_input(folder, name, False)]
    folder = Folder(address)
    if folder.local is not None and folder.local.is_file():
        raise CorpusError(f"{address} is none of the kinds that can be read: {', '.join(KINDS)}")
    names = [name for name in folder.names() if "/" not in name and _kind(name) in KINDS and name != REJECTS]
    if not names:
        raise CorpusError(f"{address} holds no records: no file in it ends in .{', .'.join(KINDS)}")
    return [_input(folder, name, len(names) > 1) for name in names]


def _kind(address: str) -> str:
    return address.rpartition("/")[2].rpartition(".")[2].lower()


def _input(folder: Folder, name: str, several: bool) -> InputFile:
    if _kind(name) == "parquet":
        digest = _opened(folder, name).fingerprint
    else:
        try:
            digest = folder.sha256(name)
        except FileNotFoundError as error:
            raise CorpusError(f"{folder.at(name)} does not exist") from error
    return InputFile(folder, name, digest, several)


def _opened(folder: Folder, name: str) -> Any:
    wanted = record_schema()
    users = pa.schema([wanted.field(column) for column in _USERS])
    return open_parquet(folder, name, users, _NEEDED_COLUMNS)


def ready(inputs: list[InputFile], work: Folder, config: ShardedConfig) -> list[ReadyFile]:
    """Makes the copies that are needed and not yet there.

    Args:
        work: a folder for the copies, which belongs to the job.

    Raises:
        CorpusError: a file as a whole cannot be read.
        BulkError: a file changed since `find_inputs`.
    """
    found: list[ReadyFile] = []
    for number, file in enumerate(inputs):
        if file.kind == "parquet":
            opened = _opened(file.folder, file.name)
            check_unchanged(file.address, file.fingerprint, opened.fingerprint, BulkError)
            groups = opened.groups
            if max(groups, default=0) <= PARTS_OF_A_GROUP * config.rows_a_shard(sum(groups)):
                found.append(ReadyFile(file, file.folder, file.name, groups))
                continue
        name = f"{number:05d}.parquet"
        if work.size(name) is None:
            _copy(file, work, name, min(_ROWS, PARTS_OF_A_GROUP * config.rows_a_shard(0)))
        groups = open_parquet(work, name, pa.schema([]), _NEEDED_COLUMNS).groups
        found.append(ReadyFile(file, work, name, groups))
    return found


def check_in_place(files: list[ReadyFile]) -> None:
    """Passes if what was read where it lies is still what it was; of text files, copies were read.

    Raises:
        BulkError: a file changed since `find_inputs`.
    """
    for file in files:
        if not file.is_text:
            now = _opened(file.input.folder, file.input.name).fingerprint
            check_unchanged(file.input.address, file.input.fingerprint, now, BulkError)


def plan_shards(files: list[ReadyFile], shard_rows: int, part: str) -> list[Shard]:
    """The shards of all files in order, numbered through; the same files and number always give the same shards.

    Args:
        part: the name of a shard's part, with its number in place of ``{}``.
    """
    looked_at = [name for name in record_schema().names if name != "id"]

    def where(number: int, row: int, data: dict[str, Any]) -> str:
        return f"{files[number].input.address}, {_place(data, row)}"

    duplicates = find_duplicates([(file.folder, file.name) for file in files], looked_at, _is_record, where)
    shards: list[Shard] = []
    rows_before = 0
    for file, own in zip(files, duplicates, strict=True):
        address, number = file.input.address, len(shards)
        shards += cut(file.folder, file.name, file.groups, shard_rows, part, own, address, number, rows_before)
        rows_before += file.rows
    return shards


def _is_record(row: dict[str, Any]) -> bool:
    try:
        read_record(row)
    except AggGenError:
        return False
    return True


def _place(row: Mapping[str, Any], number: int) -> str:
    return f"row {number}" if row.get("line") is None else f"line {row['line']}"


# --- copies ----------------------------------------------------------------------------------------------------------


def _copy(file: InputFile, work: Folder, name: str, rows_a_group: int) -> None:
    with work.new(name) as path:
        if file.kind == "parquet":
            _regroup(file, path, rows_a_group)
            return
        with file.folder.open(file.name) as raw:
            digested = _Digested(raw)
            stream = io.BufferedReader(digested, _BUFFER)
            if file.kind != "csv":
                rows = _object_rows(file, read_values(stream, file.address))
            elif delimiter := _wide_columns(file):
                rows = _object_rows(file, _wide_rows(file, stream, delimiter))
            else:
                rows = _csv_rows(file, stream)
            with pq.ParquetWriter(path, record_schema(), compression="zstd") as writer:
                some: list[dict[str, Any]] = []
                for row in rows:
                    some.append(row)
                    if len(some) == rows_a_group:
                        writer.write_table(pa.Table.from_pylist(some, record_schema()))
                        some = []
                writer.write_table(pa.Table.from_pylist(some, record_schema()))
        check_unchanged(file.address, file.fingerprint, digested.sha256.hexdigest(), BulkError)


def _regroup(file: InputFile, path: Path, rows_a_group: int) -> None:
    with file.folder.open(file.name) as raw, pq.ParquetFile(raw, pre_buffer=False) as parquet:
        there = [name for name in _USERS if name in parquet.schema_arrow.names]
        schema = pa.schema([parquet.schema_arrow.field(name) for name in there])
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in parquet.iter_batches(rows_a_group, columns=there):
                writer.write_table(pa.Table.from_batches([batch.select(there)], schema))


class _Digested(io.RawIOBase):
    """What is read through it is digested."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = int(self._raw.readinto(buffer))
        self.sha256.update(memoryview(buffer)[:size])
        return size


def _row(record: Record, line: int, plan: str | None) -> dict[str, Any]:
    triples = [{"subject": t.subject, "predicate": t.predicate, "object": t.object} for t in record.triples]
    return {"id": record.id, "category": record.category, "triples": triples, "plan": plan, "line": line}


def _bad_row(line: int | None, identifier: str | None, reason: str) -> dict[str, Any]:
    named = identifier and identifier.encode(errors="backslashreplace").decode()
    return {"id": named, "line": line, "error": reason.encode(errors="backslashreplace").decode()}


def _wide_columns(file: InputFile) -> str | None:
    """What separates the columns of a CSV that has one record a row; None where it has one triple a row."""
    with file.folder.open(file.name) as raw:
        header = io.BufferedReader(raw).readline(1 << 20)
    delimiter = delimiter_in(header)
    columns = header.decode("utf-8-sig", "replace").lower().split(delimiter)
    return None if len({column.strip(' "\r\n') for column in columns} & set(NEEDED)) > 1 else delimiter


def _wide_rows(file: InputFile, stream: BinaryIO, delimiter: str) -> Iterator[tuple[int, Any] | Reject]:
    for item in read_rows(stream, file.address, (), delimiter, exact=True):
        if not isinstance(item, Reject) and not item[1].get("plan", "-").strip():
            del item[1]["plan"]
        yield item


def _object_rows(file: InputFile, items: Iterator[tuple[int, Any] | Reject]) -> Iterator[dict[str, Any]]:
    """One record an object: of JSON lines, or of a CSV with a column for each predicate."""
    for item in items:
        if isinstance(item, Reject):
            yield _bad_row(item.line, item.id, item.reason)
            continue
        line, value = item
        try:
            plan = value.pop("plan", None) if isinstance(value, dict) else None
            if plan is not None and not isinstance(plan, str):
                raise RecordError(f"a plan must be written as a string, not as {type(plan).__name__}")
            record = record_of_row(value, f"{file.name}:{line}" if file.several else str(line))
        except AggGenError as error:
            identifier = value.get("id") if isinstance(value, dict) else None
            yield _bad_row(line, identifier if isinstance(identifier, str) else None, str(error))
        else:
            yield _row(record, line, plan)


def _csv_rows(file: InputFile, stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Brings the rows of each record together, in the order of the records' first rows, on the disk."""
    with tempfile.TemporaryDirectory(prefix="agggen-") as scratch:
        database = sqlite3.connect(Path(scratch) / "rows.sqlite")
        try:
            database.execute("PRAGMA journal_mode=OFF")  # it goes with this pass
            database.execute("CREATE TABLE rows (id TEXT, line INTEGER, content TEXT)")
            for item in read_rows(stream, file.address, NEEDED):
                if isinstance(item, Reject):
                    yield _bad_row(item.line, item.id, item.reason)
                else:
                    line, row = item
                    database.execute("INSERT INTO rows VALUES (?, ?, ?)", (identifier_of(row), line, json.dumps(row)))
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
        try:
            group.take(line, json.loads(content))
        except RecordError as error:
            yield _bad_row(line, identifier or None, str(error))
    if group.triples:
        try:
            yield _row(group.record(), group.line, group.plan)
        except AggGenError as error:
            yield _bad_row(group.line, identifier, str(error))
