"""Training over two nodes that loses a worker, the head or MLflow: the bundle stays the same bytes."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.corpora.prepared import write_records
from agggen_platform.tracking.journal import entries
from tests.chaos.test_train_kill import PRESET
from tests.cluster.containers import LONG, Cluster, podman
from tests.processes import until
from tests.unit.training.toy import NAMES, record

pytestmark = pytest.mark.cluster


class Training:
    """Runs of the same configuration on the workers of the cluster; each is called by its test's name."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, corpus = cluster, cluster.folder / "toy"
        corpus.mkdir()
        records = [record(f"{name} {number}") for number in range(20) for name in NAMES]
        write_records(corpus / "train.parquet", records, "toy", "train")
        write_records(corpus / "dev.parquet", records[:4], "toy", "dev")
        (cluster.folder / "toy.yaml").write_text(PRESET.replace("CORPUS", str(corpus)))
        subprocess.run(["chmod", "-R", "go+rX", str(corpus), str(cluster.folder / "toy.yaml")], check=True)
        self.undisturbed = ""

    def start(self, name: str, *settings: str) -> subprocess.Popen[str]:
        on_cluster = ["cluster.workers=2", "cluster.autoscaling=true", "storage.url=s3://agggen-models/runs", *settings]
        preset = str(self.cluster.folder / "toy.yaml")
        job = ["agggen", "train", preset, *on_cluster, "--name", name, "--runs", "/tmp/runs"]
        return self.cluster.driver(*job, env=self.cluster.mlflow_account)

    def start_until_it_has_a_checkpoint(self, name: str, *settings: str) -> subprocess.Popen[str]:
        job = self.start(name, *settings)

        def has_checkpoint() -> bool:
            assert job.poll() is None, f"it ended ({job.returncode}): {job.communicate()[0]}"
            return len(list(self.folder(name).rglob("latest.json"))) > 0

        until(has_checkpoint, "checkpoint")
        assert not (self.folder(name) / "bundle").exists()
        return job

    def folder(self, name: str) -> Path:
        return self.cluster.bucket / "runs" / name

    def check_success(self, job: subprocess.Popen[str], name: str) -> str:
        """It ended well, with the bundle of an undisturbed run; what it said."""
        output = job.communicate(timeout=900)[0]
        assert job.returncode == 0, output
        assert fingerprint(self.folder(name) / "bundle") == self.undisturbed
        return output

    def updates(self, name: str) -> list[int]:
        """The updates of the first stage in the run log, in its order."""
        events = [event for event, _ in entries(self.folder(name) / "tracking.jsonl") if event is not None]
        return [e["step"] for e in events if e["event"] == "metrics" and "baseline/train_loss" in e["values"]]


@pytest.fixture(scope="module")
def _training(shared: Cluster) -> Training:
    shared.restore_workers()
    training = Training(shared)
    job = training.start("undisturbed")
    output = job.communicate(timeout=900)[0]
    assert job.returncode == 0, output
    training.undisturbed = fingerprint(training.folder("undisturbed") / "bundle")
    return training


@pytest.fixture
def training(_training: Training, cluster: Cluster) -> Training:
    return _training


def test_a_node_killed_in_training_changes_nothing(training: Training, cluster: Cluster) -> None:
    job = training.start_until_it_has_a_checkpoint("killed")
    cluster.lose(cluster.workers[0])
    cluster.worker()
    assert "(restart 1)" in training.check_success(job, "killed")


def test_a_run_is_complete_in_an_mlflow_that_was_killed_meanwhile(
    training: Training, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow is killed in the middle and started again when all the rest is done."""
    from mlflow import MlflowClient

    address = cluster.start_mlflow()
    job = training.start_until_it_has_a_checkpoint("untracked", f"tracking.uri={address}")
    podman("kill", "--signal=KILL", cluster.mlflow)
    until((training.folder("untracked") / "bundle" / "manifest.json").exists, "bundle", 240)
    assert job.poll() is None, "it did not wait for MLflow"
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
    (training.folder("headless") / "tracking.jsonl").unlink(missing_ok=True)  # so that it begins where training resumes
    training.check_success(training.start("headless"), "headless")
    assert 1 not in training.updates("headless"), "it began anew"
