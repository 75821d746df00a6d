"""The cost of the driver of a bulk job, with workers that write a fixed text.

    python tests/benchmarks/scale.py [--records 100000 1000000] [--workers 2] [--s3]

Each number of records is measured in a separate process, with JSON lines as input (about 120 bytes per record) and a
local Ray cluster; with ``--s3``, input and output are on a local S3 server. Prints CPU time and peak memory of the
driver after the start of Ray, and the number of S3 requests of driver and workers. The last line is JSON.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
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
from agggen_platform.sharded.worker import FinishedShard, Worker
from agggen_platform.storage.folder import Folder

REQUESTS: list[str] = []
"""The URLs of this process's requests to S3."""
EMPTY = {pa.string(): "", pa.bool_(): False, pa.int32(): 1, pa.int64(): 0, pa.float64(): 0.0}


class FixedTextWorker(BulkWorker):
    """Reads its records and writes the same text for each."""

    def __init__(self, settings: WorkerSettings) -> None:
        Worker.__init__(self, settings.out, settings.job)
        self.requests = Path(settings.bundle) / f"requests-{os.getpid()}"
        REQUESTS.clear()  # the pickled class contains the driver's requests
        record_requests()

    def write_part(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        ids = [row["id"] for _, rows in read_records(shard, 1024) for row in rows]
        first = shard.rows_before + shard.first
        numbers = pa.array(range(first, first + len(ids)), pa.int64())
        columns: dict[str, Any] = {
            field.name: pa.array([EMPTY.get(field.type, [])] * len(ids), field.type) for field in text_schema()
        }
        pq.write_table(pa.table(columns | {"row": numbers, "id": ids}, text_schema()), path, compression="zstd")
        return Counts(len(ids), len(ids)), len(ids), ()

    def run(self, shard: Shard) -> FinishedShard[Counts]:
        finished_shard = super().run(shard)
        self.requests.write_text(str(len(REQUESTS)))
        return finished_shard

    def close(self) -> None: ...


def record_requests() -> None:
    from botocore.httpsession import URLLib3Session

    send = URLLib3Session.send

    def send_recorded(self: Any, request: Any) -> Any:
        REQUESTS.append(request.url)
        return send(self, request)

    URLLib3Session.send = send_recorded


def run_job(options: argparse.Namespace) -> None:
    """Runs and measures one job in this process."""
    job.BulkWorker = FixedTextWorker  # type: ignore[misc]
    scratch = Path(options.scratch)
    model = Model(str(scratch), "0" * 64, InferenceConfig(), 3)
    config = BulkConfig(inference=InferenceConfig(), actors=options.workers)
    with connected(address="local", cpus=options.workers, gpus=0):
        record_requests()
        cpu, clock = time.process_time(), time.monotonic()
        report = job.generate(model, options.source, options.out, config)
        result = {
            "records": report.summary.records,
            "parts": report.progress.total if report.progress else 0,
            "redone": report.retries,
            "driver_cpu": round(time.process_time() - cpu, 2),
            "seconds": round(time.monotonic() - clock, 1),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "driver_requests": len(REQUESTS),
        }
    result["worker_requests"] = sum(int(path.read_text()) for path in scratch.glob("requests-*"))
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
    parser.add_argument("--s3", action="store_true", help="read from and write to a local S3 server")
    for name in ("--source", "--out", "--scratch"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.source:
        run_job(options)
        return
    results = []
    for records in options.records:
        with tempfile.TemporaryDirectory() as folder, s3_server() if options.s3 else nullcontext(folder) as location:
            source = Path(folder) / "in.jsonl"
            write_input(source, records)
            if options.s3:
                Folder(location).upload("in.jsonl", source)
            command = [__file__, "--source", f"{location}/in.jsonl", "--out", f"{location}/out", "--scratch", folder]
            command += ["--workers", str(options.workers)]
            completed = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True)
            if completed.returncode:
                raise SystemExit(f"{records:,} records: the job failed ({completed.returncode})")
            results.append(json.loads(completed.stdout.splitlines()[-1]))
            print(results[-1], flush=True)
    print_result("scale", workers=options.workers, s3=options.s3, runs=results)


@contextmanager
def s3_server() -> Iterator[str]:
    """Starts an S3 server and points the environment to it; yields the address of an empty bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    boto3.client("s3").create_bucket(Bucket="scale")
    try:
        yield "s3://scale"
    finally:
        server.stop()


if __name__ == "__main__":
    main()
