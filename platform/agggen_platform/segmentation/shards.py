"""Shards: the runs of rows that a job is cut into, each worked on, written and committed by itself.

A shard is some whole row groups of a Parquet file, or a part of one that is large, so that every worker reads only what
it works on, and nothing of the corpus passes through the driver or Ray's object store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agggen.corpora.prepared import schema
from agggen.errors import CorpusError, RecordError
from agggen_platform.segmentation.rows import bare_record
from agggen_platform.storage.folder import Folder

# Each part of a row group decodes the group up to its own end; more parts would cost more than they save.
_PARTS_OF_A_GROUP = 16
_IDS_AT_ONCE = 1 << 16
_NEEDED = ("id", "triples", "references")


@dataclass(frozen=True, slots=True)
class Source:
    """A split to segment: a Parquet file."""

    folder: str
    name: str
    split: str
    corpus: str
    rows: int
    fingerprint: str
    """Of the file's content."""

    @property
    def address(self) -> str:
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows `first` to `first + rows` of a file, and where they stand: `skip` rows into the first row group."""

    index: int
    folder: str
    name: str
    split: str
    groups: tuple[int, ...]
    skip: int
    first: int
    rows: int
    doubles: tuple[tuple[int, int], ...] = ()
    """Records whose id an earlier record of the file has: the row of each, and that of the first."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Shard:
        data = json.loads(text)
        doubles = tuple((row, earlier) for row, earlier in data["doubles"])
        return cls(**data | {"groups": tuple(data["groups"]), "doubles": doubles})

    @property
    def part(self) -> str:
        """The name of its output."""
        return f"facts/{self.split}/{self.index:05d}.parquet"


def open_source(folder: Folder, name: str) -> Source:
    """What is in a Parquet file of `folder`.

    Raises:
        CorpusError: it is missing, no Parquet, or has not the columns of a prepared corpus.
    """
    where = folder.at(name)
    try:
        with folder.open(name) as file, pq.ParquetFile(file) as parquet:
            _check_columns(parquet.schema_arrow, where)
            said = parquet.metadata.metadata or {}
            rows = parquet.metadata.num_rows
        split = said.get(b"agggen.split", b"").decode() or name.rsplit("/", 1)[-1].removesuffix(".parquet")
        corpus = said.get(b"agggen.corpus", b"").decode() or split
        fingerprint = said.get(b"agggen.fingerprint", b"").decode() or _digest(folder, name)
    except FileNotFoundError as error:
        raise CorpusError(f"{where} does not exist; make it with: agggen corpora prepare NAME --out DIR") from error
    except pa.ArrowException as error:
        raise CorpusError(f"{where} is not a Parquet file ({error})") from error
    return Source(folder.address, name, split, corpus, rows, fingerprint)


def _check_columns(found: pa.Schema, where: str) -> None:
    for name in _NEEDED:
        if name not in found.names:
            raise CorpusError(f"{where} has no column {name!r}; a corpus has {', '.join(schema().names)}")
    for field in found:
        if field.name in schema().names:
            wanted = schema().field(field.name).type
            if not _fits(field.type, wanted):
                raise CorpusError(f"{where}: the column {field.name!r} is {field.type}, it should be {wanted}")


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can be read as the other; struct fields beyond the wanted ones do not matter."""
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(found) and all(
            (at := found.get_field_index(field.name)) >= 0 and _fits(found.field(at).type, field.type)
            for field in wanted
            if field.name not in ("facts", "plan")  # read anew, and a text may come without
        )
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and _fits(found.value_type, wanted.value_type)
    return pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_null(found)


def _digest(folder: Folder, name: str) -> str:
    digest = hashlib.sha256()
    with folder.open(name) as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()


def plan_shards(source: Source, rows_a_shard: int) -> list[Shard]:
    """Cuts a file into shards of about `rows_a_shard` rows; the same file and number always give the same shards."""
    with Folder(source.folder).open(source.name) as file, pq.ParquetFile(file) as parquet:
        sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
    shards: list[Shard] = []
    doubles = sorted(_doubles(source).items())

    def add(groups: tuple[int, ...], skip: int, first: int, rows: int) -> None:
        inside = tuple(pair for pair in doubles if first <= pair[0] < first + rows)
        shards.append(Shard(len(shards), source.folder, source.name, source.split, groups, skip, first, rows, inside))

    first, waiting, held = 0, [], 0  # the row that comes next, and small groups not yet given away
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
        parts = min(_PARTS_OF_A_GROUP, -(-size // rows_a_shard))
        bounds = [size * part // parts for part in range(parts + 1)]
        for begin, end in pairwise(bounds):
            add((group,), begin, first + begin, end - begin)
        first += size
    if held:
        add(tuple(waiting), 0, first, held)
    return shards


def _doubles(source: Source) -> dict[int, int]:
    """The rows of records whose id an earlier record has, each with the row of the first one.

    Holds eight bytes a row of the file: ids are compared by their hashes, and only rows that share one are looked into.
    """
    names = (name for _, batch in _batches(source, ["id"]) for name in _ids(batch) if name)
    hashes = np.fromiter(map(hash, names), np.int64)
    values, counts = np.unique(hashes, return_counts=True)
    shared = set(values[counts > 1].tolist())
    first: dict[str, int] = {}
    doubles: dict[int, int] = {}
    for begin, batch in _batches(source, ["id", "triples", "category"]) if shared else ():
        for place, name in enumerate(_ids(batch)):
            if name and hash(name) in shared and _is_record(batch.slice(place, 1)):
                earlier = first.setdefault(name, begin + place)
                if earlier != begin + place:
                    doubles[begin + place] = earlier
    return doubles


def _batches(source: Source, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Those of the columns that the file has, some rows at a time, each time with the number of the first."""
    with Folder(source.folder).open(source.name) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        first = 0
        there = [name for name in columns if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(_IDS_AT_ONCE, columns=there):
            yield first, batch
            first += batch.num_rows


def _ids(batch: pa.RecordBatch) -> list[str]:
    """Each row's id as records have it, "" where there is none."""
    return [(name or "").strip() for name in batch.column("id").to_pylist()]


def _is_record(row: pa.RecordBatch) -> bool:
    """Whether a batch of one row holds a record; a row that holds none is rejected for that, and hides no other."""
    try:
        bare_record(row.to_pylist()[0])
    except RecordError:
        return False
    return True


def read_rows(shard: Shard, rows_at_once: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of a shard, some at a time, each time with the number of the first."""
    with Folder(shard.folder).open(shard.name) as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        columns = [name for name in schema().names if name in parquet.schema_arrow.names]
        skip, left, number = shard.skip, shard.rows, shard.first
        for batch in parquet.iter_batches(rows_at_once, row_groups=list(shard.groups), columns=columns):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            some = batch.slice(skip, left)
            skip = 0
            yield number, some.to_pylist()
            number, left = number + some.num_rows, left - some.num_rows
            if not left:
                return
