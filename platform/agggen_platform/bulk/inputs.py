"""Divides input files into shards, which workers read from the original files.

The driver reads each text file once, to compute its hash and find its ids and the offsets at which shards may begin (a
CSV row may span lines); from a Parquet file it reads only the ids. A CSV with one triple per row in which the rows of a
record are not consecutive is copied to Parquet, grouped by record. An invalid line becomes a row with an ``error``.
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
    USER_COLUMNS,
    LineReader,
    Stream,
    grouped_by_record,
    object_rows,
    read_record,
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
    file_at,
    find_duplicate_rows,
    hash_ids,
    inspect_parquet,
    read_rows,
    rows_at,
    with_indices,
)
from agggen_platform.storage.folder import Folder

KINDS = ("parquet", "jsonl", "csv")
_BUFFER = 1 << 20  # bytes of a text file that are read at once
_ROWS = 1024  # records that are read at once


@dataclass(frozen=True)
class LineIndex:
    """Positions in a text file at which a shard may begin."""

    offsets: Sequence[int]  # in bytes; the last one is the size of the file
    line_numbers: Sequence[int]
    records_before: Sequence[int]  # records before each position; the last one is the total number
    columns: tuple[str, ...]  # of a CSV
    delimiter: str  # of a CSV; empty for JSON lines
    ids: IdHashes | None  # None if ids are not compared


@dataclass(frozen=True)
class InputFile:
    address: str  # as the user gave it
    folder: Folder  # from which the file or its copy is read, under this `name`
    name: str
    version: str  # see `Folder.version`
    fingerprint: str  # a hash of the file's content
    prefix: str  # a record without an id gets this and its line or row number; empty for a single file
    groups: tuple[int, ...] = ()  # the rows of each row group of a Parquet file
    wide: bool = False  # whether a Parquet file has a column for each predicate
    index: LineIndex | None = None  # None for Parquet, and for a CSV that must be copied

    @property
    def kind(self) -> str:
        return _kind(self.address)

    @property
    def rows(self) -> int:
        return self.index.records_before[-1] if self.index else sum(self.groups)


def find_inputs(address: str, shard_rows: int = 0, unique: bool = True) -> list[InputFile]:
    """The input file at `address`, or all input files of a folder, ordered by name.

    Args:
        shard_rows: the smallest number of rows of a shard; 0: the smallest that `ShardedConfig` chooses.
        unique: whether ids are compared.

    Raises:
        CorpusError: there is no such file, it has an unknown format, or it has no records.
    """
    if _kind(address) in KINDS:
        folder, name = file_at(address)
        return [_input(folder, name, "", shard_rows, unique)]
    folder = Folder(address)
    if folder.local is not None and folder.local.is_file():
        raise CorpusError(f"{address} is not a file of records: its name must end in .{', .'.join(KINDS)}")
    names = [name for name in folder.names() if "/" not in name and _kind(name) in KINDS and name != REJECTS]
    if not names:
        raise CorpusError(f"{address} contains no records: no file in it ends in .{', .'.join(KINDS)}")
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
        opened = inspect_parquet(folder, name, _check_parquet)
        wide = "triples" not in opened.columns
        return replace(file, fingerprint=opened.fingerprint, groups=opened.groups, wide=wide)
    hashed = Stream(folder.chunks(name, version=file.version), hashlib.sha256())
    with LineReader(hashed, _BUFFER) as stream:
        index = _index_lines(file, stream, shard_rows or SMALLEST_SHARD, unique)
    return replace(file, fingerprint=hashed.digest.hexdigest(), index=index)


def _check_parquet(schema: pa.Schema, where: str) -> None:
    if "triples" in schema.names or set(schema.names) <= set(USER_COLUMNS):
        expected = record_schema()
        check_columns(schema, pa.schema([expected.field(name) for name in USER_COLUMNS]), ("id", "triples"), where)
    elif _has_triples(schema.names):
        raise CorpusError(f"{where} has one triple per row, as only a CSV may have; Parquet needs one record per row")
    else:
        check_plain(schema, where)


def _index_lines(file: InputFile, stream: LineReader, step: int, unique: bool) -> LineIndex | None:
    """Reads the file and indexes about every `step`-th record; None if the rows of a record are not consecutive."""
    delimiter, triples = _csv_layout(stream) if file.kind == "csv" else ("", False)
    columns: list[str] = []
    items: Iterator[tuple[int, Any] | Reject] = (
        _values(stream, file.address, delimiter, triples, columns)
        if delimiter or unique
        else _nonblank_lines(stream, file.address)
    )
    ids = IdHashes() if unique or triples else None
    offsets, line_numbers, records_before = array("q"), array("q"), array("q")
    count, record, names = 0, "", list[str]()
    rejected_before = list[str]()  # of the rejects since the first row of a record: their ids, or ""
    while True:
        offset, line = stream.offset, stream.line
        if (item := next(items, None)) is None:
            break
        rejected = isinstance(item, Reject)
        name = _id_of(item, file.prefix, triples) if ids else ""
        if rejected and name == record:
            name = ""
        if triples and not rejected:
            if name and name == record:
                continue
            record = name
        # A rejected line within a row is read together with the previous item, so it cannot begin a shard. Nor can a
        # record of which a row was rejected just before.
        is_boundary = stream.offset > offset and not (triples and (rejected or name in rejected_before))
        if triples and rejected:
            rejected_before.append(name)
        elif triples:
            names[len(names) - len(rejected_before) :] = ["" if other == name else other for other in rejected_before]
            rejected_before.clear()
        if not offsets or (is_boundary and count - records_before[-1] >= step):
            offsets.append(offset)
            line_numbers.append(line)
            records_before.append(count)
            if ids:
                ids.add(names)
                names.clear()
        count += 1
        names.append(name)
    if ids:
        ids.add(names)
    offsets.append(stream.offset)
    records_before.append(count)
    if triples and ids and len(IdHashes.repeated([ids])):
        return None
    return LineIndex(offsets, line_numbers, records_before, tuple(columns), delimiter, ids)


def _csv_layout(stream: io.BufferedReader[Any]) -> tuple[str, bool]:
    """The delimiter of a CSV, and whether it has one triple per row."""
    header = stream.peek().partition(b"\n")[0]
    delimiter = delimiter_in(header)
    return delimiter, _has_triples(
        name.strip(' "\r') for name in header.decode("utf-8-sig", "replace").split(delimiter)
    )


def _has_triples(columns: Iterable[str]) -> bool:
    """Whether a table has one triple per row: it has two of the columns `NEEDED`. Without the third, reading fails."""
    return len({name.lower() for name in columns} & set(NEEDED)) > 1


def _id_of(item: tuple[int, Any] | Reject, prefix: str, triples: bool) -> str:
    """The id of an item's record; "" if it is unknown, or if the item is an invalid record."""
    if isinstance(item, Reject):
        return (item.id or "") if triples else ""
    line, value = item
    if triples:
        return identifier_of(value)
    try:
        return id_of_row(value, f"{prefix}{line}") if isinstance(value, dict) else ""
    except RecordError:
        return ""


