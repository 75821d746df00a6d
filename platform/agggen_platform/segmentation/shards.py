"""The splits of a corpus, and their shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from agggen.corpora.prepared import schema
from agggen.errors import RecordError
from agggen_platform.sharded import shards
from agggen_platform.sharded.shards import Shard, bare_record
from agggen_platform.storage.folder import Folder

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
    groups: tuple[int, ...]
    """The rows of each row group."""

    @property
    def address(self) -> str:
        return f"{self.folder}/{self.name}"


def open_source(folder: Folder, name: str) -> Source:
    """The split in a Parquet file of `folder`.

    Raises:
        CorpusError: the file is missing, is not Parquet, or lacks columns of a prepared corpus.
    """
    opened = shards.open_parquet(folder, name, _readable(), _NEEDED)
    split = opened.metadata.get("split") or name.rsplit("/", 1)[-1].removesuffix(".parquet")
    corpus = opened.metadata.get("corpus") or split
    return Source(folder.address, name, split, corpus, opened.rows, opened.fingerprint, opened.groups)


def _readable() -> pa.Schema:
    """The required columns of a prepared corpus: facts are cut anew, and plans may be missing."""
    text = pa.field("references", pa.list_(pa.struct([pa.field("text", pa.string())])))
    return schema().set(schema().get_field_index("references"), text)


def plan_shards(source: Source, rows_a_shard: int) -> list[Shard]:
    """Divides a split into shards of about `rows_a_shard` rows; the same arguments give the same shards."""
    folder = Folder(source.folder)
    (duplicates,) = shards.find_duplicates(
        [(folder, source.name)], ["triples", "category"], _is_record, lambda _, row, __: row
    )
    return shards.cut(
        folder, source.name, source.groups, rows_a_shard, f"facts/{source.split}/{{}}.parquet", duplicates
    )


def _is_record(row: dict[str, Any]) -> bool:
    """Whether a row is a valid record; an invalid row never masks a later valid one."""
    try:
        bare_record(row)
    except RecordError:
        return False
    return True


def read_rows(shard: Shard, rows_at_once: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of a shard in batches, with the number of the first row of each batch."""
    return shards.read_rows(shard, rows_at_once, schema().names)
