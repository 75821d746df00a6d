"""The cost of the driver of a bulk job, with workers that write a fixed text.

    python tests/benchmarks/scale.py [--records 100000 1000000] [--workers 2]

Each number of records is measured in a separate process, with JSON lines as input (about 120 bytes per record) and a
local Ray cluster. Prints CPU time and peak memory of the driver after the start of Ray. The last line is JSON.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from measuring import print_result

from agggen.corpora.rejects import Reject
from agggen.generation.config import InferenceConfig
from agggen_platform.bulk import job
from agggen_platform.bulk.inputs import read_records
from agggen_platform.bulk.model import BulkConfig, Model
from agggen_platform.bulk.rows import Counts, text_schema
from agggen_platform.bulk.worker import BulkWorker, WorkerSettings
from agggen_platform.ray_cluster import connected
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import Worker

EMPTY = {pa.string(): "", pa.bool_(): False, pa.int32(): 1, pa.int64(): 0, pa.float64(): 0.0}


class FixedTextWorker(BulkWorker):
    """Reads its records and writes the same text for each."""

    def __init__(self, settings: WorkerSettings) -> None:
        Worker.__init__(self, settings.out, settings.job)

    def write_part(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        ids = [row["id"] for _, rows in read_records(shard, 1024) for row in rows]
        first = shard.rows_before + shard.first
        numbers = pa.array(range(first, first + len(ids)), pa.int64())
        columns: dict[str, Any] = {
            field.name: pa.array([EMPTY.get(field.type, [])] * len(ids), field.type) for field in text_schema()
        }
        pq.write_table(pa.table(columns | {"row": numbers, "id": ids}, text_schema()), path, compression="zstd")
        return Counts(len(ids), len(ids)), len(ids), ()

    def close(self) -> None: ...


def run_job(options: argparse.Namespace) -> None:
    """Runs and measures one job in this process."""
    job.BulkWorker = FixedTextWorker  # type: ignore[misc]
    model = Model(options.folder, "0" * 64, InferenceConfig(), 3)
    config = BulkConfig(inference=InferenceConfig(), actors=options.workers)
    with connected(address="local", cpus=options.workers, gpus=0):
        cpu, clock = time.process_time(), time.monotonic()
        report = job.generate(model, f"{options.folder}/in.jsonl", f"{options.folder}/out", config)
        result = {
            "records": report.summary.records,
            "parts": report.progress.total if report.progress else 0,
            "redone": report.retries,
            "driver_cpu": round(time.process_time() - cpu, 2),
            "seconds": round(time.monotonic() - clock, 1),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }
    print(json.dumps(result))


def write_input(path: Path, records: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(records):
            name = f"Element {number}"
            triples = f'[["{name}", "symbol", "E{number}"], ["{name}", "period", "{number % 7}"]]'
            file.write(f'{{"id": "record-{number}", "triples": {triples}}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        run_job(options)
        return
    results = []
    for records in options.records:
        with tempfile.TemporaryDirectory() as folder:
            write_input(Path(folder) / "in.jsonl", records)
            command = [__file__, "--folder", folder, "--workers", str(options.workers)]
            completed = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True)
            if completed.returncode:
                raise SystemExit(f"{records:,} records: the job failed ({completed.returncode})")
            results.append(json.loads(completed.stdout.splitlines()[-1]))
            print(results[-1], flush=True)
    print_result("scale", workers=options.workers, runs=results)


if __name__ == "__main__":
    main()
