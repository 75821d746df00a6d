"""The worker of a bulk generation job: reads a shard of records and writes one file of texts."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from agggen.corpora.rejects import Reject
from agggen_platform.bulk.inputs import read_records
from agggen_platform.bulk.model import BulkConfig, load_critic, load_generator
from agggen_platform.bulk.rows import Counts, RowWriter, text_schema
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import Worker

BATCH_ROWS = 64  # records per batch of the generator
_ROW_GROUP = 4096  # texts per Parquet row group


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    out: str
    job: str  # the job's fingerprint
    bundle: str  # the bundle's address
    fingerprint: str  # the bundle's fingerprint
    config: BulkConfig
    critic: tuple[str, str] | None = None  # the critic's address, and the SHA-256 of its files


class BulkWorker(Worker[Counts]):
    """Loads the bundle once and processes one shard per call; uses one thread, for reproducible texts."""

    kind = "generate"
    counts = Counts
    crash_causes = "out of memory (try a smaller inference.rows), or a record that crashes the generator"

    def __init__(self, settings: WorkerSettings) -> None:
        """Raises JobError if the bundle or critic differs from the driver's, or a GPU is required but missing."""
        super().__init__(settings.out, settings.job)
        self.settings = settings
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        uses_gpu = settings.config.gpus_per_actor > 0
        if uses_gpu and not torch.cuda.is_available():
            raise JobError("gpus_per_actor is above 0, but torch finds no GPU on this node; set it to 0 to use CPUs")
        self.generator = load_generator(settings.bundle, settings.fingerprint, "cuda" if uses_gpu else "cpu")
        self.critic = None if settings.critic is None else load_critic(*settings.critic)

    def write_part(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        return self._write(shard, path, RowWriter.texts)

    def write_after_crashes(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        return self._write(shard, path, partial(RowWriter.reject, reason=str(self.crash_error(shard))))

    def _write(
        self, shard: Shard, path: Path, texts_of: Callable[..., Iterator[dict[str, Any]]]
    ) -> tuple[Counts, int, Sequence[Reject]]:
        config = self.settings.config
        writer = RowWriter(self.generator, self.settings.fingerprint, config, shard, self.critic)
        texts = (text for first, rows in read_records(shard, BATCH_ROWS) for text in texts_of(writer, rows, first))
        if config.format == "jsonl":
            with path.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        else:
            schema = text_schema(self.critic is not None)
            with pq.ParquetWriter(path, schema, compression="zstd") as parquet:
                while group := list(islice(texts, _ROW_GROUP)):
                    parquet.write_table(pa.Table.from_pylist(group, schema))
        return writer.counts, writer.counts.texts, writer.rejects

    def close(self) -> None:
        torch.set_num_threads(self._threads)
