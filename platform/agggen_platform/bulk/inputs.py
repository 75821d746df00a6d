"""Records from files of several kinds, as shards that workers read.

A Parquet file and a file of JSON lines are read where they lie; the driver reads JSON lines once, for their hash, their
ids, and where each run of lines begins. Records of a CSV file, whose rows may lie anywhere in it, are copied to Parquet
by the driver; so are those of a Parquet file whose row groups are too large to give each worker a few records. A line
that is no record becomes a row that says why.
"""

from __future__ import annotations

import hashlib
import io
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.delimited import NEEDED, delimiter_in
from agggen.corpora.json_lines import read_values
from agggen.corpora.lines import read_lines
from agggen.corpora.rejects import Reject
from agggen.corpora.tables import id_of_row
from agggen.errors import CorpusError, RecordError
from agggen_platform.bulk.config import BulkError
from agggen_platform.bulk.records import USERS, Stream, csv_rows, is_record, object_rows, record_schema, wide_rows
from agggen_platform.sharded.config import SMALLEST_SHARD, ShardedConfig, check_unchanged
from agggen_platform.sharded.output import REJECTS
from agggen_platform.sharded.shards import (
    PARTS_OF_A_GROUP,
    IdHashes,
    Shard,
    TextRange,
    cut,
    duplicates_in,
    file_at,
    find_repeated,
    hash_ids,
    open_parquet,
    read_rows,
    rows_at,
)
from agggen_platform.storage.folder import Folder

KINDS = ("parquet", "jsonl", "csv")
_NEEDED_COLUMNS = ("id", "triples")
_BUFFER = 1 << 20  # bytes of a text file that are held at once
_ROWS = 1024  # records that are held at once


def _columns_to_read(address: str) -> Sequence[str]:
    """Those of the file at `address`, or of its copy: a user's Parquet file may have a column ``error`` of its own."""
    return USERS if _kind(address) == "parquet" else record_schema().names


@dataclass(frozen=True)
class Lines:
    """Where the rows of a file of JSON lines stand: the byte and the line at which every `every`-th begins."""

    every: int
    bytes: Sequence[int]
    """With the end of the file at last."""
    numbers: Sequence[int]
    rows: int


@dataclass(frozen=True)
class InputFile:
    """A file of records, as the user names it."""

    folder: Folder
    name: str
    version: str
    """As `Folder.version` has it."""
    fingerprint: str
    """Of its content."""
    prefix: str
    """Before the line number in the id of a record without one: there may be other files."""
    groups: tuple[int, ...] = ()
    """The rows of each row group of a Parquet file."""
    lines: Lines | None = None
    ids: IdHashes | None = field(default=None, compare=False)
    """Of JSON lines, if they are to be unique."""

    @property
    def address(self) -> str:
        return self.folder.at(self.name)

    @property
    def kind(self) -> str:
        return _kind(self.name)


@dataclass(frozen=True)
class ReadyFile:
    """The file that an input's records are read from: the input itself, or a copy."""

    input: InputFile
    folder: Folder
    name: str
    groups: tuple[int, ...] = ()
    """The rows of each row group of a Parquet file."""
    version: str = ""
    """Of a text file."""

    @property
    def rows(self) -> int:
        return self.input.lines.rows if self.input.lines else sum(self.groups)


def find_inputs(address: str, shard_rows: int = 0, unique: bool = True) -> list[InputFile]:
    """The files to read: the one at `address`, or all of a folder, in the order of their names.

    Args:
        shard_rows: rows that a shard has at least, 0 for the smallest of `ShardedConfig`.
        unique: whether ids are to be compared.

    Raises:
        CorpusError: nothing is there, a file is of another kind, or is no Parquet with records.
    """
    if _kind(address) in KINDS:
        folder, name = file_at(address)
        return [_input(folder, name, "", shard_rows, unique)]
    folder = Folder(address)
    if folder.local is not None and folder.local.is_file():
        raise CorpusError(f"{address} is none of the kinds that can be read: {', '.join(KINDS)}")
    names = [name for name in folder.names() if "/" not in name and _kind(name) in KINDS and name != REJECTS]
    if not names:
        raise CorpusError(f"{address} holds no records: no file in it ends in .{', .'.join(KINDS)}")
    several = len(names) > 1
    return [_input(folder, name, f"{name}:" if several else "", shard_rows, unique) for name in names]


def _kind(address: str) -> str:
    return address.rpartition("/")[2].rpartition(".")[2].lower()


