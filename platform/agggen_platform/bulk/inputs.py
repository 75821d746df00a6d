"""Input files as shards, which workers read in place.

The driver reads a text file once, for its hash, its ids, and the offsets at which shards may begin, and of a Parquet
file the ids. Since a row of a CSV may span lines, only this reading knows where rows begin. A CSV with one triple a
row, in which the rows of a record are not consecutive, is copied by the driver, as Parquet. An invalid line becomes a
row with an ``error``.
"""

from __future__ import annotations

import hashlib
import io
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.delimited import NEEDED, delimiter_in, identifier_of
from agggen.corpora.delimited import read_rows as read_csv_rows
from agggen.corpora.json_lines import read_values
from agggen.corpora.lines import read_lines
from agggen.corpora.parquet import check_plain
from agggen.corpora.rejects import Reject
from agggen.corpora.tables import id_of_row
from agggen.errors import CorpusError, RecordError
from agggen_platform.bulk.records import (
    USERS,
    LineReader,
    Stream,
    grouped_by_record,
    is_record,
    object_rows,
    record_schema,
    triple_rows,
)
from agggen_platform.sharded.config import SMALLEST_SHARD, check_unchanged
from agggen_platform.sharded.output import REJECTS
from agggen_platform.sharded.shards import (
    IdHashes,
    Shard,
    TextRange,
    check_columns,
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
_BUFFER = 1 << 20  # bytes of a text file that are held at once
_ROWS = 1024  # records that are held at once


@dataclass(frozen=True)
class Lines:
    """The places at which reading of a text file may begin: byte, line, and number of records before it."""

    begins: Sequence[int]
    """Bytes; the last is the end of the file."""
    numbers: Sequence[int]
    firsts: Sequence[int]
    """The last is the number of all records."""
    columns: tuple[str, ...]
    """Of a CSV."""
    delimiter: str
    ids: IdHashes | None
    """Only if ids are compared."""


@dataclass(frozen=True)
class InputFile:
    """A file of records."""

    address: str
    """The user's name of it."""
    folder: Folder
    name: str
    """The name in `folder`, where it or its copy is read."""
    version: str
    """See `Folder.version`."""
    fingerprint: str
    """Of its content."""
    prefix: str
    """Put before the line or row number in the id of a record without one, if there are several files."""
    groups: tuple[int, ...] = ()
    """The rows of each row group of a Parquet file."""
    wide: bool = False
    """Whether a Parquet file has a column for each predicate."""
    lines: Lines | None = None
    """None also for a CSV that must be copied."""

    @property
    def kind(self) -> str:
        return _kind(self.address)

    @property
    def rows(self) -> int:
        return self.lines.firsts[-1] if self.lines else sum(self.groups)


def find_inputs(address: str, shard_rows: int = 0, unique: bool = True) -> list[InputFile]:
    """The files to read: the one at `address`, or all of a folder, in the order of their names.

    Args:
        shard_rows: rows that a shard has at least, 0 for the smallest of `ShardedConfig`.
        unique: whether ids are compared.

    Raises:
        CorpusError: there is no file, it is of another kind, or it has no records.
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
        file = InputFile(folder.at(name), folder, name, folder.version(name), "", prefix)
    except FileNotFoundError as error:
        raise CorpusError(f"{folder.at(name)} does not exist") from error
    if file.kind == "parquet":
        opened = open_parquet(folder, name, _check_parquet)
        wide = "triples" not in opened.columns
        return replace(file, fingerprint=opened.fingerprint, groups=opened.groups, wide=wide)
    hashed = Stream(folder.chunks(name, version=file.version), hashlib.sha256())
    with LineReader(hashed, _BUFFER) as stream:
        lines = _find_lines(file, stream, shard_rows or SMALLEST_SHARD, unique)
    return replace(file, fingerprint=hashed.digest.hexdigest(), lines=lines)


def _check_parquet(schema: pa.Schema, where: str) -> None:
    if "triples" in schema.names or set(schema.names) <= set(USERS):
        expected = record_schema()
        check_columns(schema, pa.schema([expected.field(name) for name in USERS]), ("id", "triples"), where)
    elif _has_triples(schema.names):
        raise CorpusError(f"{where} has one triple a row, which a CSV may have; Parquet needs one record a row")
    else:
        check_plain(schema, where)


def _find_lines(file: InputFile, stream: LineReader, every: int, unique: bool) -> Lines | None:
    """Reads the file; the place of about each `every`-th record, None if rows of a record are not consecutive."""
    delimiter, triples = _csv_form(stream) if file.kind == "csv" else ("", False)
    columns: list[str] = []
    items: Iterator[tuple[int, Any] | Reject] = (
        _values(stream, file.address, delimiter, triples, columns)
        if delimiter or unique
        else _filled_lines(stream, file.address)
    )
    ids = IdHashes() if unique or triples else None
    begins, numbers, firsts = array("q"), array("q"), array("q")
    count, record, names = 0, "", list[str]()
    while True:
        begin, number = stream.place, stream.line
        if (item := next(items, None)) is None:
            break
        rejected = isinstance(item, Reject)
        name = _id_of(item, file.prefix, triples) if ids else ""
        if triples and not rejected:
            if name and name == record:
                continue
            record = name
        # A reject can be a line within a row; both are in the same bytes.
        if not firsts or (count - firsts[-1] >= every and stream.place > begin and not (triples and rejected)):
            begins.append(begin)
            numbers.append(number)
            firsts.append(count)
            if ids:
                ids.add(names)
                names.clear()
        count += 1
        names.append(name)
    if ids:
        ids.add(names)
    begins.append(stream.place)
    firsts.append(count)
    if triples and ids and len(IdHashes.repeated([ids])):
        return None
    return Lines(begins, numbers, firsts, tuple(columns), delimiter, ids)


def _csv_form(stream: io.BufferedReader[Any]) -> tuple[str, bool]:
    """The delimiter of a CSV, and whether it has one triple a row."""
    header = stream.peek().partition(b"\n")[0]
    delimiter = delimiter_in(header)
    return delimiter, _has_triples(
        name.strip(' "\r') for name in header.decode("utf-8-sig", "replace").split(delimiter)
    )


def _has_triples(columns: Iterable[str]) -> bool:
    """Whether the columns are those of one triple a row; one may be missing, which is an error later."""
    return len({name.lower() for name in columns} & set(NEEDED)) > 1


def _id_of(item: tuple[int, Any] | Reject, prefix: str, triples: bool) -> str:
    """The id of an item's record; "" for an invalid one."""
    if isinstance(item, Reject):
        return ""
    line, value = item
    if triples:
        return identifier_of(value)
    try:
        return id_of_row(value, f"{prefix}{line}") if isinstance(value, dict) else ""
    except RecordError:
        return ""


def _filled_lines(stream: BinaryIO, address: str) -> Iterator[tuple[int, str] | Reject]:
    for item in read_lines(stream, address, undecodable="reject"):
        if isinstance(item, Reject) or item[1].strip():
            yield item


def _values(
    stream: BinaryIO, address: str, delimiter: str, triples: bool, columns: list[str], line: int = 1
) -> Iterator[tuple[int, Any] | Reject]:
    """The rows of a CSV, or the values of JSON lines, which have no `delimiter`.

    Args:
        columns: of a CSV whose header is not in the stream; empty, it receives those of the header.
        line: the number of the first.
    """
    if not delimiter:
        return read_values(stream, address, "reject", line)
    needed = NEEDED if triples else ()
    return read_csv_rows(stream, address, needed, delimiter, not triples, "keep", columns, line)


def ready(inputs: list[InputFile], work: Folder) -> list[InputFile]:
    """The files that workers read; copies those that need it, unless they were copied before.

    Args:
        work: the job's folder for copies.

    Raises:
        DamagedError: a file changed since `find_inputs`.
    """
    files: list[InputFile] = []
    for number, file in enumerate(inputs):
        if file.lines and file.folder.local is not None and work.local is None:  # other machines see `work` alone
            name = f"{number:05d}.{file.kind}"
            if work.size(name) != file.lines.begins[-1]:
                work.upload(name, file.folder.local / file.name)
            file = replace(file, folder=work, name=name, version=work.version(name))
        elif file.kind == "csv" and not file.lines:
            name = f"{number:05d}.parquet"
            if work.size(name) is None:
                _copy(file, work, name)
            file = replace(file, folder=work, name=name, groups=open_parquet(work, name).groups)
        files.append(file)
    return files


def check_in_place(inputs: list[InputFile]) -> None:
    """Checks that no file was written since `find_inputs`.

    Raises:
        JobError: one was.
    """
    for file in inputs:
        try:
            now = file.folder.version(file.name)
        except FileNotFoundError:
            now = "gone"
        check_unchanged(file.address, file.version, now)


def plan_shards(files: list[InputFile], shard_rows: int, part: str, unique: bool = True) -> list[Shard]:
    """The shards of all files in order, numbered through; the same files and number always give the same shards.

    Args:
        part: the name of a shard's part, with its number in place of ``{}``.
        unique: whether a record with the id of an earlier one is a duplicate.
    """
    duplicates = _find_duplicates(files) if unique else [{} for _ in files]
    shards: list[Shard] = []
    rows_before = 0
    for file, own in zip(files, duplicates, strict=True):
        number = len(shards)
        if file.lines:
            pairs = sorted(own.items())
            for shard in _cut_lines(file, file.lines, shard_rows, part, number, rows_before):
                shards.append(replace(shard, duplicates=tuple(duplicates_in(pairs, shard.first, shard.rows))))
        else:
            parts = cut(file.folder, file.name, file.groups, shard_rows, part, own, file.address, number, rows_before)
            shards += [replace(shard, prefix=file.prefix) for shard in parts] if file.wide else parts
        rows_before += file.rows
    return shards


def _cut_lines(
    file: InputFile, lines: Lines, shard_rows: int, part: str, first_index: int, rows_before: int
) -> Iterator[Shard]:
    block, index = 0, first_index
    while block < len(lines.numbers):
        first = lines.firsts[block]
        after = max(block + 1, bisect_right(lines.firsts, first + shard_rows) - 1)
        begin, end, rows = lines.begins[block], lines.begins[after], lines.firsts[after] - first
        text = TextRange(begin, end, lines.numbers[block], file.version, lines.delimiter, lines.columns)
        where, name = (file.folder.address, file.name), part.format(f"{index:06d}")
        yield Shard(index, *where, name, (), 0, first, rows, file.address, (), rows_before, text, file.prefix)
        block, index = after, index + 1


def _find_duplicates(files: list[InputFile]) -> list[dict[int, str]]:
    def rows(number: int, repeated: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        file, lines = files[number], files[number].lines
        if not lines:
            for row, data in rows_at(file.folder, file.name, _columns(file.address, file.wide), repeated):
                yield row, next(object_rows(iter([(row, data)]), file.prefix)) if file.wide else data
            return
        blocks, numbers = list(_cut_lines(file, lines, 1, "", 0, 0)), set(repeated.tolist())
        for block in np.unique(np.searchsorted(lines.firsts, repeated, "right") - 1).tolist():
            for first, batch in read_records(blocks[block], _ROWS):
                yield from ((row, data) for row, data in enumerate(batch, start=first) if row in numbers)

    def where(number: int, row: int, data: dict[str, Any]) -> str:
        file = files[number]
        place = f"row {row}" if file.kind == "parquet" else f"line {data['line']}"
        return f"{file.address}, {place}"

    ids = [(file.lines and file.lines.ids) or hash_ids(file.folder, file.name) for file in files]
    return find_repeated(ids, rows, is_record, where)


def read_records(shard: Shard, rows_at_once: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of a shard for `read_record`, in batches, each with the number of its first row.

    Raises:
        CorpusError: a Parquet file has values that could run code.
        DamagedError: a text file was replaced since the shard was cut.
    """
    if (text := shard.text) is None:
        for first, batch in read_rows(shard, rows_at_once, _columns(shard.address, shard.prefix is not None)):
            yield first, batch if shard.prefix is None else list(object_rows(enumerate(batch, first), shard.prefix))
        return
    number, triples = shard.first, _has_triples(text.columns)
    chunks = Folder(shard.folder).chunks(shard.name, text.begin, text.end, text.version)
    with io.BufferedReader(Stream(chunks), _BUFFER) as stream:
        columns = list(text.columns) if text.begin else []
        values = _values(stream, shard.address, text.delimiter, triples, columns, text.line)
        rows = triple_rows(values) if triples else object_rows(values, shard.prefix or "")
        while batch := list(islice(rows, rows_at_once)):
            yield number, batch
            number += len(batch)


def _columns(address: str, wide: bool) -> Sequence[str] | None:
    """The columns to read of a Parquet file at `address`, or of its copy; None: all.

    A user's Parquet file may have its own column ``error``.
    """
    return None if wide else USERS if _kind(address) == "parquet" else record_schema().names


def _copy(file: InputFile, work: Folder, name: str) -> None:
    """Writes the records of a CSV in which rows of a record are not consecutive."""
    chunks = file.folder.chunks(file.name, version=file.version)
    with (
        work.new(name) as path,
        io.BufferedReader(Stream(chunks), _BUFFER) as stream,
        pq.ParquetWriter(path, record_schema(), compression="zstd") as writer,
    ):
        values = _values(stream, file.address, *_csv_form(stream), [])
        rows = triple_rows(grouped_by_record(values))
        while batch := list(islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, record_schema()))
