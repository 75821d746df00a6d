"""Bulk generation on a cluster of containers whose nodes and store are lost. The output stays the same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import open_model
from tests.bulk_jobs import here, numbered_records, published, write_jsonl
from tests.cluster.containers import LONG, REPO, Cluster, nodes_at, podman
from tests.processes import until
from tests.unit.serve.conftest import save_tiny_model

pytestmark = pytest.mark.cluster

RECORDS, SHARDS = 1920, 240


class Bulk:
    """Bulk jobs of the same input: a driver on the head and two actors on the workers, unless `start` is told else."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, folder = cluster, cluster.folder / "bulk"
        self.model = open_model(str(save_tiny_model(folder / "bundle")))
        self.source = write_jsonl(folder / "in.jsonl", numbered_records(RECORDS))
        subprocess.run(["chmod", "-R", "go+rX", str(folder)], check=True)
        self.undisturbed = folder / "undisturbed"
        generate(self.model, str(self.source), str(self.undisturbed), here(self.model))
        self.out = ""

    def start(
        self, *settings: str, node: str | None = None, env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        out = f"s3://agggen-models/{self.out}"
        job = ["bulk", self.model.address, str(self.source), "--out", out, "shard_rows=8", *(settings or ["actors=2"])]
        return self.cluster.driver("agggen", *job, node=node, env=env)

    def parts(self) -> int:
        return len(list((self.cluster.bucket / self.out / "texts").glob("*.parquet")))

    def wait_for(self, job: subprocess.Popen[str], share: float, nodes: int = 2) -> None:
        def reached() -> bool:
            assert job.poll() is None, f"it ended ({job.returncode}): {job.communicate()[0]}"
            return self.parts() >= share * SHARDS and nodes_at(self.cluster.bucket / self.out) >= nodes

        until(reached, f"{share:.0%} of the texts by {nodes} nodes", 240)

    def check_that_it_resumes(self) -> None:
        """The job is submitted again, uses what was done, and ends well."""
        output = self.check_success(self.start())
        (reused,) = re.findall(r"(\d+) of \d+ shards were already done", output)
        assert int(reused) >= 0.2 * SHARDS - 2  # of a part or two the note may be missing

    def check_success(self, job: subprocess.Popen[str]) -> str:
        """It ended well, and its output is that of an undisturbed job of one process, byte for byte."""
        output = job.communicate(timeout=900)[0]
        assert job.returncode == 0, output
        assert published(self.cluster.bucket / self.out) == published(self.undisturbed)
        return output


@pytest.fixture(scope="module")
def _bulk(shared: Cluster) -> Bulk:
    return Bulk(shared)


@pytest.fixture
def bulk(_bulk: Bulk, cluster: Cluster, request: pytest.FixtureRequest) -> Bulk:
    """With an output folder of the test's own."""
    _bulk.out = request.node.name.translate({ord("["): "-", ord("]"): ""})
    return _bulk


def lose_a_worker(cluster: Cluster, worker: str) -> None:
    """A node is killed and another one joins."""
    cluster.lose(worker)
    cluster.worker()


def pause_the_store(cluster: Cluster, _: str) -> None:
    """The S3 server hangs for 20 seconds: connections are accepted and nothing is answered."""
    podman("pause", cluster.s3)
    time.sleep(20)
    podman("unpause", cluster.s3)


def cut_the_network(cluster: Cluster, worker: str) -> None:
    """A worker is cut off from head and store for 30 seconds."""
    with cluster.cut_off(worker):
        time.sleep(30)


@pytest.mark.parametrize(
    "fault",
    [lose_a_worker, pause_the_store, pytest.param(cut_the_network, marks=LONG)],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_in_the_middle_changes_no_byte(
    bulk: Bulk, cluster: Cluster, fault: Callable[[Cluster, str], None]
) -> None:
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    fault(cluster, cluster.workers[0])
    assert bulk.parts() < SHARDS, "the job had ended before the fault had"
    bulk.check_success(job)


def test_a_shard_whose_node_was_out_of_memory_is_retried(bulk: Bulk, cluster: Cluster) -> None:
    """A process beside the actor takes memory until the kernel kills both; Ray's workers are killed first."""
    job, node = bulk.start(), cluster.workers[0]
    bulk.wait_for(job, 0.2)
    podman("update", "--memory=1200m", node)
    hog = podman("exec", node, "python", "-c", "taken = []\nwhile True: taken.append(b'x' * (64 << 20))", check=False)
    assert hog.returncode == 137, hog.stdout + hog.stderr
    assert bulk.parts() < SHARDS, "the job had ended before"
    podman("update", "--memory=3g", node)
    assert re.search(r"\d+ were retried", bulk.check_success(job))


@LONG
def test_a_store_that_is_gone_for_a_minute_ends_the_job_which_then_resumes(bulk: Bulk, cluster: Cluster) -> None:
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    podman("kill", "--signal=KILL", cluster.s3)
    gone = time.monotonic()
    output = job.communicate(timeout=900)[0]
    assert job.returncode == 5, output
    assert "s3://agggen-models" in output and "Traceback" not in output, output
    time.sleep(max(0.0, 60 - (time.monotonic() - gone)))
    podman("start", cluster.s3)
    cluster.wait_for_store()
    bulk.check_that_it_resumes()


def test_a_driver_cut_off_from_the_store_stops_when_another_took_over(bulk: Bulk, cluster: Cluster) -> None:
    node = cluster.machine("driver")
    cut_off = bulk.start("actors=0", node=node)
    bulk.wait_for(cut_off, 0.2, nodes=1)
    with cluster.cut_off(node):
        begin = time.monotonic()
        second = bulk.start("actors=0")
        bulk.wait_for(second, (bulk.parts() + 2) / SHARDS, nodes=1)  # it has taken over and works
        time.sleep(max(0.0, 30 - (time.monotonic() - begin)))
    output = cut_off.communicate(timeout=900)[0]
    # 6: another job has the claim. 5: the store did not answer until the retries ended.
    assert cut_off.returncode in (5, 6), output
    bulk.check_success(second)


@LONG
def test_bulk_resumes_when_the_head_was_killed(bulk: Bulk, cluster: Cluster) -> None:
    job = bulk.start()
    bulk.wait_for(job, 0.2, nodes=1)
    before = [*cluster.workers]
    cluster.restart_head(job)
    bulk.check_that_it_resumes()
    cluster.restore_workers()
    assert cluster.workers == before, "workers ended with the head"


@LONG
def test_a_full_disk_is_reported_and_the_job_resumes_when_there_is_room(bulk: Bulk, cluster: Cluster) -> None:
    node = cluster.workers[0]
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    podman("exec", node, "dd", "if=/dev/zero", "of=/tmp/ballast", "bs=1M", check=False)
    output = job.communicate(timeout=900)[0]
    assert job.returncode == 5, output
    assert re.search(r"cannot write /tmp/\S+: the disk is full \(.*free\); make room", output), output
    podman("exec", node, "rm", "/tmp/ballast")
    bulk.check_that_it_resumes()


HOLD = """
import sys, time
from pathlib import Path
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder

with claim(Folder(sys.argv[1])) as still_held:
    while not Path("/tmp/enough").exists():
        time.sleep(0.2)
    still_held()
"""
"""A driver that holds a claim until it is told that it is enough; it fails if another has taken the claim."""


def test_a_claim_holds_when_clocks_are_five_minutes_apart(bulk: Bulk, cluster: Cluster) -> None:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler for what puts a clock ahead")
    library, worker = cluster.folder / "ahead.so", cluster.workers[0]
    source = str(REPO / "tests" / "cluster" / "ahead.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), source], check=True)
    ahead = {"LD_PRELOAD": str(library)}
    now = cluster.driver("python", "-c", "import time; print(time.time())", node=worker, env=ahead).communicate()[0]
    assert 290 < float(now) - time.time() < 310
    place = f"s3://agggen-models/{bulk.out}"
    nodes: list[tuple[str, dict[str, str]]] = [(cluster.head, {}), (worker, ahead)]
    for (holder, clock), (other, other_clock) in (nodes, nodes[::-1]):
        holding = cluster.driver("python", "-c", HOLD, place, node=holder, env=clock)
        until((cluster.bucket / bulk.out / ".claim").exists, "claim")
        refused = bulk.start("actors=0", node=other, env=other_clock)
        output = refused.communicate(timeout=100)[0]
        assert (refused.returncode, "another job works on" in output) == (6, True), output
        podman("exec", holder, "touch", "/tmp/enough")
        output = holding.communicate(timeout=60)[0]
        assert holding.returncode == 0, output
    bulk.check_success(bulk.start("actors=0", node=worker, env=ahead))
