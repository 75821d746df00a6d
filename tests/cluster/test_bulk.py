"""Bulk generation on a cluster of containers whose nodes and store are lost. The output stays the same bytes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import open_model
from tests.bulk_jobs import here, numbered_records, published, write_jsonl
from tests.cluster.containers import Cluster, podman, wait_until
from tests.unit.serve.conftest import save_tiny_model

pytestmark = pytest.mark.cluster

RECORDS, SHARDS = 480, 60
OUT = "s3://agggen-models/out"


class Bulk:
    """A bulk job: its driver is on the head and its two actors on the workers, unless `start` is told otherwise."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.model = open_model(str(save_tiny_model(cluster.folder / "bundle")))
        self.source = write_jsonl(cluster.folder / "in.jsonl", numbered_records(RECORDS))
        subprocess.run(["chmod", "-R", "go+rX", str(self.source), self.model.address], check=True)

    def start(self, actors: int = 2, node: str | None = None) -> subprocess.Popen[str]:
        where = f"RAY_ADDRESS={self.cluster.address}"
        job = ["bulk", self.model.address, str(self.source), "--out", OUT, "shard_rows=8", "--actors", str(actors)]
        return self.cluster.driver("env", where, "agggen", *job, node=node)

    def parts(self) -> int:
        return len(list((self.cluster.bucket / "out" / "texts").glob("*.parquet")))

    def wait_for(self, job: subprocess.Popen[str], share: float) -> None:
        def reached() -> bool:
            assert job.poll() is None, f"it ended ({job.returncode}): {job.communicate()[0]}"
            return self.parts() >= share * SHARDS

        wait_until(reached, f"{share:.0%} of the texts", 240)

    def check_success(self, job: subprocess.Popen[str]) -> None:
        """It ended well, and its output is that of an undisturbed job of one process, byte for byte."""
        said = job.communicate(timeout=400)[0]
        assert job.returncode == 0, said
        undisturbed = self.cluster.folder / "undisturbed"
        generate(self.model, str(self.source), str(undisturbed), here(self.model))
        assert published(self.cluster.bucket / "out") == published(undisturbed)


def lose_a_worker(cluster: Cluster, worker: str) -> None:
    """A node is killed and another one joins."""
    podman("kill", "--signal=KILL", worker)
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


@pytest.mark.parametrize("fault", [lose_a_worker, pause_the_store, cut_the_network], ids=lambda fault: fault.__name__)
def test_a_fault_in_the_middle_changes_no_byte(cluster: Cluster, fault: Callable[[Cluster, str], None]) -> None:
    bulk, workers = Bulk(cluster), [cluster.worker(), cluster.worker()]
    job = bulk.start()
    bulk.wait_for(job, 0.2)
    fault(cluster, workers[0])
    assert bulk.parts() < SHARDS, "the job had ended before the fault had"
    bulk.check_success(job)


def test_a_driver_cut_off_from_the_store_stops_when_another_took_over(cluster: Cluster) -> None:
    bulk, node = Bulk(cluster), cluster.worker()
    cut_off = bulk.start(actors=0, node=node)
    bulk.wait_for(cut_off, 0.2)
    with cluster.cut_off(node):
        begin = time.monotonic()
        second = bulk.start(actors=0)
        bulk.wait_for(second, (bulk.parts() + 2) / SHARDS)  # it has taken over and works
        time.sleep(max(0.0, 30 - (time.monotonic() - begin)))
    said = cut_off.communicate(timeout=300)[0]
    # 6: another job has the claim. 5: the store did not answer until the retries ended.
    assert cut_off.returncode in (5, 6), said
    bulk.check_success(second)
