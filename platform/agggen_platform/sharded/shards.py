"""Shards: consecutive rows of a job's input that are processed, written and committed as a unit.

A shard is a sequence of row groups of a Parquet file, a part of a large row group, or consecutive lines of a text file.
A worker reads only the rows of its shard, and no input passes through Ray's object store.
"""

from __future__ import annotations

import json
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.prepared import check_no_extension_types, columns_of
from agggen.corpora.tables import text_of
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Record, Triple
from agggen_platform.storage.folder import Folder

_MAX_SHARDS_PER_GROUP = 256  # limited because each shard decodes its row group from the start
_BATCH_ROWS = 1 << 16
HASHES_PER_BLOCK = 1 << 22  # hashes per read; up to twice this number are sorted at once


@dataclass(frozen=True, slots=True)
class TextRange:
    """The bytes [begin, end) of a text file: whole lines."""

    begin: int
    end: int
    line: int  # the number of the first line, from 1
    version: str  # the file's `Folder.version`
    delimiter: str = ""  # the delimiter of a CSV
    columns: tuple[str, ...] = ()  # the columns of a CSV, because only its first shard contains the header


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows [first, first + rows) of the file `name` in `folder`."""

    index: int
    folder: str
    name: str
    part: str  # the name of the shard's output file
    groups: tuple[int, ...]  # the numbers of the Parquet row groups that contain the rows
    skip: int  # number of rows in `groups` before the shard's first row
    first: int
    rows: int
    address: str  # the file for messages: the original if the file in `folder` is a copy
    duplicates: tuple[tuple[int, str], ...] = ()  # (row, location of the first record with the same id)
    rows_before: int = 0  # number of rows in the input files before this file
    text: TextRange | None = None  # the lines of the shard; None for Parquet
    prefix: str | None = None  # generated id of a record without an id: `prefix` + line or row number; None: invalid
    attempts: int = 0  # number of earlier attempts

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, content: str) -> Shard:
        data = json.loads(content)
        duplicates = tuple((row, location) for row, location in data["duplicates"])
        text = data["text"] and TextRange(**data["text"] | {"columns": tuple(data["text"]["columns"])})
        return cls(**data | {"groups": tuple(data["groups"]), "duplicates": duplicates, "text": text})

    def __str__(self) -> str:
        return f"rows {self.first} to {self.first + self.rows - 1} of {self.address}"


def file_at(address: str) -> tuple[Folder, str]:
    """The folder and the name of the file at a path or ``s3://`` address."""
    parent, _, name = address.rpartition("/")
    return Folder(parent or ("/" if address.startswith("/") else ".")), name


@dataclass(frozen=True, slots=True)
class ParquetInfo:
    group_sizes: tuple[int, ...]  # number of rows of each row group
    metadata: dict[str, str]  # the metadata of ``agggen.corpora.prepared``, without the key prefix ``agggen.``
    fingerprint: str  # a hash of the file's content
    columns: tuple[str, ...]