def _input(folder: Folder, name: str, prefix: str, shard_rows: int, unique: bool) -> InputFile:
    try:
        version = folder.version(name)
    except FileNotFoundError as error:
        raise CorpusError(f"{folder.at(name)} does not exist") from error
    if _kind(name) == "parquet":
        wanted = record_schema()
        users = pa.schema([wanted.field(column) for column in USERS])
        opened = open_parquet(folder, name, users, _NEEDED_COLUMNS)
        return InputFile(folder, name, version, opened.fingerprint, prefix, opened.groups)
    file = InputFile(folder, name, version, "", prefix, ids=IdHashes() if unique else None)
    hashed = Stream(folder.chunks(name, version=version), hashlib.sha256())
    lines = None
    with io.BufferedReader(hashed, _BUFFER) as stream:
        if file.kind == "csv":
            while stream.read(_BUFFER):
                pass
        else:
            lines = _find_lines(file, stream, shard_rows or SMALLEST_SHARD)
    return replace(file, fingerprint=hashed.digest.hexdigest(), lines=lines)


def _find_lines(file: InputFile, stream: io.BufferedReader[Any], every: int) -> Lines:
    rows = _named_rows(file, stream) if file.ids else _unnamed_rows(file, stream)
    begins, numbers = array("q"), array("q")
    count, begin, number = 0, 0, 1
    while block := list(islice(rows, every)):
        begins.append(begin)
        numbers.append(number)
        count, begin, number = count + len(block), stream.tell(), block[-1][0] + 1
        if file.ids:
            file.ids.add(name for _, name in block)
    begins.append(stream.tell())
    return Lines(every, begins, numbers, count)


