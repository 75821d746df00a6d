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

from agggen.corpora.lines import TRIPLE_COLUMNS, delimiter_in, identifier_of, read_lines, read_values
from agggen.corpora.lines import read_rows as read_csv_rows
from agggen.corpora.prepared import check_no_extension_types
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
    divide_parquet,
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
_BUFFER_BYTES = 1 << 20  # bytes per read of a text file
_BATCH_ROWS = 1024  # records per batch


@dataclass(frozen=True)
class LineIndex:
    """Positions in a text file at which a shard may begin."""

    offsets: Sequence[int]  # byte offset of each position, then the size of the file
    line_numbers: Sequence[int]  # line number of each position
    records_before: Sequence[int]  # number of records before each position, then the total
    columns: tuple[str, ...]  # columns of a CSV
    delimiter: str  # delimiter of a CSV; empty for JSON lines
    id_hashes: IdHashes | None  # None if ids may repeat


@dataclass(frozen=True)
class InputFile:
    address: str  # the original file, for messages
    folder: Folder  # the folder of the original file or of its copy
    name: str  # the file's name in `folder`
    version: str  # see `Folder.version`
    fingerprint: str  # a hash of the file's content
    prefix: str  # the generated id of a record without an id: `prefix` + line or row number; empty for a single file
    group_sizes: tuple[int, ...] = ()  # number of rows of each row group of a Parquet file
    wide: bool = False  # whether a Parquet file has a column for each predicate
    index: LineIndex | None = None  # None for Parquet, and for a CSV that must be copied

    @property
    def kind(self) -> str:
        return _kind(self.address)

    @property
    def rows(self) -> int:
        return self.index.records_before[-1] if self.index else sum(self.group_sizes)


def find_inputs(address: str, shard_rows: int = 0, unique: bool = True) -> list[InputFile]:
    """The input file at `address`, or all input files of a folder, ordered by name.

    `shard_rows`: the minimum number of rows per shard, or 0. `unique`: whether to hash the ids, to find duplicates.
    """
    if _kind(address) in KINDS:
        folder, name = file_at(address)
        return [_inspect(folder, name, "", shard_rows, unique)]
    folder = Folder(address)
    if folder.local is not None and folder.local.is_file():
        raise CorpusError(f"{address} is not a file of records: its name must end in .{', .'.join(KINDS)}")
    names = [name for name in folder.names() if "/" not in name and _kind(name) in KINDS and name != REJECTS]
    if not names:
        raise CorpusError(f"{address} contains no records: no file in it ends in .{', .'.join(KINDS)}")
    prefixes = [f"{name}:" for name in names] if len(names) > 1 else [""]
    return [_inspect(folder, name, prefix, shard_rows, unique) for name, prefix in zip(names, prefixes, strict=True)]


def _kind(address: str) -> str:
    return address.rpartition("/")[2].rpartition(".")[2].lower()


def _inspect(folder: Folder, name: str, prefix: str, shard_rows: int, unique: bool) -> InputFile:
    try:
        file = InputFile(folder.at(name), folder, name, folder.version(name), "", prefix)
    except FileNotFoundError as error:
        raise CorpusError(f"{folder.at(name)} does not exist") from error
    if file.kind == "parquet":
        info = inspect_parquet(folder, name, _check_parquet)
        wide = "triples" not in info.columns
        return replace(file, fingerprint=info.fingerprint, group_sizes=info.group_sizes, wide=wide)
    hashing_stream = Stream(folder.chunks(name, version=file.version), hashlib.sha256())
    with LineReader(hashing_stream, _BUFFER_BYTES) as stream:
        index = _index_lines(file, stream, shard_rows or SMALLEST_SHARD, unique)
    return replace(file, fingerprint=hashing_stream.digest.hexdigest(), index=index)


def _check_parquet(schema: pa.Schema, address: str) -> None:
    if "triples" in schema.names or set(schema.names) <= set(USER_COLUMNS):
        expected = record_schema()
        check_columns(schema, pa.schema([expected.field(name) for name in USER_COLUMNS]), ("id", "triples"), address)
    elif _has_one_triple_per_row(schema.names):
        raise CorpusError(f"{address} has one triple per row, as only a CSV may have; Parquet needs one record per row")
    else:
        check_no_extension_types(schema, address)


