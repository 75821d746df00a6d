"""What one worker of a segmentation job does: a shard of a split becomes a file of facts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.facts import FactSegmenter
from agggen.facts.config import SegmenterConfig, segmenter
from agggen_platform.segmentation.cache import FactCache
from agggen_platform.segmentation.config import AlignmentRule, SegmentationError
from agggen_platform.segmentation.rows import Counts, RowSegmenter, segmented_schema
from agggen_platform.segmentation.shards import read_rows
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import ATTEMPTS, Worker


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """All that a worker needs to know of the job."""

    out: str
    job: str  # the fingerprint
    facts: SegmenterConfig
    segmenter: str  # its fingerprint
    alignment: AlignmentRule
    batch_size: int
    rows_at_once: int
    cache: str | None


class ShardWorker(Worker[Counts]):
    """Loads the segmenter once, then does one shard a call."""

    key = b"agggen.segment"
    counts = Counts

    def __init__(self, settings: WorkerSettings, cut: FactSegmenter | None = None) -> None:
        """`cut`: the segmenter, where the caller has loaded it already.

        Raises:
            SegmentationError: the segmenter here is another than the driver's.
        """
        # oneDNN keeps what it compiled for each of the last 1024 shapes of tensors, and texts come in many shapes: two
        # minutes of tagging took 495 MB instead of 335. It reads this before torch's first work.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        super().__init__(settings.out, settings.job)
        self.settings = settings
        self.segmenter = cut or segmenter(settings.facts)
        if self.segmenter.fingerprint != settings.segmenter:
            raise SegmentationError(
                f"the segmenter {settings.facts.source!r} of this worker is {self.segmenter.fingerprint}, the job's is "
                f"{settings.segmenter}; run the same version of agggen on every node"
            )
        self.cache = FactCache(Path(settings.cache), settings.segmenter) if settings.cache else None

    def schema(self) -> pa.Schema:
        return segmented_schema()

    def fill(self, shard: Shard, writer: pq.ParquetWriter) -> Counts:
        settings = self.settings
        rows = RowSegmenter(self.segmenter, self.cache, settings.alignment, settings.batch_size, dict(shard.duplicates))
        for first, batch in read_rows(shard, settings.rows_at_once):
            writer.write_table(pa.Table.from_pylist(rows.rows(batch, first), self.schema()))
        return rows.counts

    def expected_rows(self, shard: Shard, counts: Counts) -> int:
        return shard.rows

    def is_final(self, counts: Counts) -> bool:
        return not counts.failed

    def broken(self, shard: Shard) -> SegmentationError:
        return SegmentationError(
            f"{ATTEMPTS} workers died over {shard}: out of memory, or a text that breaks the segmenter "
            f"{self.settings.facts.source!r}; what is done is kept"
        )

    def close(self) -> None:
        """Lets go of the cache; an actor that is killed does without."""
        if self.cache is not None:
            self.cache.close()
