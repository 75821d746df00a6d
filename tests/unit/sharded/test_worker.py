"""A worker of a job over shards: counting of crashes, number of store requests, reuse of finished shards."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.rejects import Reject
from agggen.errors import BundleError
from agggen_platform import ray_cluster
from agggen_platform.ray_cluster import Cluster
from agggen_platform.sharded import driver
from agggen_platform.sharded import worker as worker_module
from agggen_platform.sharded.config import JobError, ShardedConfig
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import ATTEMPTS, FinishedShard, Tally, Worker, with_attempts
from agggen_platform.storage.folder import Folder
from tests.s3_faults import FaultyS3

SHARD = Shard(0, "in", "in.jsonl", "texts/000000.txt", (0,), 0, 0, 8, "in/in.jsonl")


@dataclass
class Rows(Tally):
    rows: int = 0
    rejects: int = 0
    total = property(lambda self: self.rows)


class CrashingWorker(Worker[Rows]):
    """Fails on each shard, by default like a killed worker."""

    kind, counts, crash_causes = "generate", Rows, "a fault"
    fault: BaseException | None = SystemExit()

    def write_part(self, shard: Shard, path: Path) -> tuple[Rows, int, Sequence[Reject]]:
        if self.fault:
            raise self.fault
        path.write_text("text")
        return Rows(shard.rows), shard.rows, ()


def attempt(out: Folder, shard: Shard, fault: BaseException | None = CrashingWorker.fault) -> FinishedShard[Rows]:
    """The result of processing a shard in an actor."""
    worker = CrashingWorker(out.address, "job")
    worker.fault = fault
    result, *padding = worker({"shard": [shard.as_json()]})["result"].to_pylist()
    assert padding == [None] * (shard.rows - 1)  # null rows, so that Ray's dashboard counts rows
    return FinishedShard.from_json(result, Rows)


@pytest.fixture
def node_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of nodes; actors run on the last one, the others are dead."""
    nodes = ["first"]
    monkeypatch.setattr(worker_module, "this_actor", lambda: (nodes[-1], True))
    monkeypatch.setattr(worker_module, "dead_nodes", lambda: set(nodes[:-1]))
    yield nodes


def test_a_shard_is_rejected_after_three_crashes_in_a_run(tmp_path: Path, node_names: list[str]) -> None:
    out, shard = Folder(str(tmp_path)), SHARD
    for _ in range(2):  # runs
        for _ in range(ATTEMPTS):
            with pytest.raises(SystemExit):
                attempt(out, shard)
        with pytest.raises(JobError, match="workers died while processing rows 0 to 7"):
            attempt(out, shard)
        (shard,) = with_attempts([SHARD], out)
    assert attempt(out, shard, fault=None).retries == 2 * (ATTEMPTS + 1)


def test_crashes_on_dead_nodes_do_not_count(tmp_path: Path, node_names: list[str]) -> None:
    out = Folder(str(tmp_path))
    for number in range(3 * ATTEMPTS):
        with pytest.raises(SystemExit):
            attempt(out, SHARD)
        node_names.append(f"node {number}")
    assert attempt(out, SHARD, fault=None).retries == 3 * ATTEMPTS


@pytest.mark.parametrize(
    ("fault", "message", "code"),
    [
        (BundleError("the bundle was replaced"), "^the bundle was replaced$", 3),
        (ValueError("what?"), r"^a worker failed at rows 0 to 7 of in/in.jsonl \(ValueError: what\?\)", 4),
    ],
)
def test_an_error_of_an_actor_keeps_its_message(
    fault: Exception, message: str, code: int, tmp_path: Path, node_names: list[str]
) -> None:
    with pytest.raises(JobError, match=message) as raised:
        attempt(Folder(str(tmp_path)), SHARD, fault)
    assert raised.value.exit_code == code


def test_a_shard_takes_three_requests_besides_its_input(
    s3: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "this_actor", lambda: ("node_names", False))
    attempt(Folder(s3), SHARD, fault=None)
    assert [(method, path.partition("?")[0].rpartition("/")[2]) for method, path in faulty_s3.requests] == [
        ("PUT", "begun-0"),
        ("PUT", "000000.txt"),
        ("PUT", "done.json"),
    ]
    (repeated,) = with_attempts([SHARD], Folder(s3))
    assert attempt(Folder(s3), repeated).reused


def test_jobs_wait_for_missing_gpus_only_on_a_cluster(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []

    def actors(*arguments: Any) -> Iterator[Any]:
        calls.append(arguments[3:])
        yield from ()

    def run(local: bool) -> None:
        monkeypatch.setattr(ray_cluster, "connected", lambda address: nullcontext(Cluster(4.0, 0.0, local)))
        with driver._result_stream([SHARD] * 9, CrashingWorker, None, ShardedConfig(), None, gpus=1.0) as results:
            assert list(results) == []

    monkeypatch.setattr(driver, "run_in_actors", actors)
    with pytest.raises(JobError, match=r"an actor needs 1 GPUs \(gpus_per_actor\), but this machine has 0"):
        run(local=True)
    run(local=False)
    assert calls == [(9, 0, 1.0)]
    assert "autoscaler" in caplog.text