def inspect_parquet(
    folder: Folder, name: str, check: Callable[[pa.Schema, str], None] = lambda *_: None
) -> ParquetInfo:
    """Reads the schema and metadata of a Parquet file; raises CorpusError if it is missing or not Parquet.

    `check`: called with the schema and the file's address; raises CorpusError for wrong columns.
    """
    address = folder.at(name)
    try:
        with folder.open(name) as file, pq.ParquetFile(file) as parquet:
            check(parquet.schema_arrow, address)
            columns, footer = tuple(parquet.schema_arrow.names), parquet.metadata
            group_sizes = tuple(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
            raw_metadata = footer.metadata or {}
    except FileNotFoundError as error:
        raise CorpusError(f"{address} does not exist; create it: agggen prepare NAME --out DIR") from error
    except AggGenError:
        raise
    except (pa.ArrowException, ValueError, TypeError) as error:  # Ray Data's column types raise ValueError, TypeError
        raise CorpusError(f"{address} is not a Parquet file ({error})") from error
    prefixed = (key for key in raw_metadata if key.startswith(b"agggen."))
    metadata = {key.removeprefix(b"agggen.").decode(): raw_metadata[key].decode() for key in prefixed}
    return ParquetInfo(group_sizes, metadata, metadata.get("fingerprint") or folder.sha256(name), columns)


def check_columns(schema: pa.Schema, expected: pa.Schema, required: Sequence[str], address: str) -> None:
    """Raises CorpusError if a `required` column is missing, or a type is not as `expected` or could execute code."""
    for name in required:
        if name not in schema.names:
            raise CorpusError(f"{address} has no column {name!r}; a corpus has {', '.join(expected.names)}")
    check_no_extension_types(columns_of(schema, expected.names), address)
    for field in schema:
        if field.name in expected.names:
            expected_type = expected.field(field.name).type
            if not _is_readable_as(field.type, expected_type):
                raise CorpusError(f"{address}: the column {field.name!r} is {field.type}, it should be {expected_type}")


def _is_readable_as(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Whether values of type `actual` can be read as `expected`; additional fields of a struct are allowed."""
    if pa.types.is_struct(expected):
        return pa.types.is_struct(actual) and all(
            (index := actual.get_field_index(field.name)) >= 0 and _is_readable_as(actual.field(index).type, field.type)
            for field in expected
        )
    if pa.types.is_list(expected):
        is_list = pa.types.is_list(actual) or pa.types.is_large_list(actual)
        return is_list and _is_readable_as(actual.value_type, expected.value_type)
    return pa.types.is_string(actual) or pa.types.is_large_string(actual) or pa.types.is_null(actual)


def divide_parquet(file: Shard, group_sizes: Sequence[int], rows_per_shard: int) -> Iterator[Shard]:
    """Divides a Parquet file into shards of about `rows_per_shard` rows; `file` has their common fields."""
    first, groups, rows = 0, list[int](), 0  # the next shard's first row, row groups and number of rows
    for group, size in enumerate(group_sizes):
        if rows and rows + size > rows_per_shard:
            yield replace(file, groups=tuple(groups), first=first, rows=rows)
            first, groups, rows = first + rows, [], 0
        if size <= rows_per_shard:
            groups.append(group)
            rows += size
            continue
        parts = min(_MAX_SHARDS_PER_GROUP, -(-size // rows_per_shard))
        for begin, end in pairwise(size * number // parts for number in range(parts + 1)):
            yield replace(file, groups=(group,), skip=begin, first=first + begin, rows=end - begin)
        first += size
    if rows:
        yield replace(file, groups=tuple(groups), first=first, rows=rows)


def with_indices(shards: Iterable[Shard], part: str, duplicates: Mapping[int, str], first_index: int) -> list[Shard]:
    """Sets each shard's index, duplicates, and output file name: `part`, with ``{}`` in place of the index."""
    rows, locations = sorted(duplicates), sorted(duplicates.items())
    return [
        replace(
            shard,
            index=index,
            part=part.format(f"{index:06d}"),
            duplicates=tuple(locations[bisect_left(rows, shard.first) : bisect_left(rows, shard.first + shard.rows)]),
        )
        for index, shard in enumerate(shards, first_index)
    ]


class IdHashes:
    """64-bit hashes of the ids of a file's rows, in a temporary file; 0 for a row without an id."""

    def __init__(self) -> None:
        self._file, self._n_rows = tempfile.TemporaryFile(prefix="agggen-"), 0  # noqa: SIM115 (deleted with this object)

    def add(self, ids: Iterable[str]) -> None:
        hashes = np.fromiter(map(hash, ids), np.int64)
        self._n_rows += len(hashes)
        self._file.write(hashes.tobytes())

    def rows_of(self, hashes: np.ndarray) -> np.ndarray:
        """The numbers of the rows whose hash is in `hashes`."""
        rows = [np.flatnonzero(np.isin(block, hashes)) + first for first, block in self._blocks()]
        return np.concatenate(rows) if rows else np.empty(0, np.int64)

    @staticmethod
    def find_repeated(files: Sequence[IdHashes]) -> np.ndarray:
        """The nonzero hashes that occur more than once in all files; sorts one partition at a time, to bound memory."""
        partitions = 1 + sum(file._n_rows for file in files) // (2 * HASHES_PER_BLOCK)
        repeated = [np.empty(0, np.int64)]
        for partition in range(partitions):
            hashes = [block[block % partitions == partition] for file in files for _, block in file._blocks()]
            ordered = np.sort(np.concatenate([*hashes, repeated[0]]))
            repeated.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
        all_repeated = np.concatenate(repeated)
        return all_repeated[all_repeated != 0]

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        self._file.seek(0)
        first = 0
        while content := self._file.read(8 * HASHES_PER_BLOCK):
            yield first, (block := np.frombuffer(content, np.int64))
            first += len(block)


def find_duplicate_rows(
    ids: Sequence[IdHashes],
    rows_of: Callable[[int, np.ndarray], Iterator[tuple[int, dict[str, Any]]]],
    check: Callable[[dict[str, Any]], object],
    location_of: Callable[[int, int, dict[str, Any]], str],
) -> list[dict[int, str]]:
    """For each file: duplicate row -> location of the first valid record with the same id in any file.

    `rows_of` (file number, row numbers) -> (row number, row) reads only rows with a repeated id hash. `check` raises
    AggGenError for an invalid row. `location_of` (file number, row number, row) -> a record's location, for messages.
    """
    repeated = IdHashes.find_repeated(ids)
    first_by_id: dict[str, tuple[int, int, str]] = {}  # (file number, row number, location)
    duplicates: list[dict[int, str]] = [{} for _ in ids]
    for number, hashes in enumerate(ids if len(repeated) else ()):
        for row, data in rows_of(number, hashes.rows_of(repeated)):
            try:
                check(data)
            except AggGenError:
                continue
            first = first_by_id.setdefault(data["id"].strip(), (number, row, location_of(number, row, data)))
            if first[:2] != (number, row):
                duplicates[number][row] = first[2]
    return duplicates


def hash_ids(folder: Folder, name: str, prefix: str | None = None) -> IdHashes:
    """Hashes the ids of a Parquet file.

    `prefix`: the generated id of a record without an id is `prefix` + row number, and the column's name may be id, ID,
    Id or iD. None: the column is ``id``, and records without an id are invalid.
    """

    def id_of(cell: Any, row: int) -> str:
        try:
            return text_of(cell) or ("" if prefix is None else f"{prefix}{row}")
        except RecordError:  # the worker will reject the row
            return ""

    hashes = IdHashes()
    for first, batch in _batches(folder, name, ["id"] if prefix is None else ["id", "ID", "Id", "iD"]):
        cells = batch[0].to_pylist() if batch.num_columns else [None] * batch.num_rows
        hashes.add(map(id_of, cells, count(first)))
    return hashes


def rows_at(
    folder: Folder, name: str, columns: Sequence[str] | None, rows: np.ndarray
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number, row) of these `rows` (sorted numbers) of a Parquet file; `columns` as in `read_rows`."""
    for first, batch in _batches(folder, name, columns) if len(rows) else ():
        rows_in_batch = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))]
        yield from zip(rows_in_batch.tolist(), batch.take(rows_in_batch - first).to_pylist(), strict=True)


def _batches(
    folder: Folder, name: str, columns: Sequence[str] | None, size: int = _BATCH_ROWS, groups: list[int] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of the first row, batch) of the row `groups` (None: all), numbered from the start of these groups."""
    with folder.open(name) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        first = 0
        existing_columns = [column for column in parquet.schema_arrow.names if columns is None or column in columns]
        check_no_extension_types(columns_of(parquet.schema_arrow, existing_columns), folder.at(name))
        for batch in parquet.iter_batches(size, row_groups=groups, columns=existing_columns):
            yield first, batch
            first += batch.num_rows


def record_without_references(row: Mapping[str, Any]) -> Record:
    """The record of a prepared row, without its references; raises RecordError for an invalid record."""
    triples = tuple(Triple.of(triple or {}) for triple in row.get("triples") or ())
    return Record(row["id"], triples, (), row.get("category"))


def read_rows(
    shard: Shard, batch_rows: int, columns: Sequence[str] | None
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first row, rows) of each batch of a shard; `columns` that are missing are ignored, None: all."""
    end = shard.skip + shard.rows
    for first, batch in _batches(Folder(shard.folder), shard.name, columns, batch_rows, list(shard.groups)):
        begin = max(first, shard.skip)
        if begin < first + len(batch):
            yield shard.first + begin - shard.skip, batch.slice(begin - first, end - begin).to_pylist()
        if first + len(batch) >= end:
            return
