"""Bulk generation on a container cluster that loses nodes and the store. The output must not change."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import open_model
from tests.bulk_jobs import in_process, numbered_records, published, write_jsonl
from tests.cluster.containers import LONG, REPO, Cluster, count_nodes, make_readable, output_of, podman, wait_for
from tests.processes import until
from tests.unit.serve.conftest import save_tiny_model

pytestmark = pytest.mark.cluster

RECORDS, SHARDS = 1920, 240


class Bulk:
    """Bulk jobs with the same input, by default with the driver on the head and two actors on the workers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, folder = cluster, cluster.folder / "bulk"
        self.model = open_model(str(save_tiny_model(folder / "bundle")))
        self.source = write_jsonl(folder / "in.jsonl", numbered_records(RECORDS))
        make_readable(folder)
        self.uninterrupted = folder / "uninterrupted"
        generate(self.model, str(self.source), str(self.uninterrupted), in_process(self.model))
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
            return self.parts() >= share * SHARDS and count_nodes(self.cluster.bucket / self.out) >= nodes

        wait_for(job, reached, f"{share:.0%} of the texts by {nodes} nodes", 240)

    def check_that_it_resumes(self) -> None:
        """Starts the job again; it must reuse finished shards and succeed."""
        output = self.check_success(self.start())
        (reused,) = re.findall(r"(\d+) of \d+ shards were already done", output)
        assert int(reused) >= 0.2 * SHARDS - 2  # the last shard of each actor may be unrecorded

    def check_success(self, job: subprocess.Popen[str]) -> str:
        """The job must succeed with the output of an uninterrupted local job; returns what it printed."""
        output = output_of(job)
        assert published(self.cluster.bucket / self.out) == published(self.uninterrupted)
        return output


@pytest.fixture(scope="module")
def _bulk(shared: Cluster) -> Bulk:
    return Bulk(shared)


@pytest.fixture
def bulk(_bulk: Bulk, cluster: Cluster, request: pytest.FixtureRequest) -> Bulk:
    """The jobs, with an output folder for this test."""
    _bulk.out = request.node.name.translate({ord("["): "-", ord("]"): ""})
    return _bulk


def kill_a_worker(cluster: Cluster, worker: str) -> None:
    """Kills a node and adds another one."""
    cluster.kill_worker(worker)
    cluster.add_worker()


def pause_the_store(cluster: Cluster, _: str) -> None:
    """The S3 server accepts connections but does not respond for 20 seconds."""
    podman("pause", cluster.s3)
    time.sleep(20)
    podman("unpause", cluster.s3)


def cut_the_network(cluster: Cluster, worker: str) -> None:
    """Disconnects a worker from head and store for 30 seconds."""
    with cluster.disconnected(worker):
        time.sleep(30)


@pytest.mark.parametrize(
    "fault",
    [kill_a_worker, pause_the_store, pytest.param(cut_the_network, marks=LONG)],
    ids=lambda fault: fault.__name__,
)
def test_faults_do_not_change_the_output(bulk: Bulk, cluster: Cluster, fault: Callable[[Cluster, str], None]) -> None:
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    fault(cluster, cluster.workers[0])
    assert bulk.parts() < SHARDS, "the job ended before the fault"
    bulk.check_success(job)


def test_a_shard_whose_node_was_out_of_memory_is_retried(bulk: Bulk, cluster: Cluster) -> None:
    """Another process on the node takes memory until the kernel kills the actor, then the process.

    Repeated if the actor was killed between two shards, so that no shard is retried.
    """
    job, node = bulk.start(), cluster.workers[0]
    take_all_memory = "blocks = []\nwhile True: blocks.append(b'x' * (64 << 20))"

    def second_attempt() -> bool:
        return any((cluster.bucket / bulk.out / ".work").rglob("begun-1"))

    bulk.wait_for(job, 0.2)
    while not second_attempt():
        podman("update", "--memory=1200m", node)
        memory_hog = podman("exec", node, "python", "-c", take_all_memory, check=False)
        assert memory_hog.returncode == 137, memory_hog.stdout + memory_hog.stderr
        n_parts = bulk.parts()
        assert n_parts < SHARDS, "the job ended before the fault"
        podman("update", "--memory=3g", node)
        enough = min(n_parts + 40, SHARDS)
        until(lambda: second_attempt() or bulk.parts() >= enough, "second attempt", 240)  # noqa: B023
    assert re.search(r"\d+ shards were retried", bulk.check_success(job))


