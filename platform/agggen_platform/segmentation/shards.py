"""The splits of a corpus, and their shards."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from agggen.corpora.prepared import schema
from agggen_platform.sharded import shards
from agggen_platform.sharded.shards import Shard, record_without_references
from agggen_platform.storage.folder import Folder

_NEEDED = ("id", "triples", "references")


@dataclass(frozen=True, slots=True)
class Source:
    """A split to segment: a Parquet file."""

    folder: Folder
    name: str
    split: str
    corpus: str
    fingerprint: str  # a hash of the file's content
    groups: tuple[int, ...]  # the rows of each row group

    @property
    def rows(self) -> int:
        return sum(self.groups)

    @property
    def address(self) -> str:
        return self.folder.at(self.name)


def open_source(folder: Folder, name: str) -> Source:
    """The split in a Parquet file of `folder`.

    Raises:
        CorpusError: the file is missing, not Parquet, or lacks columns of a prepared corpus.
    """
    opened = shards.inspect_parquet(
        folder, name, lambda columns, where: shards.check_columns(columns, _readable(), _NEEDED, where)
    )
    split = opened.metadata.get("split") or name.rsplit("/", 1)[-1].removesuffix(".parquet")
    corpus = opened.metadata.get("corpus") or split
    return Source(folder, name, split, corpus, opened.fingerprint, opened.groups)


def _readable() -> pa.Schema:
    """The columns that a prepared corpus must have; facts are not read, and plans are optional."""
    text = pa.field("references", pa.list_(pa.struct([pa.field("text", pa.string())])))
    return schema().set(schema().get_field_index("references"), text)


def plan_shards(source: Source, rows_per_shard: int, job: str, first_index: int = 0) -> list[Shard]:
    """Divides a split into shards of about `rows_per_shard` rows, deterministically.

    Args:
        job: the fingerprint of the job, with which each part's name ends.
        first_index: the number of the first shard.
    """
    folder, name, columns = source.folder, source.name, ("id", "triples", "category")
    (duplicates,) = shards.find_duplicate_rows(
        [shards.hash_ids(folder, name)],
        lambda _, rows: shards.rows_at(folder, name, columns, rows),
        record_without_references,
        lambda _, row, __: row,
    )
    file = Shard(0, folder.address, name, "", (), 0, 0, source.rows, source.address)
    pieces = shards.cut(file, source.groups, rows_per_shard)
    return shards.with_indices(pieces, f"{source.split}/{{}}-{job}.parquet", duplicates, first_index)
