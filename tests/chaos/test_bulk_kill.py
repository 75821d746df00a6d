"""Kills bulk generation where it hurts. The output must be that of an undisturbed run, byte for byte.

``AGGGEN_KILL_RECORDS`` is the number of records of the job that is killed five times (240).
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import here, numbered_records, published, write_jsonl
from tests.processes import Running
from tests.ray_head import Head
from tests.s3_faults import FaultyS3

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

RECORDS, SHARDS, WORKERS = 240, 30, 2


class BulkJob(Running):
    """The command in a process of its own, with a Ray cluster of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.out = folder / "out"
        super().__init__(["-m", "agggen_platform.cli.main", "bulk", *arguments, "--out", str(self.out)], folder)

    def wait_for_parts(self, count: int) -> None:
        self.wait_until(lambda: len(self.parts()) >= count, f"{count} shards")

    def parts(self) -> list[Path]:
        return list((self.out / "texts").glob("[0-9]*.parquet"))

    def actors(self) -> set[int]:
        return {child.pid for child in self.children("(BulkWorker)")}

    def die(self) -> None:
        """Kills the driver alone: what it started must notice by itself."""
        self.signal(signal.SIGKILL)
        self.process.wait(60)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records, of which one is a duplicate."""
    records = list(numbered_records(RECORDS))
    return write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", [*records[:-1], records[5]])


@pytest.fixture(scope="module")
def undisturbed(model: Model, source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of a job that is not disturbed."""
    out = tmp_path_factory.mktemp("undisturbed")
    report = generate(model, str(source), str(out), here(model))
    assert report.progress is not None
    assert (report.progress.total, report.summary.records, report.summary.rejects) == (SHARDS, RECORDS - 1, 1)
    return published(out)


@pytest.fixture
def start(model: Model, source: Path, tmp_path: Path) -> Iterator[Callable[..., BulkJob]]:
    def job(*settings: str) -> BulkJob:
        return stack.enter_context(BulkJob(tmp_path, model.address, str(source), "shard_rows=8", *settings))

    with ExitStack() as stack:
        yield job


def test_the_driver_and_an_actor_are_killed_again_and_again(
    start: Callable[..., BulkJob], undisturbed: dict[str, bytes]
) -> None:
    done = 0
    for share in (0.3, 0.6, 0.9):
        job = start("--actors", str(WORKERS))
        job.wait_for_parts(int(share * SHARDS))
        actors = [psutil.Process(pid) for pid in job.actors()]
        job.die()
        assert not published(job.out)
        psutil.wait_procs(actors, timeout=120)  # they may outlive the driver by a shard
        assert len(job.parts()) >= done
        done = len(job.parts())
    job = start("--actors", str(WORKERS))
    job.wait_until(lambda: len(job.actors()) == WORKERS or len(job.parts()) == SHARDS, "the actors")
    for pid in list(job.actors())[:1]:
        psutil.Process(pid).kill()
    before = len(job.parts())
    job.wait_until(lambda: len(job.parts()) > before or (job.out / "manifest.json").exists(), "another shard")
    assert job.finish() == 0, job.output()
    assert published(job.out) == undisturbed
    report = json.loads((job.out / "report.json").read_text())
    assert report["shards"]["reused"] >= done
    assert report["shards"]["redone"] <= 3 * WORKERS + 1  # at most one shard a worker and kill
    assert not [path for path in job.out.rglob("*") if path.name.endswith(".tmp")]


def test_driver_worker_node_and_store_are_killed_in_one_job(
    model: Model, s3: str, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    records = int(os.environ.get("AGGGEN_KILL_RECORDS", RECORDS))
    shard_rows, patience = f"shard_rows={max(8, records // 100)}", 900 + records / 10
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(records))
    begin = time.monotonic()
    generate(model, str(source), str(tmp_path / "undisturbed"), here(model, shard_rows))
    undisturbed, alone = published(tmp_path / "undisturbed"), time.monotonic() - begin
    shards, out = sum(name.startswith("texts/") for name in undisturbed), f"{s3}/out"
    begin = time.monotonic()
    with ExitStack() as stack:
        head = Head(tmp_path, stack, cpus=1)
        node = head.join(tmp_path, stack)

        def start() -> Running:
            command = ["-m", "agggen_platform.cli.main", "bulk", model.address, str(source), "--out", out]
            environment = head.env | {"RAY_ADDRESS": head.gcs}
            return stack.enter_context(Running([*command, shard_rows, "--actors", "2"], tmp_path, environment))

        def wait(share: float) -> None:
            job.wait_until(
                lambda: len(Folder(out).names("texts")) >= share * shards, f"{share:.0%} of the texts", patience
            )

        job = start()
        wait(0.15)
        job.signal(signal.SIGKILL)
        job = start()
        job.wait_until(lambda: node.children("(BulkWorker)"), "an actor on the second node")
        wait(0.3)
        node.children("(BulkWorker)")[0].kill()
        wait(0.45)
        node.kill()
        wait(0.6)
        faulty_s3.inject("reset", -1)
        assert job.finish() == 5 and "try again when it is well" in job.output()
        faulty_s3.heal()
        job = start()
        wait(0.75)
        job.signal(signal.SIGKILL)
        assert not published(out)
        job = start()
        assert job.finish(patience) == 0, job.output()
    assert published(out) == undisturbed
    report = json.loads(Folder(out).read("report.json") or b"")
    print(f"{records:,} records, {shards} shards: {alone:.0f} s undisturbed by one worker,", end=" ")
    print(f"{time.monotonic() - begin:.0f} s with five kills, {report['shards']['redone']} shards begun again")
    assert report["shards"]["redone"] <= 2 + 1 + 1 + 2 + 2  # a shard of each worker that was killed