@LONG
def test_the_job_ends_without_a_store_and_resumes_when_it_is_back(bulk: Bulk, cluster: Cluster) -> None:
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    podman("kill", "--signal=KILL", cluster.s3)
    killed_at = time.monotonic()
    output = output_of(job, expect=5)
    assert "s3://agggen-models" in output and "Traceback" not in output, output
    time.sleep(max(0.0, 60 - (time.monotonic() - killed_at)))
    podman("start", cluster.s3)
    cluster.wait_for_store()
    bulk.check_that_it_resumes()


def test_a_driver_without_the_store_stops_when_another_takes_over(bulk: Bulk, cluster: Cluster) -> None:
    node = cluster.add_container("driver")
    disconnected = bulk.start("actors=0", node=node)
    bulk.wait_for(disconnected, 0.2, nodes=1)
    with cluster.disconnected(node):
        begin = time.monotonic()
        second = bulk.start("actors=0")
        bulk.wait_for(second, (bulk.parts() + 2) / SHARDS, nodes=1)  # the second job has the claim
        time.sleep(max(0.0, 30 - (time.monotonic() - begin)))
    output = disconnected.communicate(timeout=900)[0]
    # 6: another job has the claim. 5: the store did not answer until the retries ended.
    assert disconnected.returncode in (5, 6), output
    bulk.check_success(second)


@LONG
def test_bulk_resumes_when_the_head_was_killed(bulk: Bulk, cluster: Cluster) -> None:
    job = bulk.start()
    bulk.wait_for(job, 0.2, nodes=1)
    before = [*cluster.workers]
    cluster.restart_head(job)
    bulk.check_that_it_resumes()
    cluster.restore_workers()
    assert cluster.workers == before, "workers were lost with the head"


@LONG
def test_a_full_disk_is_reported_and_the_job_resumes_when_there_is_room(bulk: Bulk, cluster: Cluster) -> None:
    node = cluster.workers[0]
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    podman("exec", node, "dd", "if=/dev/zero", "of=/tmp/ballast", "bs=1M", check=False)
    output = output_of(job, expect=5)
    assert re.search(r"cannot write /tmp/\S+: the disk is full \(.*free\); make room", output), output
    podman("exec", node, "rm", "/tmp/ballast")
    bulk.check_that_it_resumes()


HOLD_CLAIM = """
import sys, time
from pathlib import Path
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder

with claim(Folder(sys.argv[1])) as check_claim:
    while not Path("/tmp/enough").exists():
        time.sleep(0.2)
    check_claim()
"""
"""Holds a claim until ``/tmp/enough`` exists; fails if the claim was taken over."""


def test_a_claim_holds_when_clocks_are_five_minutes_apart(bulk: Bulk, cluster: Cluster) -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler to build ahead.c")
    library, worker = cluster.folder / "ahead.so", cluster.workers[0]
    source = str(REPO / "tests" / "cluster" / "ahead.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), source], check=True)
    ahead = {"LD_PRELOAD": str(library)}
    now = cluster.driver("python", "-c", "import time; print(time.time())", node=worker, env=ahead).communicate()[0]
    assert 290 < float(now) - time.time() < 310
    address = f"s3://agggen-models/{bulk.out}"
    nodes: list[tuple[str, dict[str, str]]] = [(cluster.head, {}), (worker, ahead)]
    for (holder, clock), (second, second_clock) in (nodes, nodes[::-1]):
        holder_process = cluster.driver("python", "-c", HOLD_CLAIM, address, node=holder, env=clock)
        until((cluster.bucket / bulk.out / ".claim").exists, "claim")
        refused = bulk.start("actors=0", node=second, env=second_clock)
        assert "another job works on" in output_of(refused, expect=6)
        podman("exec", holder, "touch", "/tmp/enough")
        output_of(holder_process)
    bulk.check_success(bulk.start("actors=0", node=worker, env=ahead))
