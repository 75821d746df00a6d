"""Kills every process of bulk generation. The output must equal that of an uninterrupted run byte for byte.

``AGGGEN_KILL_RECORDS`` (240) is the number of records of the job that is killed five times; above 10,000, records of at
most two triples are used.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.generation.generator import Generation, Generator
from agggen.records import Record, Triple
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model, bulk_config
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import in_process, numbered_records, published, write_jsonl
from tests.processes import Running
from tests.ray_head import Head
from tests.s3_faults import FaultyS3

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

RECORDS, SHARDS = 240, 30


def cached(write: Callable[..., list[list[Generation]]]) -> Callable[..., list[list[Generation]]]:
    """Caches `Generator.generate` by the triples of a batch, since the input repeats a few records."""
    cache: dict[tuple[tuple[Triple, ...], ...], list[list[Generation]]] = {}

    def generate(self: Generator, records: Sequence[Record], *arguments: Any, **options: Any) -> list[list[Generation]]:
        batch = tuple(record.triples for record in records)
        if batch not in cache:
            cache[batch] = write(self, records, *arguments, **options)
        named = zip(records, cache[batch], strict=True)
        return [[replace(text, id=record.id) for text in texts] for record, texts in named]

    return generate


def test_driver_worker_node_and_store_are_killed_in_one_job(
    model: Model, s3: str, faulty_s3: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = int(os.environ.get("AGGGEN_KILL_RECORDS", RECORDS))
    shards, shard_rows = min(100, records // 8), max(8, records // 100)
    settings = [f"shard_rows={shard_rows}", "inference.plans=1", "inference.beam.beam=1", "inference.verify=off"]
    timeout = 900 + records / 10
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(records, 7 if records <= 10_000 else 2))
    with monkeypatch.context() as patch:
        patch.setattr(Generator, "generate", cached(Generator.generate))
        generate(model, str(source), str(tmp_path / "uninterrupted"), bulk_config(model, [*settings, "actors=0"]))
    command = ["-m", "agggen_platform.cli.main", "bulk", model.address, str(source), *settings, "--out"]
    out = f"{s3}/out"
    begin = time.monotonic()
    with ExitStack() as stack:
        head = Head(tmp_path, stack, cpus=1)
        node = head.join(tmp_path, stack)

        def start() -> Running:
            environment = head.env | {"RAY_ADDRESS": head.gcs}
            return stack.enter_context(Running([*command, out, "actors=2"], tmp_path, environment))

        def wait(share: float) -> None:
            job.wait_until(
                lambda: len(Folder(out).names("texts")) >= share * shards,
                f"{share:.0%} of the texts",
                timeout,
                pause=max(0.02, records / 200_000),
            )

        job = start()
        wait(0.15)
        job.signal(signal.SIGKILL)
        job = start()
        job.wait_until(lambda: node.children("(BulkWorker)"), "an actor on the second node", timeout)
        wait(0.3)
        node.children("(BulkWorker)")[0].kill()
        wait(0.45)
        node.kill()
        wait(0.6)
        faulty_s3.inject("reset", -1)
        assert job.finish() == 5 and "try again later" in job.output()
        faulty_s3.heal()
        job = start()
        wait(0.75)
        job.signal(signal.SIGKILL)
        assert not published(out)
        job = start()
        assert job.finish(timeout) == 0, job.output()
    seconds = time.monotonic() - begin
    assert len(Folder(out).names("texts")) == shards
    assert published(out) == published(tmp_path / "uninterrupted")
    report = json.loads(Folder(out).read("report.json") or b"")
    print(f"{records:,} records, {shards} shards: {seconds:.0f} s with five kills,", end=" ")
    print(f"{report['shards']['redone']} shards repeated")
    assert report["shards"]["redone"] <= 2 + 1 + 1 + 2 + 2  # one shard per killed worker


KILLED_DRIVER = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from agggen_platform.bulk import output
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import bulk_config, open_model
from agggen_platform.storage import claim
from agggen_platform.storage.folder import Folder

bundle, source, out, crash_point = sys.argv[1:]
claim.HEARTBEAT_SECONDS = 0.5
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
new, write, delete_input_copies = Folder.new, Folder.write, output.Output.delete_input_copies

@contextmanager
def dying_new(self, name):
    with new(self, name) as path:
        yield path
        if name.startswith(crash_point):
            die()  # the file is complete, but not renamed yet

def dying_write(self, name, content):
    if name.startswith(crash_point) and "/begun-" not in name:
        die()
    write(self, name, content)

Folder.new, Folder.write = dying_new, dying_write
if crash_point == "delete_input_copies":
    output.Output.delete_input_copies = lambda self: die()
model = open_model(bundle)
generate(model, source, out, bulk_config(model, ["actors=0", "shard_rows=8"]))
"""
CRASH_POINTS = ["texts/000015", ".work/texts/000015", "report.json", "manifest.json", "delete_input_copies"]


def test_the_driver_is_killed_between_data_and_commit(model: Model, tmp_path: Path) -> None:
    """The job is killed at each of `CRASH_POINTS` and resumes from the previous run's state."""
    *records, _ = numbered_records(RECORDS)
    source, out = write_jsonl(tmp_path / "in.jsonl", [*records, records[5]]), tmp_path / "out"  # the last: a duplicate
    report = generate(model, str(source), str(tmp_path / "uninterrupted"), in_process(model))
    assert report.progress is not None
    assert (report.progress.total, report.summary.records, report.summary.rejects) == (SHARDS, RECORDS - 1, 1)
    for crash_point in CRASH_POINTS:
        with Running(["-c", KILLED_DRIVER, model.address, str(source), str(out), crash_point], tmp_path) as job:
            assert job.finish() == -signal.SIGKILL, job.output()
        assert (out / "manifest.json").exists() == (crash_point == "delete_input_copies")
    assert len(list((out / "texts").glob("*.parquet"))) == SHARDS
    assert generate(model, str(source), str(out), in_process(model)).was_already_finished
    assert published(out) == published(tmp_path / "uninterrupted")
    assert not [path for path in (out / ".work" / "input").rglob("*") if path.is_file()]
    shards = json.loads((out / "report.json").read_text())["shards"]
    assert (shards["reused"], shards["redone"]) == (SHARDS, 2)  # killed before its rename, or before its note in .work
