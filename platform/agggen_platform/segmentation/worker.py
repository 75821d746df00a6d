"""The worker of a segmentation job: reads a shard of a split and writes one Parquet file of records with facts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agggen.corpora.prepared import schema, write_records
from agggen.corpora.rejects import Reject
from agggen.facts import FactSegmenter
from agggen.facts.config import segmenter
from agggen_platform.segmentation.cache import FactCache
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.rows import Counts, RowSegmenter
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard, read_rows
from agggen_platform.sharded.worker import Worker

_BATCH_ROWS = 512


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The parameters that the driver passes to each worker."""

    out: str
    job: str  # the job's fingerprint
    config: SegmentConfig  # with absolute paths
    segmenter: str  # the segmenter's fingerprint
    corpora: Mapping[str, str]  # split -> name of its corpus


class ShardWorker(Worker[Counts]):
    """Loads the segmenter once and processes one shard per call."""

    kind = "segment"
    counts = Counts

    def __init__(self, settings: WorkerSettings, loaded_segmenter: FactSegmenter | None = None) -> None:
        """Loads the segmenter, unless it is already loaded; raises JobError if it differs from the driver's."""
        # oneDNN caches kernels for the last 1024 tensor shapes by default, and texts have many different shapes: after
        # two minutes of tagging, a process uses 495 MB instead of 335 MB. Torch reads the variable at its first use.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        super().__init__(settings.out, settings.job)
        self.settings = settings
        self.segmenter = loaded_segmenter or segmenter(settings.config.facts)
        if self.segmenter.fingerprint != settings.segmenter:
            raise JobError(
                f"the segmenter {self.segmenter.name!r} of this worker has fingerprint {self.segmenter.fingerprint}, "
                f"but the driver's has {settings.segmenter}; install the same version of agggen on every node"
            )
        self.crash_causes = f"out of memory, or a text that crashes the segmenter {self.segmenter.name!r}"
        folder = settings.config.cache_folder
        self.cache = FactCache(Path(folder), settings.segmenter) if folder else None

    def write_part(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        segmenter = RowSegmenter(self.segmenter, self.settings.config, shard, self.cache)
        batches = read_rows(shard, _BATCH_ROWS, schema().names)
        records = (record for first, rows in batches for record in segmenter.records(rows, first))
        split = shard.part.rpartition("/")[0]
        n_records = write_records(path, records, self.settings.corpora[split], split)
        return segmenter.counts, n_records, segmenter.rejects

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()
