"""The input splits of a segmentation job and their shards."""

from dataclasses import dataclass

import pyarrow as pa

from agggen.corpora.prepared import schema
from agggen_platform.sharded import shards
from agggen_platform.sharded.shards import Shard, record_without_references
from agggen_platform.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class Source:
    """A split to segment: the Parquet file `name` in `folder`."""

    folder: Folder
    name: str
    split: str
    corpus: str
    fingerprint: str  # a hash of the file's content
    group_sizes: tuple[int, ...]  # number of rows of each row group

    @property
    def rows(self) -> int:
        return sum(self.group_sizes)

    @property
    def address(self) -> str:
        return self.folder.at(self.name)


def open_source(folder: Folder, name: str) -> Source:
    """The split in a Parquet file of `folder`; raises CorpusError if it is missing or not a prepared corpus."""
    info = shards.inspect_parquet(folder, name, _check_schema)
    split = info.metadata.get("split") or name.rpartition("/")[2].removesuffix(".parquet")
    corpus = info.metadata.get("corpus") or split
    return Source(folder, name, split, corpus, info.fingerprint, info.group_sizes)


def _check_schema(columns: pa.Schema, address: str) -> None:
    """Checks the columns of a prepared corpus; of the references, only the text is required."""
    references = pa.field("references", pa.list_(pa.struct([pa.field("text", pa.string())])))
    expected = schema().set(schema().get_field_index("references"), references)
    shards.check_columns(columns, expected, ("id", "triples", "references"), address)


def plan_shards(source: Source, rows_per_shard: int, job: str, first_index: int = 0) -> list[Shard]:
    """Divides a split into shards of about `rows_per_shard` rows, numbered from `first_index`; deterministic."""
    folder, name, columns = source.folder, source.name, ("id", "triples", "category")
    (duplicates,) = shards.find_duplicate_rows(
        [shards.hash_ids(folder, name)],
        lambda _, rows: shards.rows_at(folder, name, columns, rows),
        record_without_references,
        lambda _, row, __: f"row {row}",
    )
    template = Shard(0, folder.address, name, "", (), 0, 0, source.rows, source.address)
    shards_without_index = shards.divide_parquet(template, source.group_sizes, rows_per_shard)
    return shards.with_indices(shards_without_index, f"{source.split}/{{}}-{job}.parquet", duplicates, first_index)
