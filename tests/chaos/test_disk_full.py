"""Disks that fill up in the middle of a job: it fails with a clear error, publishes nothing, and resumes later."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import open_model
from tests.bulk_jobs import here, numbered_records, published, write_jsonl
from tests.chaos.full_disk import digests, on_small_disk
from tests.unit.serve.conftest import save_tiny_model
from tests.unit.training.toy import write_corpus as write_toy

pytestmark = pytest.mark.chaos

FULL = re.compile(r"cannot write \S+: the disk is full \(.*free\); make room")
_LEFTOVER = re.compile(r"\.tmp$|^\.[0-9a-f]+-")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "bundle")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", numbered_records(44))


@pytest.fixture(scope="module")
def results(bundle: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of all jobs, which had the small disk one after the other."""
    toy = write_toy(tmp_path_factory.mktemp("toy") / "toy")
    jobs = {"bulk": [bundle, source], "training": [toy], "tracking": []}
    return on_small_disk(tmp_path_factory.mktemp("small"), jobs)


def result_of(results: dict[str, Any], name: str) -> dict[str, Any]:
    """The result of one job, whose failures named the full disk and left no half-written file."""
    result: dict[str, Any] = results[name]
    assert "error" not in result, result["error"]
    for failure in result.get("failures", []):
        assert failure["exit_code"] == 5, failure
        assert FULL.search(failure["message"]), failure
        assert not [file for file in failure["files"] if _LEFTOVER.search(file)], failure
    return result


def test_bulk_generation(results: dict[str, Any], bundle: Path, source: Path, tmp_path: Path) -> None:
    job = result_of(results, "bulk")
    for failure in job["failures"]:
        assert not {"manifest.json", "report.json"} & set(failure["files"])
    parts = [sum(file.startswith("texts/0") for file in failure["files"]) for failure in job["failures"]]
    assert parts == [3, job["total"]], "what was done is kept"
    assert job["found"] == job["total"] == 6
    model = open_model(str(bundle))
    generate(model, str(source), str(tmp_path), here(model))
    assert job["published"] == digests(published(tmp_path))


def test_training(results: dict[str, Any]) -> None:
    job = result_of(results, "training")
    for failure in job["failures"]:
        assert not [file for file in failure["files"] if file.startswith("bundle/")]
    store, temporary = (failure["update"] for failure in job["failures"])
    assert 1 <= store <= 3 and store <= temporary <= 5, "the last checkpoints that there was room for"
    assert (job["trained"], job["same"]) == (True, True)


def test_a_run_log(results: dict[str, Any]) -> None:
    run = result_of(results, "tracking")
    assert run["slowest"] < 5
    (lost,) = (message for message in run["messages"] if "misses parts of this run" in message)
    assert "No space left" in lost
    steps, before, after = run["steps"], list(range(200)), list(range(400, 600))
    assert steps == sorted(set(steps))
    assert steps[:200] == before
    missed = set(range(200, 400)) - set(steps)
    assert missed, "the disk was not full"
    # The line after the room came back may still end one that was cut off, and is whole all the same.
    assert steps[-200:] == after
    assert run["ends"] == ["FINISHED"]