def _index_lines(file: InputFile, stream: LineReader, step: int, unique: bool) -> LineIndex | None:
    """Reads the file and indexes about every `step`-th record; None if the rows of a record are not consecutive."""
    delimiter, triple_per_row = _csv_layout(stream) if file.kind == "csv" else ("", False)
    columns: list[str] = []
    items: Iterator[tuple[int, Any] | Reject]
    if delimiter or unique:
        items = _values(stream, file.address, delimiter, triple_per_row, columns)
    else:
        lines = read_lines(stream, file.address, decode_errors="reject")
        items = (item for item in lines if isinstance(item, Reject) or item[1].strip())
    id_hashes = IdHashes() if unique or triple_per_row else None
    offsets, line_numbers, records_before = array("q"), array("q"), array("q")
    count = 0
    last_id = ""  # if there is one triple per row: the id of the last valid row
    unhashed_ids = list[str]()
    rejected_ids = list[str]()  # the ids ("" if unknown) of rejected rows since the last valid row
    while True:
        offset, line = stream.offset, stream.line
        if (item := next(items, None)) is None:
            break
        is_rejected = isinstance(item, Reject)
        record_id = _id_of(item, file.prefix, triple_per_row) if id_hashes else ""
        if is_rejected and record_id == last_id:
            record_id = ""
        if triple_per_row and not is_rejected:
            if record_id and record_id == last_id:
                continue
            last_id = record_id
        # A shard cannot begin at a rejected line inside a CSV row, or at a record whose preceding row was rejected.
        is_boundary = stream.offset > offset and not (triple_per_row and (is_rejected or record_id in rejected_ids))
        if triple_per_row and is_rejected:
            rejected_ids.append(record_id)
        elif triple_per_row:
            first_rejected = len(unhashed_ids) - len(rejected_ids)
            unhashed_ids[first_rejected:] = ["" if rejected == record_id else rejected for rejected in rejected_ids]
            rejected_ids.clear()
        if not offsets or (is_boundary and count - records_before[-1] >= step):
            offsets.append(offset)
            line_numbers.append(line)
            records_before.append(count)
            if id_hashes:
                id_hashes.add(unhashed_ids)
                unhashed_ids.clear()
        count += 1
        unhashed_ids.append(record_id)
    if id_hashes:
        id_hashes.add(unhashed_ids)
    offsets.append(stream.offset)
    records_before.append(count)
    if triple_per_row and id_hashes and len(IdHashes.find_repeated([id_hashes])):
        return None
    return LineIndex(offsets, line_numbers, records_before, tuple(columns), delimiter, id_hashes)


def _csv_layout(stream: io.BufferedReader[Any]) -> tuple[str, bool]:
    """The delimiter of a CSV, and whether it has one triple per row."""
    header = stream.peek().partition(b"\n")[0]
    delimiter = delimiter_in(header)
    return delimiter, _has_one_triple_per_row(
        name.strip(' "\r') for name in header.decode("utf-8-sig", "replace").split(delimiter)
    )


def _has_one_triple_per_row(columns: Iterable[str]) -> bool:
    """Whether a table has two or more of `TRIPLE_COLUMNS`; a reader needs all of them."""
    return len({name.lower() for name in columns} & set(TRIPLE_COLUMNS)) > 1


def _id_of(item: tuple[int, Any] | Reject, prefix: str, triple_per_row: bool) -> str:
    """The id of an item's record; "" if it is unknown or the record is invalid."""
    if isinstance(item, Reject):
        return (item.id or "") if triple_per_row else ""
    line, value = item
    if triple_per_row:
        return identifier_of(value)
    try:
        return id_of_row(value, f"{prefix}{line}") if isinstance(value, dict) else ""
    except RecordError:
        return ""


def _values(
    stream: BinaryIO, address: str, delimiter: str, triple_per_row: bool, columns: list[str], line: int = 1
) -> Iterator[tuple[int, Any] | Reject]:
    """(line number, value) of each row of a CSV, or of JSON lines if `delimiter` is empty; rejects for invalid lines.

    If `columns` is empty, a CSV starts with the header, whose columns are appended. `line`: the first line's number.
    """
    if not delimiter:
        return read_values(stream, address, "reject", line)
    required_columns = TRIPLE_COLUMNS if triple_per_row else ()
    return read_csv_rows(stream, address, required_columns, delimiter, "keep", columns, line)


def prepare_inputs(inputs: list[InputFile], copies: Folder) -> list[InputFile]:
    """The files that workers read: the input files, or (reused) copies of those that workers cannot read."""
    files: list[InputFile] = []
    for number, file in enumerate(inputs):
        if file.index and file.folder.local is not None and copies.local is None:  # other machines cannot read the file
            name = f"{number:05d}.{file.kind}"
            if copies.size(name) != file.index.offsets[-1]:
                copies.upload(name, file.folder.local / file.name)
            file = replace(file, folder=copies, name=name, version=copies.version(name))
        elif file.kind == "csv" and not file.index:
            name = f"{number:05d}.parquet"
            if copies.size(name) is None:
                _copy_grouped(file, copies, name)
            file = replace(file, folder=copies, name=name, group_sizes=inspect_parquet(copies, name).group_sizes)
        files.append(file)
    return files


def check_inputs_unchanged(inputs: list[InputFile]) -> None:
    for file in inputs:
        try:
            version = file.folder.version(file.name)
        except FileNotFoundError:
            version = "deleted"
        check_unchanged(file.address, file.version, version)


