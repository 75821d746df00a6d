"""Training over two nodes, of which one is killed in an epoch and another one joins: the bundle stays the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.corpora.prepared import write_records
from tests.chaos.test_train_kill import PRESET
from tests.cluster.containers import Cluster, podman, wait_until
from tests.unit.training.toy import NAMES, record

pytestmark = pytest.mark.cluster


def start(cluster: Cluster, name: str) -> subprocess.Popen[str]:
    where = f"RAY_ADDRESS={cluster.address}"
    settings = ["cluster.workers=2", "cluster.autoscaling=true", "storage.url=s3://agggen-models/runs"]
    preset = str(cluster.folder / "toy.yaml")
    return cluster.driver("env", where, "agggen", "train", preset, *settings, "--name", name, "--runs", "/tmp/runs")


def bundle(cluster: Cluster, name: str) -> Path:
    return cluster.bucket / "runs" / name / "bundle"


def test_a_node_killed_in_training_changes_nothing(cluster: Cluster) -> None:
    corpus = cluster.folder / "toy"
    corpus.mkdir()
    records = [record(f"{name} {number}") for number in range(20) for name in NAMES]
    write_records(corpus / "train.parquet", records, "toy", "train")
    write_records(corpus / "dev.parquet", records[:4], "toy", "dev")
    (cluster.folder / "toy.yaml").write_text(PRESET.replace("CORPUS", str(corpus)))
    subprocess.run(["chmod", "-R", "go+rX", str(corpus), str(cluster.folder / "toy.yaml")], check=True)

    lost = cluster.worker()
    cluster.worker()
    undisturbed = start(cluster, "undisturbed")
    said = undisturbed.communicate(timeout=300)[0]
    assert undisturbed.returncode == 0, said

    job = start(cluster, "killed")
    checkpoints = cluster.bucket / "runs" / "killed"

    def has_begun() -> bool:
        assert job.poll() is None, f"it ended ({job.returncode}): {job.communicate()[0]}"
        return len(list(checkpoints.rglob("latest.json"))) > 0

    wait_until(has_begun, "checkpoint")
    podman("kill", "--signal=KILL", lost)
    assert not bundle(cluster, "killed").exists()
    cluster.worker()
    said = job.communicate(timeout=400)[0]
    assert job.returncode == 0, said
    assert "(restart 1)" in said
    assert fingerprint(bundle(cluster, "killed")) == fingerprint(bundle(cluster, "undisturbed"))
