"""What one worker does: a shard of the input becomes a file of the output, in an actor of Ray Data or in process."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.facts import FactSegmenter
from agggen.facts.config import SegmenterConfig, segmenter
from agggen_platform.segmentation.cache import FactCache
from agggen_platform.segmentation.config import AlignmentRule, SegmentationError
from agggen_platform.segmentation.rows import Counts, RowSegmenter, segmented_schema
from agggen_platform.segmentation.shards import Shard, read_rows
from agggen_platform.storage.folder import Folder

ATTEMPTS = 3
"""How many workers may die over one shard."""
_KEY = b"agggen.segment"


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


@dataclass(frozen=True, slots=True)
class Done:
    """A finished shard."""

    split: str
    index: int
    counts: Counts
    found: bool
    """Whether an earlier run had done it."""
    seconds: float

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Done:
        data = json.loads(text)
        return cls(**data | {"counts": Counts(**data["counts"])})


class ShardWorker:
    """Loads the segmenter once, then does one shard a call."""

    def __init__(self, settings: WorkerSettings, cut: FactSegmenter | None = None) -> None:
        """`cut`: the segmenter, where the caller has loaded it already.

        Raises:
            SegmentationError: the segmenter here is another than the driver's.
        """
        # oneDNN keeps what it compiled for each of the last 1024 shapes of tensors, and texts come in many shapes: two
        # minutes of tagging took 495 MB instead of 335. It reads this before torch's first work.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        self.settings = settings
        self.out = Folder(settings.out)
        self.segmenter = cut or segmenter(settings.facts)
        if self.segmenter.fingerprint != settings.segmenter:
            raise SegmentationError(
                f"the segmenter {settings.facts.source!r} of this worker is {self.segmenter.fingerprint}, the job's is "
                f"{settings.segmenter}; run the same version of agggen on every node"
            )
        self.cache = FactCache(Path(settings.cache), settings.segmenter) if settings.cache else None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of Ray Data: shards as JSON in, what became of them as JSON out."""
        return {"done": [self.run(Shard.from_json(text)).as_json() for text in batch["shard"]]}

    def run(self, shard: Shard) -> Done:
        """Does a shard, or finds that it was done before; one on which the segmenter failed is tried again.

        Raises:
            SegmentationError: the segmenter fails on every text, or workers died over this shard before.
        """
        begin = time.monotonic()
        found = part_counts(self.out, shard, self.settings.job)
        if found is not None and not found.failed:
            return Done(shard.split, shard.index, found, True, time.monotonic() - begin)
        self._count_attempt(shard)
        settings = self.settings
        rows = RowSegmenter(self.segmenter, self.cache, settings.alignment, settings.batch_size, dict(shard.doubles))
        schema = segmented_schema()
        with self.out.new(shard.part) as path, pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for first, some in read_rows(shard, self.settings.rows_at_once):
                writer.write_table(pa.Table.from_pylist(rows.rows(some, first), schema))
            about = {"job": self.settings.job, "shard": _identity(shard), "counts": rows.counts.as_dict()}
            writer.add_key_value_metadata({_KEY: json.dumps(about).encode()})
        self.out.delete(_attempts(shard))
        return Done(shard.split, shard.index, rows.counts, False, time.monotonic() - begin)

    def close(self) -> None:
        """Lets go of the cache; an actor that is killed does without."""
        if self.cache is not None:
            self.cache.close()

    def _count_attempt(self, shard: Shard) -> None:
        """Ray replaces a worker that dies and has its shard done again: a text that kills every worker ends the job."""
        attempts = int(self.out.read(_attempts(shard)) or 0)
        if attempts == ATTEMPTS:
            raise SegmentationError(
                f"{ATTEMPTS} workers died over rows {shard.first} to {shard.first + shard.rows - 1} of "
                f"{shard.folder}/{shard.name}: out of memory, or a text that "
                f"breaks the segmenter {self.settings.facts.source!r}; what is done is kept"
            )
        self.out.write(_attempts(shard), str(attempts + 1).encode())


def _attempts(shard: Shard) -> str:
    return f"{shard.part}.attempts"


def part_counts(out: Folder, shard: Shard, job: str) -> Counts | None:
    """The counts of a shard that this job has finished; None where its file is missing, damaged or of another job."""
    try:
        with out.open(shard.part) as file, pq.ParquetFile(file) as parquet:
            about = json.loads((parquet.metadata.metadata or {}).get(_KEY, b"{}"))
            if parquet.metadata.num_rows != shard.rows:
                return None
    except (FileNotFoundError, pa.ArrowException):
        return None
    if about.get("job") != job or about.get("shard") != _identity(shard):
        return None
    return Counts(**about["counts"])


def _identity(shard: Shard) -> list[Any]:
    return [shard.split, shard.index, list(shard.groups), shard.skip, shard.first, shard.rows]