def plan_shards(files: list[InputFile], shard_rows: int, part: str, unique: bool = True) -> list[Shard]:
    """The shards of all files in order, numbered consecutively; deterministic. `part`: see `with_indices`."""
    duplicates = _find_duplicates(files) if unique else [{} for _ in files]
    shards: list[Shard] = []
    rows_before = 0
    for file, duplicates_in_file in zip(files, duplicates, strict=True):
        shards_of_file = (replace(shard, rows_before=rows_before) for shard in _divide(file, shard_rows))
        shards += with_indices(shards_of_file, part, duplicates_in_file, len(shards))
        rows_before += file.rows
    return shards


def _divide(file: InputFile, shard_rows: int) -> Iterator[Shard]:
    prefix = file.prefix if file.index or file.wide else None
    template = Shard(0, file.folder.address, file.name, "", (), 0, 0, file.rows, file.address, prefix=prefix)
    if (index := file.index) is None:
        yield from divide_parquet(template, file.group_sizes, shard_rows)
        return
    block = 0  # the lines from one position of the index to the next
    while block < len(index.line_numbers):
        first = index.records_before[block]
        next_block = max(block + 1, bisect_right(index.records_before, first + shard_rows) - 1)
        begin, end, rows = index.offsets[block], index.offsets[next_block], index.records_before[next_block] - first
        text = TextRange(begin, end, index.line_numbers[block], file.version, index.delimiter, index.columns)
        yield replace(template, first=first, rows=rows, text=text)
        block = next_block


def _find_duplicates(files: list[InputFile]) -> list[dict[int, str]]:
    """For each file: duplicate row -> location of the first record with the same id, for messages."""

    def rows_of(file_number: int, repeated: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        file, index = files[file_number], files[file_number].index
        if not index:
            for row, data in rows_at(file.folder, file.name, _columns(file.address, file.wide), repeated):
                yield row, next(object_rows(iter([(row, data)]), file.prefix)) if file.wide else data
            return
        blocks, repeated_rows = list(_divide(file, 1)), set(repeated.tolist())
        for block in np.unique(np.searchsorted(index.records_before, repeated, "right") - 1).tolist():
            for first, batch in read_records(blocks[block], _BATCH_ROWS):
                yield from ((row, data) for row, data in enumerate(batch, start=first) if row in repeated_rows)

    def location_of(file_number: int, row: int, data: dict[str, Any]) -> str:
        file = files[file_number]
        position = f"row {row}" if file.kind == "parquet" else f"line {data['line']}"
        return f"{file.address}, {position}"

    ids = [
        (file.index and file.index.id_hashes) or hash_ids(file.folder, file.name, file.prefix if file.wide else None)
        for file in files
    ]
    return find_duplicate_rows(ids, rows_of, read_record, location_of)


def read_records(shard: Shard, batch_rows: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first row, rows) of each batch; raises DamagedError if a text file was replaced since planning."""
    if (text := shard.text) is None:
        for first, batch in read_rows(shard, batch_rows, _columns(shard.address, shard.prefix is not None)):
            yield first, batch if shard.prefix is None else list(object_rows(enumerate(batch, first), shard.prefix))
        return
    first, triple_per_row = shard.first, _has_one_triple_per_row(text.columns)
    chunks = Folder(shard.folder).chunks(shard.name, text.begin, text.end, text.version)
    with io.BufferedReader(Stream(chunks), _BUFFER_BYTES) as stream:
        columns = list(text.columns) if text.begin else []
        values = _values(stream, shard.address, text.delimiter, triple_per_row, columns, text.line)
        rows = triple_rows(values) if triple_per_row else object_rows(values, shard.prefix or "")
        while batch := list(islice(rows, batch_rows)):
            yield first, batch
            first += len(batch)


def _columns(address: str, wide: bool) -> Sequence[str] | None:
    # The column `error` is only read from copies, because in a user's Parquet file it may have another meaning.
    return None if wide else USER_COLUMNS if _kind(address) == "parquet" else record_schema().names


def _copy_grouped(file: InputFile, copies: Folder, name: str) -> None:
    """Copies a CSV in which the rows of a record are not consecutive to Parquet, one record per row."""
    chunks = file.folder.chunks(file.name, version=file.version)
    with (
        copies.new(name) as path,
        io.BufferedReader(Stream(chunks), _BUFFER_BYTES) as stream,
        pq.ParquetWriter(path, record_schema(), compression="zstd") as writer,
    ):
        values = _values(stream, file.address, *_csv_layout(stream), [])
        rejected_ids = set[str | None]()
        rows = triple_rows(grouped_by_record(values, rejected_ids), rejected_ids)
        while batch := list(islice(rows, _BATCH_ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, record_schema()))
