"""Shards: consecutive rows of a job's input that are processed, written and committed as a unit.

A shard is several whole row groups of a Parquet file, a part of a large row group, or consecutive lines of a text file:
a worker reads only its own rows, and no input passes through Ray's object store.
"""

from __future__ import annotations

import json
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.parquet import check_plain, columns_of
from agggen.errors import CorpusError
from agggen.records import Record, Triple
from agggen_platform.storage.folder import Folder

_OURS = "agggen."
PARTS_OF_A_GROUP = 16
"""Shards of one row group at most: each decodes the group up to its own end."""
_IDS_AT_ONCE = 1 << 16
HASHES_AT_ONCE = 1 << 22
"""Hashes per block; twice as many are compared at once."""
Where = TypeVar("Where", int, str)


@dataclass(frozen=True, slots=True)
class TextRange:
    """Whole lines of a text file."""

    begin: int
    end: int
    """Bytes."""
    line: int
    """The number of the first line, from 1."""
    prefix: str
    """Of generated ids: the prefix before the line number."""
    version: str
    """Of the file; see `Folder.version`."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows `first` to `first + rows` of a file, which begin `skip` rows into the first of the row groups."""

    index: int
    folder: str
    name: str
    part: str
    """The name of its output."""
    groups: tuple[int, ...]
    skip: int
    first: int
    rows: int
    address: str
    """The file's name in messages."""
    duplicates: tuple[tuple[int, int | str], ...] = ()
    """(row, place of the first record with the same id) of each duplicate."""
    rows_before: int = 0
    """Rows of the files before this one."""
    text: TextRange | None = None
    """The lines of a text file, which has no row groups."""
    begun: int = 0
    """How often earlier runs started it."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, content: str) -> Shard:
        data = json.loads(content)
        duplicates = tuple((row, earlier) for row, earlier in data["duplicates"])
        text = data["text"] and TextRange(**data["text"])
        return cls(**data | {"groups": tuple(data["groups"]), "duplicates": duplicates, "text": text})

    def __str__(self) -> str:
        return f"rows {self.first} to {self.first + self.rows - 1} of {self.address}"


def file_at(address: str) -> tuple[Folder, str]:
    """The folder and the name of the file at a path or ``s3://`` address."""
    parent, _, name = address.rpartition("/")
    return Folder(parent or ("/" if address.startswith("/") else ".")), name


@dataclass(frozen=True, slots=True)
class Opened:
    """A Parquet file with records."""

    rows: int
    groups: tuple[int, ...]
    """The rows of each row group."""
    said: dict[str, str]
    """Metadata of ``agggen.corpora.prepared``, without the prefix ``agggen.``; empty for files of other programs."""
    fingerprint: str
    """Of its content."""


def open_parquet(folder: Folder, name: str, wanted: pa.Schema, needed: Sequence[str]) -> Opened:
    """Opens a Parquet file and checks its schema; only the columns `needed` of `wanted` are required.

    Raises:
        CorpusError: it is missing, not Parquet, has other columns, or columns whose values could run code.
    """
    where = folder.at(name)
    try:
        with folder.open(name) as file, pq.ParquetFile(file) as parquet:
            _check_columns(parquet.schema_arrow, wanted, needed, where)
            metadata = parquet.metadata
            groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            pairs = {key.decode(): value for key, value in (metadata.metadata or {}).items()}
    except FileNotFoundError as error:
        raise CorpusError(f"{where} does not exist; make it with: agggen corpora prepare NAME --out DIR") from error
    except CorpusError:
        raise
    except (
        pa.ArrowException,
        ValueError,
        TypeError,
    ) as error:  # ValueError, TypeError: of types that Ray Data registers
        raise CorpusError(f"{where} is not a Parquet file ({error})") from error
    said = {key[len(_OURS) :]: value.decode() for key, value in pairs.items() if key.startswith(_OURS)}
    return Opened(sum(groups), groups, said, said.get("fingerprint") or folder.sha256(name))


def _check_columns(schema: pa.Schema, wanted: pa.Schema, needed: Sequence[str], where: str) -> None:
    for name in needed:
        if name not in schema.names:
            raise CorpusError(f"{where} has no column {name!r}; a corpus has {', '.join(wanted.names)}")
    check_plain(columns_of(schema, wanted.names), where)
    for field in schema:
        if field.name in wanted.names and not _fits(field.type, expected := wanted.field(field.name).type):
            raise CorpusError(f"{where}: the column {field.name!r} is {field.type}, it should be {expected}")


