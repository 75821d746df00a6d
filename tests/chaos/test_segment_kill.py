"""Kills the segmentation job where it hurts: an actor, the driver, twice over. Every row must come out exactly once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.prepared import read_records, write_records
from agggen.corpora.rejects import split_rejects
from agggen.records import Record
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment

psutil = pytest.importorskip("psutil", reason="psutil is not installed: pip install -e '.[dev]'")

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

RECORDS = 6000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that takes two actors some seconds."""
    folder = tmp_path_factory.mktemp("corpus")
    some = split_rejects(load("elements", "train"))[0]
    records = (
        Record(f"{number:05d}", one.triples, one.references)
        for number, one in ((number, some[number % len(some)]) for number in range(RECORDS))
    )
    write_records(folder / "train.parquet", records, "elements", "train")
    return folder


@pytest.fixture(scope="module")
def wanted(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """What a job that nobody disturbs writes."""
    out = tmp_path_factory.mktemp("wanted")
    segment(str(corpus), str(out), SegmentConfig(actors=0))
    return read_records(out / "train.parquet")


class Job:
    """The command in a process of its own, with a Ray cluster of its own."""

    def __init__(self, corpus: Path, out: Path) -> None:
        command = [sys.executable, "-m", "agggen_platform.cli.main", "segment", str(corpus), "--out", str(out)]
        self.out = out
        self.errors = out.parent / "stderr.txt"
        with self.errors.open("w") as stderr:
            self.process = subprocess.Popen(
                [*command, "--actors", "2", "shard_rows=40"], cwd=out.parent, stdout=subprocess.DEVNULL, stderr=stderr
            )

    def wait_for_parts(self, count: int) -> None:
        self.wait_until(lambda: len(self.parts()) >= count, f"{count} shards")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 240
        while not condition():
            assert self.process.poll() is None, f"the job ended before {what}: {self.errors.read_text()}"
            assert time.monotonic() < deadline, f"no {what}: {self.errors.read_text()}"
            time.sleep(0.02)

    def parts(self) -> list[Path]:
        return list((self.out / "facts" / "train").glob("[0-9]*.parquet"))

    def actors(self) -> list[int]:
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                title = " ".join(child.cmdline())
            except psutil.Error:
                continue
            if title.startswith("ray::") and "ShardWorker" in title:
                found.append(child.pid)
        return found

    def finish(self) -> str:
        assert self.process.wait(400) == 0, self.errors.read_text()
        return self.errors.read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)


@pytest.fixture
def start(corpus: Path, tmp_path: Path) -> Iterator[Callable[[], Job]]:
    jobs: list[Job] = []

    def begin() -> Job:
        jobs.append(Job(corpus, tmp_path / "out"))
        return jobs[-1]

    yield begin
    for job in jobs:
        if job.process.poll() is None:
            job.kill()


def check(out: Path, wanted: list[Record]) -> None:
    assert read_records(out / "train.parquet") == wanted
    parts = sorted((out / "facts" / "train").iterdir())
    rows = [row for part in parts for row in pq.read_table(part, columns=["row"])["row"].to_pylist()]
    assert rows == list(range(RECORDS))
    assert not [path for path in out.rglob("*") if path.name.endswith((".tmp", ".attempts"))]


def test_an_actor_is_killed(start: Callable[[], Job], wanted: list[Record]) -> None:
    job = start()
    job.wait_for_parts(5)
    victims = job.actors()
    assert len(victims) == 2
    os.kill(victims[0], signal.SIGKILL)
    job.wait_until(lambda: set(job.actors()) - set(victims), "a new actor")
    os.kill(victims[1], signal.SIGKILL)  # and the other one, when the first is back
    job.finish()
    check(job.out, wanted)


def test_the_driver_is_killed_and_the_job_run_again(start: Callable[[], Job], wanted: list[Record]) -> None:
    for parts in (5, 40):
        job = start()
        job.wait_for_parts(parts)
        job.kill()
        assert not (job.out / "manifest.json").exists()
        assert not (job.out / "train.parquet").exists()
    done = len(job.parts())
    again = start()
    said = again.finish()
    found = re.search(r"(\d+) of (\d+) shards were there", said)
    assert found, said
    assert done <= int(found[1]) < int(found[2])  # an actor may outlive its driver by a shard
    check(job.out, wanted)


def test_a_second_job_is_refused_and_goes_on_when_the_first_is_dead(
    start: Callable[[], Job], wanted: list[Record]
) -> None:
    first = start()
    first.wait_for_parts(1)
    second = start()
    assert second.process.wait(120) == 6
    assert f"another job works on {second.out} (process {first.process.pid}" in second.errors.read_text()
    assert first.process.poll() is None
    first.kill()
    third = start()
    third.finish()
    check(third.out, wanted)