def _named_rows(file: InputFile, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The line of each row, and the id of its record; "" if it certainly holds none."""
    for item in read_values(stream, file.address, "reject"):
        if isinstance(item, Reject):
            yield item.line or 0, ""
        else:
            line, value = item
            try:
                yield line, id_of_row(value, f"{file.prefix}{line}") if isinstance(value, dict) else ""
            except RecordError:
                yield line, ""


def _unnamed_rows(file: InputFile, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The same rows without their ids."""
    for item in read_lines(stream, file.address, undecodable="reject"):
        if isinstance(item, Reject):
            yield item.line or 0, ""
        elif item[1].strip():
            yield item[0], ""


def ready(inputs: list[InputFile], work: Folder, config: ShardedConfig) -> list[ReadyFile]:
    """Makes the copies that are needed and not yet there.

    Args:
        work: a folder for the copies, which belongs to the job.

    Raises:
        CorpusError: a file as a whole cannot be read.
        DamagedError: a file changed since `find_inputs`.
    """
    files: list[ReadyFile] = []
    for number, file in enumerate(inputs):
        folder, name, groups = file.folder, file.name, file.groups
        if file.lines:
            if folder.local is not None and work.local is None:  # other machines see the work folder alone
                folder, name = work, f"{number:05d}.jsonl"
                if work.size(name) != file.lines.bytes[-1]:
                    work.upload(name, file.folder.local / file.name)  # type: ignore[operator]
            files.append(ReadyFile(file, folder, name, version=folder.version(name)))
            continue
        if file.kind == "csv" or max(groups, default=0) > PARTS_OF_A_GROUP * config.rows_a_shard(sum(groups)):
            folder, name = work, f"{number:05d}.parquet"
            if work.size(name) is None:
                _copy(file, work, name, min(_ROWS, PARTS_OF_A_GROUP * config.rows_a_shard(0)))
            groups = open_parquet(work, name, pa.schema([]), _NEEDED_COLUMNS).groups
        files.append(ReadyFile(file, folder, name, groups))
    return files


def check_in_place(inputs: list[InputFile]) -> None:
    """Passes if no file was written since `find_inputs`.

    Raises:
        BulkError: one was.
    """
    for file in inputs:
        try:
            now = file.folder.version(file.name)
        except FileNotFoundError:
            now = "gone"
        check_unchanged(file.address, file.version, now, BulkError)


def plan_shards(files: list[ReadyFile], shard_rows: int, part: str, unique: bool = True) -> list[Shard]:
    """The shards of all files in order, numbered through; the same files and number always give the same shards.

    Args:
        part: the name of a shard's part, with its number in place of ``{}``.
        unique: whether a record is a duplicate whose id an earlier one has.
    """
    duplicates = _find_duplicates(files) if unique else [{} for _ in files]
    shards: list[Shard] = []
    rows_before = 0
    for file, own in zip(files, duplicates, strict=True):
        address, number = file.input.address, len(shards)
        if file.input.lines:
            pairs = sorted(own.items())
            for shard in _cut_lines(file, file.input.lines, shard_rows, part, number, rows_before):
                shards.append(replace(shard, duplicates=tuple(duplicates_in(pairs, shard.first, shard.rows))))
        else:
            shards += cut(file.folder, file.name, file.groups, shard_rows, part, own, address, number, rows_before)
        rows_before += file.rows
    return shards


def _cut_lines(
    file: ReadyFile, lines: Lines, shard_rows: int, part: str, first_index: int, rows_before: int
) -> Iterator[Shard]:
    blocks = max(1, shard_rows // lines.every)
    for number, block in enumerate(range(0, len(lines.numbers), blocks), start=first_index):
        first, after = block * lines.every, min(block + blocks, len(lines.numbers))
        rows = min(after * lines.every, lines.rows) - first
        begin, end = lines.bytes[block], lines.bytes[after]
        text = TextRange(begin, end, lines.numbers[block], file.input.prefix, file.version)
        name, address = part.format(f"{number:06d}"), file.input.address
        yield Shard(number, file.folder.address, file.name, name, (), 0, first, rows, address, (), rows_before, text)


def _find_duplicates(files: list[ReadyFile]) -> list[dict[int, str]]:
    columns = record_schema().names

    def rows(number: int, wanted: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        file, lines = files[number], files[number].input.lines
        if not lines:
            yield from rows_at(file.folder, file.name, columns, wanted)
            return
        blocks, numbers = list(_cut_lines(file, lines, lines.every, "", 0, 0)), set(wanted.tolist())
        for block in np.unique(wanted // lines.every).tolist():
            for first, some in read_records(blocks[block], lines.every):
                yield from ((row, data) for row, data in enumerate(some, start=first) if row in numbers)

    def where(number: int, row: int, data: dict[str, Any]) -> str:
        place = f"row {row}" if data.get("line") is None else f"line {data['line']}"
        return f"{files[number].input.address}, {place}"

    ids = [(file.input.ids if file.input.lines else None) or hash_ids(file.folder, file.name) for file in files]
    return find_repeated(ids, rows, is_record, where)


def read_records(shard: Shard, rows_at_once: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of a shard as `read_record` takes them, some at a time, each time with the number of the first.

    Raises:
        CorpusError: a Parquet file has values that could run code.
        DamagedError: a text file was replaced since the shard was cut.
    """
    if shard.text is None:
        yield from read_rows(shard, rows_at_once, _columns_to_read(shard.address))
        return
    where, number = shard.text, shard.first
    chunks = Folder(shard.folder).chunks(shard.name, where.begin, where.end, where.version)
    with io.BufferedReader(Stream(chunks), _BUFFER) as stream:
        rows = object_rows(read_values(stream, shard.address, "reject", where.line), where.prefix)
        while some := list(islice(rows, rows_at_once)):
            yield number, some
            number += len(some)


# --- copies ----------------------------------------------------------------------------------------------------------


def _copy(file: InputFile, work: Folder, name: str, rows_a_group: int) -> None:
    with work.new(name) as path:
        if file.kind == "parquet":
            _regroup(file, path, rows_a_group)
            return
        chunks = file.folder.chunks(file.name, version=file.version)
        with io.BufferedReader(Stream(chunks), _BUFFER) as stream:
            if delimiter := _wide_columns(file):
                rows = object_rows(wide_rows(stream, file.address, delimiter), file.prefix)
            else:
                rows = csv_rows(stream, file.address)
            with pq.ParquetWriter(path, record_schema(), compression="zstd") as writer:
                while some := list(islice(rows, rows_a_group)):
                    writer.write_table(pa.Table.from_pylist(some, record_schema()))


def _regroup(file: InputFile, path: Path, rows_a_group: int) -> None:
    with file.folder.open(file.name) as raw, pq.ParquetFile(raw, pre_buffer=False) as parquet:
        there = [name for name in USERS if name in parquet.schema_arrow.names]
        schema = pa.schema([parquet.schema_arrow.field(name) for name in there])
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in parquet.iter_batches(rows_a_group, columns=there):
                writer.write_table(pa.Table.from_batches([batch.select(there)], schema))


def _wide_columns(file: InputFile) -> str | None:
    """What separates the columns of a CSV that has one record a row; None where it has one triple a row."""
    with io.BufferedReader(Stream(file.folder.chunks(file.name, version=file.version)), _BUFFER) as stream:
        header = stream.readline(1 << 20)
    delimiter = delimiter_in(header)
    columns = header.decode("utf-8-sig", "replace").lower().split(delimiter)
    return None if len({column.strip(' "\r\n') for column in columns} & set(NEEDED)) > 1 else delimiter