def _fits(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of the type `actual` can be read as `wanted`; additional struct fields are allowed."""
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(actual) and all(
            (at := actual.get_field_index(field.name)) >= 0 and _fits(actual.field(at).type, field.type)
            for field in wanted
        )
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(actual) or pa.types.is_large_list(actual)
        return is_list and _fits(actual.value_type, wanted.value_type)
    return pa.types.is_string(actual) or pa.types.is_large_string(actual) or pa.types.is_null(actual)


def cut(
    folder: Folder,
    name: str,
    sizes: Sequence[int],
    rows_a_shard: int,
    part: str,
    duplicates: Mapping[int, int | str],
    address: str | None = None,
    first_index: int = 0,
    rows_before: int = 0,
) -> list[Shard]:
    """Divides a file into shards of about `rows_a_shard` rows; the result depends on nothing else.

    Args:
        sizes: the rows of each row group of the file.
        part: the name of a shard's output, with its number in place of ``{}``.
        duplicates: of this file, as returned by `find_duplicates`.
        address: the original of a file that is a copy, for messages.
        first_index: the number of the first shard.
        rows_before: rows of the files before this one.
    """
    shards: list[Shard] = []
    pairs = sorted(duplicates.items())

    def add(groups: tuple[int, ...], skip: int, first: int, rows: int) -> None:
        inside = tuple(duplicates_in(pairs, first, rows))
        index = first_index + len(shards)
        output, original = part.format(f"{index:06d}"), address or folder.at(name)
        shards.append(
            Shard(index, folder.address, name, output, groups, skip, first, rows, original, inside, rows_before)
        )

    first, waiting, held = 0, [], 0  # the next row; small groups of the next shard and their rows
    for group, size in enumerate(sizes):
        if held + size <= rows_a_shard:
            waiting.append(group)
            held += size
            continue
        if held:
            add(tuple(waiting), 0, first, held)
            first, waiting, held = first + held, [], 0
        if size <= rows_a_shard:
            waiting, held = [group], size
            continue
        parts = min(PARTS_OF_A_GROUP, -(-size // rows_a_shard))
        bounds = [size * number // parts for number in range(parts + 1)]
        for begin, end in pairwise(bounds):
            add((group,), begin, first + begin, end - begin)
        first += size
    if held:
        add(tuple(waiting), 0, first, held)
    return shards


def duplicates_in(pairs: Sequence[tuple[int, Any]], first: int, rows: int) -> Sequence[tuple[int, Any]]:
    """The part of a file's sorted duplicates that lies in the rows `first` to `first + rows`."""
    return pairs[bisect_left(pairs, (first,)) : bisect_left(pairs, (first + rows,))]


class IdHashes:
    """64-bit hashes of the ids of a file's rows, in a temporary file; 0 for a row without an id."""

    def __init__(self) -> None:
        self._file, self._rows = tempfile.TemporaryFile(prefix="agggen-"), 0  # noqa: SIM115 (deleted with this object)

    def add(self, names: Iterable[str]) -> None:
        hashes = np.fromiter(map(hash, names), np.int64)
        self._rows += len(hashes)
        self._file.write(hashes.tobytes())

    def rows_of(self, hashes: np.ndarray) -> np.ndarray:
        """The numbers of the rows with one of the `hashes`."""
        rows = [np.flatnonzero(np.isin(block, hashes)) + first for first, block in self._blocks()]
        return np.concatenate(rows) if rows else np.empty(0, np.int64)

    @staticmethod
    def repeated(files: Sequence[IdHashes]) -> np.ndarray:
        """The hashes that occur more than once; in rounds over a share of the values, so that memory is bounded."""
        shares = 1 + sum(file._rows for file in files) // (2 * HASHES_AT_ONCE)
        repeated = [np.empty(0, np.int64)]
        for share in range(shares):
            blocks = [block[block % shares == share] for file in files for _, block in file._blocks()]
            values = np.sort(np.concatenate([*blocks, repeated[0]]))
            repeated.append(np.unique(values[1:][values[1:] == values[:-1]]))
        hashes = np.concatenate(repeated)
        return hashes[hashes != 0]

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        self._file.seek(0)
        first = 0
        while content := self._file.read(8 * HASHES_AT_ONCE):
            yield first, (block := np.frombuffer(content, np.int64))
            first += len(block)


def find_repeated(
    ids: Sequence[IdHashes],
    rows: Callable[[int, np.ndarray], Iterator[tuple[int, dict[str, Any]]]],
    is_record: Callable[[dict[str, Any]], bool],
    where: Callable[[int, int, dict[str, Any]], Where],
) -> list[dict[int, Where]]:
    """For each file the duplicates by row: the place of the first record with the same id, in any file.

    Only rows with a repeated hash are read. An invalid row is not a duplicate.

    Args:
        ids: of each file.
        rows: reads (row number, row) of a file, by the number of the file and the row numbers.
        where: the place of a record, from the number of its file, its row number and the row.
    """
    shared = IdHashes.repeated(ids)
    first: dict[str, tuple[int, int, Where]] = {}
    duplicates: list[dict[int, Where]] = [{} for _ in ids]
    for number, file in enumerate(ids if len(shared) else ()):
        for row, data in rows(number, file.rows_of(shared)):
            if is_record(data):
                earlier = first.setdefault(data["id"].strip(), (number, row, where(number, row, data)))
                if earlier[:2] != (number, row):
                    duplicates[number][row] = earlier[2]
    return duplicates


def find_duplicates(
    files: Sequence[tuple[Folder, str]],
    columns: Sequence[str],
    is_record: Callable[[dict[str, Any]], bool],
    where: Callable[[int, int, dict[str, Any]], Where],
) -> list[dict[int, Where]]:
    """`find_repeated` of Parquet files.

    Args:
        columns: the columns for `is_record` and `where`, besides the id; absent ones are left out.
    """
    return find_repeated(
        [hash_ids(*file) for file in files],
        lambda number, wanted: rows_at(*files[number], ["id", *columns], wanted),
        is_record,
        where,
    )


def hash_ids(folder: Folder, name: str) -> IdHashes:
    """The hashes of a Parquet file."""
    hashes = IdHashes()
    for _, batch in _batches(folder, name, ["id"]):
        hashes.add((identifier or "").strip() for identifier in batch[0].to_pylist())
    return hashes


def rows_at(
    folder: Folder, name: str, columns: Sequence[str], wanted: np.ndarray
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row) of the row numbers `wanted` of a Parquet file, with those of the columns that it has."""
    for begin, batch in _batches(folder, name, columns) if len(wanted) else ():
        inside = wanted[np.searchsorted(wanted, begin) : np.searchsorted(wanted, begin + len(batch))]
        yield from zip(inside.tolist(), batch.take(inside - begin).to_pylist(), strict=True)


def _batches(folder: Folder, name: str, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of the first row, batch), with those of the columns that the file has."""
    with folder.open(name) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        first = 0
        present = [column for column in columns if column in parquet.schema_arrow.names]
        check_plain(columns_of(parquet.schema_arrow, present), folder.at(name))
        for batch in parquet.iter_batches(_IDS_AT_ONCE, columns=present):
            yield first, batch
            first += batch.num_rows


def bare_record(row: Mapping[str, Any]) -> Record:
    """The record of a prepared row, without its references.

    Raises:
        RecordError: the row is not a record.
    """
    return Record(row["id"], triples_of(row), (), row.get("category"))


def triples_of(row: Mapping[str, Any]) -> tuple[Triple, ...]:
    return tuple(Triple.of(triple or {}) for triple in row.get("triples") or ())


def read_rows(shard: Shard, rows_at_once: int, columns: Sequence[str]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first row, rows) in batches of a shard, with those of the columns that the file has.

    Raises:
        CorpusError: the columns hold values that could run code.
    """
    with Folder(shard.folder).open(shard.name) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        present = [name for name in columns if name in parquet.schema_arrow.names]
        check_plain(columns_of(parquet.schema_arrow, present), shard.address)
        skip, left, number = shard.skip, shard.rows, shard.first
        for batch in parquet.iter_batches(rows_at_once, row_groups=list(shard.groups), columns=present):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            rows = batch.slice(skip, left)
            skip = 0
            yield number, rows.to_pylist()
            number, left = number + rows.num_rows, left - rows.num_rows
            if not left:
                return
