"""Training on two nodes that loses a worker, the head or MLflow. The bundle must not change."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen_platform.tracking.journal import entries
from tests.cluster.containers import LONG, Cluster, make_readable, output_of, podman, wait_for
from tests.processes import until
from tests.unit.training.toy import write_preset

pytestmark = pytest.mark.cluster


class Training:
    """Training runs of one configuration on the cluster's workers, with different run names."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, folder = cluster, cluster.folder / "training"
        self.preset = str(write_preset(folder))
        make_readable(folder)
        self.uninterrupted = ""

    def start(self, name: str, *settings: str) -> subprocess.Popen[str]:
        on_cluster = ["cluster.workers=2", "cluster.autoscaling=true", "storage.url=s3://agggen-models/runs", *settings]
        job = ["agggen", "train", self.preset, *on_cluster, "--name", name, "--runs", "/tmp/runs"]
        return self.cluster.driver(*job, env=self.cluster.mlflow_account)

    def start_until_it_has_a_checkpoint(self, name: str, *settings: str) -> subprocess.Popen[str]:
        job = self.start(name, *settings)
        wait_for(job, lambda: any(self.folder(name).rglob("latest.json")), "checkpoint")
        assert not (self.folder(name) / "bundle").exists()
        return job

    def folder(self, name: str) -> Path:
        return self.cluster.bucket / "runs" / name

    def check_success(self, job: subprocess.Popen[str], name: str) -> str:
        """The job must succeed with the bundle of an uninterrupted run; returns what it printed."""
        output = output_of(job)
        assert fingerprint(self.folder(name) / "bundle") == self.uninterrupted
        return output

    def updates(self, name: str) -> list[int]:
        """The updates of the first stage, in the order of the run log."""
        events = [event for event, _ in entries(self.folder(name) / "tracking.jsonl") if event is not None]
        return [e["step"] for e in events if e["event"] == "metrics" and "baseline/train_loss" in e["values"]]


@pytest.fixture(scope="module")
def _training(shared: Cluster) -> Training:
    shared.restore_workers()
    training = Training(shared)
    output_of(training.start("uninterrupted"))
    training.uninterrupted = fingerprint(training.folder("uninterrupted") / "bundle")
    return training


@pytest.fixture
def training(_training: Training, cluster: Cluster) -> Training:
    return _training


def test_a_killed_node_does_not_change_the_bundle(training: Training, cluster: Cluster) -> None:
    job = training.start_until_it_has_a_checkpoint("killed")
    cluster.kill_worker(cluster.workers[0])
    cluster.add_worker()
    assert "(restart 1)" in training.check_success(job, "killed")


def test_mlflow_has_the_complete_run_after_it_was_killed(
    training: Training, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow is killed during training and restarted when the bundle is written."""
    from mlflow import MlflowClient

    address = cluster.start_mlflow()
    job = training.start_until_it_has_a_checkpoint("untracked", f"tracking.uri={address}")
    podman("kill", "--signal=KILL", cluster.mlflow)
    until((training.folder("untracked") / "bundle" / "manifest.json").exists, "bundle", 240)
    assert job.poll() is None, "the job did not wait for MLflow"
    podman("start", cluster.mlflow)
    output = training.check_success(job, "untracked")
    assert "MLflow" in output, output
    for name, value in cluster.mlflow_account.items():
        monkeypatch.setenv(name, value)
    client = MlflowClient(address)
    (experiment,) = (item for item in client.search_experiments() if item.name == "agggen")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("untracked", "FINISHED")
    points = client.get_metric_history(run.info.run_id, "baseline/train_loss")
    assert Counter(point.step for point in points) == Counter(training.updates("untracked"))
    assert run.data.tags["bundle"].startswith("s3://agggen-models/runs/untracked/")


@LONG
def test_training_resumes_when_the_head_was_killed(training: Training, cluster: Cluster) -> None:
    job = training.start_until_it_has_a_checkpoint("headless")
    cluster.restart_head(job)
    log = training.folder("headless") / "tracking.jsonl"
    log.unlink(missing_ok=True)  # the new log begins at the resumed update
    training.check_success(training.start("headless"), "headless")
    assert 1 not in training.updates("headless"), "training restarted from the beginning"
