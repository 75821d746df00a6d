"""Kills an actor and the driver of a segmentation job. Every row must come out exactly once."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.prepared import read_records, write_records
from agggen.corpora.rejects import split_rejects
from agggen.facts.config import SegmenterConfig
from agggen.records import Record
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from tests.sharded_jobs import ShardedJob

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

RECORDS = 6000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that takes two actors some seconds."""
    folder = tmp_path_factory.mktemp("corpus")
    shipped = split_rejects(load("elements", "train"))[0]
    records = (replace(record, id=f"{number:05d}") for number, record in enumerate(islice(cycle(shipped), RECORDS)))
    write_records(folder / "train.parquet", records, "elements", "train")
    return folder


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """The output of a job that is not disturbed."""
    out = tmp_path_factory.mktemp("undisturbed")
    segment(str(corpus), str(out), SegmentConfig(facts=SegmenterConfig(source="clauses"), actors=0))
    return read_records(out / "train")


def job(corpus: Path, folder: Path) -> ShardedJob:
    command = ["segment", str(corpus), "--actors", "2", "--facts", "clauses", "shard_rows=40"]
    return ShardedJob(command, folder, "train", "ShardWorker")


@pytest.fixture
def start(corpus: Path, tmp_path: Path) -> Iterator[Callable[[], ShardedJob]]:
    with ExitStack() as jobs:
        yield lambda: jobs.enter_context(job(corpus, tmp_path))


def check(out: Path, undisturbed: list[Record]) -> None:
    assert read_records(out / "train") == undisturbed
    assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


def test_an_actor_is_killed(start: Callable[[], ShardedJob], undisturbed: list[Record]) -> None:
    job = start()
    job.wait_for_parts(5)
    job.wait_until(lambda: len(job.actors()) == 2, "two actors")
    first, second = victims = job.actors()
    os.kill(first, signal.SIGKILL)
    job.wait_until(lambda: job.actors() - victims, "a new actor")
    os.kill(second, signal.SIGKILL)  # and the other one, when the first is back
    job.succeed()
    check(job.out, undisturbed)


def test_the_driver_is_killed_and_the_job_run_again(start: Callable[[], ShardedJob], undisturbed: list[Record]) -> None:
    for parts in (5, 40):
        job = start()
        job.wait_for_parts(parts)
        job.die()
        assert not (job.out / "manifest.json").exists()
    done = len(job.parts())
    again = start()
    again.wait_for_parts(done + 1)
    said = again.succeed()
    reused = re.search(r"(\d+) of (\d+) shards were there", said)
    assert reused, said
    assert done <= int(reused[1]) < int(reused[2])  # an actor may outlive its driver by a shard
    check(job.out, undisturbed)