def _nonblank_lines(stream: BinaryIO, address: str) -> Iterator[tuple[int, str] | Reject]:
    for item in read_lines(stream, address, undecodable="reject"):
        if isinstance(item, Reject) or item[1].strip():
            yield item


def _values(
    stream: BinaryIO, address: str, delimiter: str, triples: bool, columns: list[str], line: int = 1
) -> Iterator[tuple[int, Any] | Reject]:
    """The rows of a CSV, or the values of JSON lines, which have no `delimiter`.

    Args:
        columns: the columns of a CSV whose header is not in the stream. If empty, the columns of the header are added.
        line: the number of the stream's first line.
    """
    if not delimiter:
        return read_values(stream, address, "reject", line)
    needed = NEEDED if triples else ()
    return read_csv_rows(stream, address, needed, delimiter, "keep", columns, line)


def prepare_inputs(inputs: list[InputFile], work: Folder) -> list[InputFile]:
    """The files that workers read: the input files, or copies in `work` of files that workers cannot read.

    Args:
        work: the job's folder for copies; existing copies are reused.

    Raises:
        DamagedError: a file changed since `find_inputs`.
    """
    files: list[InputFile] = []
    for number, file in enumerate(inputs):
        if file.index and file.folder.local is not None and work.local is None:  # other machines can only read `work`
            name = f"{number:05d}.{file.kind}"
            if work.size(name) != file.index.offsets[-1]:
                work.upload(name, file.folder.local / file.name)
            file = replace(file, folder=work, name=name, version=work.version(name))
        elif file.kind == "csv" and not file.index:
            name = f"{number:05d}.parquet"
            if work.size(name) is None:
                _copy(file, work, name)
            file = replace(file, folder=work, name=name, groups=inspect_parquet(work, name).groups)
        files.append(file)
    return files


def check_inputs_unchanged(inputs: list[InputFile]) -> None:
    """Raises JobError if a file was modified or deleted since `find_inputs`."""
    for file in inputs:
        try:
            version = file.folder.version(file.name)
        except FileNotFoundError:
            version = "gone"
        check_unchanged(file.address, file.version, version)


