"""Divides input files into shards, which workers read from the original files.

The driver reads each text file once for its hash, its ids and the byte offsets at which shards may begin (a CSV row may
span lines); from a Parquet file it reads only the ids. If a CSV has one triple per row and the rows of a record are not
consecutive, the driver copies it to Parquet, grouped by record. An invalid line becomes a row with an ``error``.
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

from agggen.corpora.delimited import TRIPLE_COLUMNS, delimiter_in, identifier_of
from agggen.corpora.delimited import read_rows as read_csv_rows
from agggen.corpora.json_lines import read_values
from agggen.corpora.lines import read_lines
from agggen.corpora.parquet import check_no_extension_types
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
_BUFFER = 1 << 20  # bytes per read of a text file
_ROWS = 1024  # records per batch


@dataclass(frozen=True)
class LineIndex:
    """Positions in a text file at which a shard may begin."""

    offsets: Sequence[int]  # byte offset of each position; the last one is the size of the file
    line_numbers: Sequence[int]  # line number of each position
    records_before: Sequence[int]  # number of records before each position; the last one is the total
    columns: tuple[str, ...]  # columns of a CSV
    delimiter: str  # delimiter of a CSV; empty for JSON lines
    ids: IdHashes | None  # None if ids may repeat


@dataclass(frozen=True)
class InputFile:
    address: str  # the original file, for messages
    folder: Folder  # the folder of the original file or of its copy
    name: str  # the file's name in `folder`
    version: str  # see `Folder.version`
    fingerprint: str  # a hash of the file's content
    prefix: str  # the generated id of a record without an id: `prefix` + line or row number; empty for a single file
    groups: tuple[int, ...] = ()  # number of rows of each row group of a Parquet file
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
        shard_rows: the minimum number of rows per shard; 0: the smallest value that `ShardedConfig` may choose.
        unique: whether to hash the ids, to find duplicates.

    Raises:
        CorpusError: a file does not exist or has an unknown format, or a folder contains no file of records.
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


def _check_parquet(schema: pa.Schema, address: str) -> None:
    if "triples" in schema.names or set(schema.names) <= set(USER_COLUMNS):
        expected = record_schema()
        check_columns(schema, pa.schema([expected.field(name) for name in USER_COLUMNS]), ("id", "triples"), address)
    elif _has_triples(schema.names):
        raise CorpusError(f"{address} has one triple per row, as only a CSV may have; Parquet needs one record per row")
    else:
        check_no_extension_types(schema, address)


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
    rejected_before = list[str]()  # the ids ("" if unknown) of rejected rows since the last valid row
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
        # A shard cannot begin at a rejected line inside a CSV row, or at a record whose preceding row was rejected.
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
    """Whether a table has one triple per row, that is, two or more of `TRIPLE_COLUMNS`; reading it needs all."""
    return len({name.lower() for name in columns} & set(TRIPLE_COLUMNS)) > 1


def _id_of(item: tuple[int, Any] | Reject, prefix: str, triples: bool) -> str:
    """The id of an item's record; "" if it is unknown or the record is invalid."""
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
    for item in read_lines(stream, address, decode_errors="reject"):
        if isinstance(item, Reject) or item[1].strip():
            yield item


def _values(
    stream: BinaryIO, address: str, delimiter: str, triples: bool, columns: list[str], line: int = 1
) -> Iterator[tuple[int, Any] | Reject]:
    """(line number, value) of each row of a CSV, or of JSON lines if `delimiter` is empty; rejects for invalid lines.

    Args:
        columns: the columns of a CSV. If empty, the stream starts with the header, whose columns are appended.
        line: the number of the stream's first line.
    """
    if not delimiter:
        return read_values(stream, address, "reject", line)
    needed = TRIPLE_COLUMNS if triples else ()
    return read_csv_rows(stream, address, needed, delimiter, "keep", columns, line)


def prepare_inputs(inputs: list[InputFile], work: Folder) -> list[InputFile]:
    """The files to read in workers: the input files, or copies in `work` of those that workers cannot read.

    Args:
        work: the job's folder for copies; complete copies are reused.

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
            version = "deleted"
        check_unchanged(file.address, file.version, version)


def plan_shards(files: list[InputFile], shard_rows: int, part: str, unique: bool = True) -> list[Shard]:
    """The shards of all files in order, numbered consecutively; deterministic.

    Args:
        part: the output file name of a shard, with ``{}`` in place of the shard's index.
        unique: whether a record with the id of an earlier record is a duplicate.
    """
    duplicates = _find_duplicates(files) if unique else [{} for _ in files]
    shards: list[Shard] = []
    rows_before = 0
    for file, duplicates_in_file in zip(files, duplicates, strict=True):
        shards_of_file = (replace(shard, rows_before=rows_before) for shard in _cut(file, shard_rows))
        shards += with_indices(shards_of_file, part, duplicates_in_file, len(shards))
        rows_before += file.rows
    return shards


def _cut(file: InputFile, shard_rows: int) -> Iterator[Shard]:
    prefix = file.prefix if file.index or file.wide else None
    template = Shard(0, file.folder.address, file.name, "", (), 0, 0, file.rows, file.address, prefix=prefix)
    if (lines := file.index) is None:
        yield from cut(template, file.groups, shard_rows)
        return
    block = 0
    while block < len(lines.line_numbers):
        first = lines.records_before[block]
        after = max(block + 1, bisect_right(lines.records_before, first + shard_rows) - 1)
        begin, end, rows = lines.offsets[block], lines.offsets[after], lines.records_before[after] - first
        text = TextRange(begin, end, lines.line_numbers[block], file.version, lines.delimiter, lines.columns)
        yield replace(template, first=first, rows=rows, text=text)
        block = after


def _find_duplicates(files: list[InputFile]) -> list[dict[int, str]]:
    """For each file: duplicate row -> location of the first record with the same id, for messages."""

    def rows_of(number: int, repeated: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        file, lines = files[number], files[number].index
        if not lines:
            for row, data in rows_at(file.folder, file.name, _columns(file.address, file.wide), repeated):
                yield row, next(object_rows(iter([(row, data)]), file.prefix)) if file.wide else data
            return
        blocks, numbers = list(_cut(file, 1)), set(repeated.tolist())
        for block in np.unique(np.searchsorted(lines.records_before, repeated, "right") - 1).tolist():
            for first, batch in read_records(blocks[block], _ROWS):
                yield from ((row, data) for row, data in enumerate(batch, start=first) if row in numbers)

    def location_of(number: int, row: int, data: dict[str, Any]) -> str:
        file = files[number]
        position = f"row {row}" if file.kind == "parquet" else f"line {data['line']}"
        return f"{file.address}, {position}"

    ids = [
        (file.index and file.index.ids) or hash_ids(file.folder, file.name, file.prefix if file.wide else None)
        for file in files
    ]
    return find_duplicate_rows(ids, rows_of, read_record, location_of)


def read_records(shard: Shard, batch_rows: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first row, rows) of each batch of a shard; `read_record` parses a row.

    Raises:
        CorpusError: a Parquet file has column types that could execute code.
        DamagedError: a text file was replaced after the shard was planned.
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
    """The columns to read from the Parquet file at `address` or from the copy of a CSV; None: all columns.

    The column ``error`` is only read from copies, because in a user's Parquet file it may have another meaning.
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