DIE = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from agggen_platform.bulk import output
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import bulk_config, open_model
from agggen_platform.storage import claim
from agggen_platform.storage.folder import Folder

bundle, source, out, where = sys.argv[1:]
claim.BEAT = 0.5
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
new, write, tidy = Folder.new, Folder.write, output.Output.tidy

@contextmanager
def dying_new(self, name):
    with new(self, name) as path:
        yield path
        if name.startswith(where):
            die()  # what was written is whole, and has not its name yet

def dying_write(self, name, content):
    if name.startswith(where) and "/begun-" not in name:
        die()
    write(self, name, content)

Folder.new, Folder.write = dying_new, dying_write
if where == "tidy":
    output.Output.tidy = lambda self: die()
model = open_model(bundle)
generate(model, source, out, bulk_config(model, ["actors=0", "shard_rows=8"]))
"""
BETWEEN = ["texts/000015", ".work/texts/000015", "report.json", "manifest.json", "tidy"]


def die_between(model: Model, source: Path, out: str, where: str, folder: Path) -> None:
    with Running(["-c", DIE, model.address, str(source), out, where], folder) as job:
        assert job.finish() == -signal.SIGKILL, job.output()


def test_the_driver_is_killed_between_data_and_commit(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """The same job dies at every step, and each time resumes from what the one before left."""
    out = tmp_path / "out"
    for where in BETWEEN:
        die_between(model, source, str(out), where, tmp_path)
        assert (out / "manifest.json").exists() == (where == "tidy")
    assert len(list((out / "texts").glob("*.parquet"))) == SHARDS
    report = generate(model, str(source), str(out), here(model))
    assert report.finished_before
    assert published(out) == undisturbed
    assert not [path for path in (out / ".work" / "input").rglob("*") if path.is_file()]
    shards = json.loads((out / "report.json").read_text())["shards"]
    assert (shards["reused"], shards["redone"]) == (SHARDS, 2)  # the part had no name yet, and no note


def test_the_driver_is_killed_before_the_commit_on_s3(
    model: Model, source: Path, undisturbed: dict[str, bytes], s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agggen_platform.storage.claim.BEAT", 0.5)
    out = f"{s3}/out"
    for where in ("texts/000015", "manifest.json"):
        die_between(model, source, out, where, tmp_path)
        assert "manifest.json" not in Folder(out).names()
    report = generate(model, str(source), out, here(model))
    assert report.progress is not None
    assert (report.progress.reused, report.redone) == (SHARDS, 1)
    assert published(out) == undisturbed


@pytest.mark.parametrize("store", ["folder", "s3"])
def test_two_copies_at_once_give_one_clean_output(
    store: str, model: Model, source: Path, undisturbed: dict[str, bytes], s3: str, tmp_path: Path
) -> None:
    out = f"{s3}/out" if store == "s3" else str(tmp_path / "out")
    command = ["-m", "agggen_platform.cli.main", "bulk", model.address, str(source), "--out", out, "shard_rows=8"]
    with ExitStack() as stack:
        copies = [stack.enter_context(Running([*command, "--actors", "0"], tmp_path)) for _ in range(2)]
        codes = [copy.finish() for copy in copies]
    said = "\n".join(copy.output() for copy in copies)
    if codes != [0, 0]:  # one may begin when the other has ended, and finds it done
        assert sorted(codes) == [0, 6], said
        assert f"another job works on {out}" in copies[codes.index(6)].output()
    else:
        assert "already has the texts of this job" in said
    assert published(out) == undisturbed