def plan_shards(files: list[InputFile], shard_rows: int, part: str, unique: bool = True) -> list[Shard]:
    """The shards of all files in order, numbered consecutively; the result is deterministic.

    Args:
        part: the name of a shard's part, with ``{}`` in place of the shard's index.
        unique: whether a record with the id of an earlier record is a duplicate.
    """
    duplicates = _find_duplicates(files) if unique else [{} for _ in files]
    shards: list[Shard] = []
    rows_before = 0
    for file, own in zip(files, duplicates, strict=True):
        pieces = (replace(piece, rows_before=rows_before) for piece in _cut(file, shard_rows))
        shards += with_indices(pieces, part, own, len(shards))
        rows_before += file.rows
    return shards


def _cut(file: InputFile, shard_rows: int) -> Iterator[Shard]:
    prefix = file.prefix if file.index or file.wide else None
    whole = Shard(0, file.folder.address, file.name, "", (), 0, 0, file.rows, file.address, prefix=prefix)
    if (lines := file.index) is None:
        yield from cut(whole, file.groups, shard_rows)
        return
    block = 0
    while block < len(lines.line_numbers):
        first = lines.records_before[block]
        after = max(block + 1, bisect_right(lines.records_before, first + shard_rows) - 1)
        begin, end, rows = lines.offsets[block], lines.offsets[after], lines.records_before[after] - first
        text = TextRange(begin, end, lines.line_numbers[block], file.version, lines.delimiter, lines.columns)
        yield replace(whole, first=first, rows=rows, text=text)
        block = after


def _find_duplicates(files: list[InputFile]) -> list[dict[int, str]]:
    def rows(number: int, repeated: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        file, lines = files[number], files[number].index
        if not lines:
            for row, data in rows_at(file.folder, file.name, _columns(file.address, file.wide), repeated):
                yield row, next(object_rows(iter([(row, data)]), file.prefix)) if file.wide else data
            return
        blocks, numbers = list(_cut(file, 1)), set(repeated.tolist())
        for block in np.unique(np.searchsorted(lines.records_before, repeated, "right") - 1).tolist():
            for first, batch in read_records(blocks[block], _ROWS):
                yield from ((row, data) for row, data in enumerate(batch, start=first) if row in numbers)

    def where(number: int, row: int, data: dict[str, Any]) -> str:
        file = files[number]
        position = f"row {row}" if file.kind == "parquet" else f"line {data['line']}"
        return f"{file.address}, {position}"

    ids = [
        (file.index and file.index.ids) or hash_ids(file.folder, file.name, file.prefix if file.wide else None)
        for file in files
    ]
    return find_duplicate_rows(ids, rows, read_record, where)


def read_records(shard: Shard, batch_rows: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Batches of the rows of a shard, for `read_record`, each batch with the number of its first row.

    Raises:
        CorpusError: a Parquet file has values that could run code.
        DamagedError: a text file was replaced since the shard was cut.
    """
    if (text := shard.text) is None:
        for first, batch in read_rows(shard, batch_rows, _columns(shard.address, shard.prefix is not None)):
            yield first, batch if shard.prefix is None else list(object_rows(enumerate(batch, first), shard.prefix))
        return
    number, triples = shard.first, _has_triples(text.columns)
    chunks = Folder(shard.folder).chunks(shard.name, text.begin, text.end, text.version)
    with io.BufferedReader(Stream(chunks), _BUFFER) as stream:
        columns = list(text.columns) if text.begin else []
        values = _values(stream, shard.address, text.delimiter, triples, columns, text.line)
        rows = triple_rows(values) if triples else object_rows(values, shard.prefix or "")
        while batch := list(islice(rows, batch_rows)):
            yield number, batch
            number += len(batch)


def _columns(address: str, wide: bool) -> Sequence[str] | None:
    """The columns to read from a Parquet input, or from the copy of a CSV at `address`; None: all columns.

    The column ``error`` is read only from copies: in a user's Parquet file it may have any meaning.
    """
    return None if wide else USER_COLUMNS if _kind(address) == "parquet" else record_schema().names


def _copy(file: InputFile, work: Folder, name: str) -> None:
    """Copies a CSV in which the rows of a record are not consecutive to Parquet, one record per row."""
    chunks = file.folder.chunks(file.name, version=file.version)
    with (
        work.new(name) as path,
        io.BufferedReader(Stream(chunks), _BUFFER) as stream,
        pq.ParquetWriter(path, record_schema(), compression="zstd") as writer,
    ):
        values = _values(stream, file.address, *_csv_layout(stream), [])
        rejected = set[str | None]()
        rows = triple_rows(grouped_by_record(values, rejected), rejected)
        while batch := list(islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, record_schema()))
