"""What one worker of a bulk generation job does: a shard of records becomes a file of texts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from agggen_platform.bulk.config import BulkConfig, BulkError
from agggen_platform.bulk.inputs import record_schema
from agggen_platform.bulk.model import load_generator
from agggen_platform.bulk.rows import Counts, RowWriter, part_schema
from agggen_platform.sharded.shards import Shard, read_rows
from agggen_platform.sharded.worker import ATTEMPTS, Worker


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """All that a worker needs to know of the job."""

    out: str
    job: str  # the fingerprint
    bundle: str  # the address
    fingerprint: str  # of the bundle
    config: BulkConfig


class BulkWorker(Worker[Counts]):
    """Loads the bundle once, then writes one shard a call, with one thread: a shard's texts are always the same."""

    key = b"agggen.bulk"
    counts = Counts

    def __init__(self, settings: WorkerSettings) -> None:
        """
        Raises:
            BulkError: the bundle here is another than the driver's, or there is no GPU.
            BundleError: there is none here.
        """
        super().__init__(settings.out, settings.job)
        self.settings = settings
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        on_gpu = settings.config.gpus_per_actor > 0
        if on_gpu and not torch.cuda.is_available():
            raise BulkError("gpus_per_actor is set, but torch finds no GPU here; set it to 0 to work on CPUs")
        self.generator = load_generator(settings.bundle, settings.fingerprint, "cuda" if on_gpu else "cpu")

    def schema(self) -> pa.Schema:
        return part_schema()

    def fill(self, shard: Shard, writer: pq.ParquetWriter) -> Counts:
        rows = RowWriter(self.generator, self.settings.fingerprint, self.settings.config, dict(shard.duplicates))
        read = [row for _, batch in read_rows(shard, shard.rows, record_schema().names) for row in batch]
        writer.write_table(pa.Table.from_pylist(rows.rows(read, shard.first), part_schema()))
        return rows.counts

    def expected_rows(self, shard: Shard, counts: Counts) -> int:
        return counts.texts + counts.rejects

    def is_final(self, counts: Counts) -> bool:
        return not counts.failed

    def broken(self, shard: Shard) -> BulkError:
        return BulkError(
            f"{ATTEMPTS} workers died over {shard}: out of memory (try a smaller shard_rows or inference.rows), or a "
            "record that breaks the generator; what is done is kept"
        )

    def close(self) -> None:
        torch.set_num_threads(self._threads)
