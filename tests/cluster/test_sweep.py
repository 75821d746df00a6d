"""A sweep of two trials, each on a node of its own, of which one is killed: both bundles stay the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.config import load_config
from agggen.corpora.prepared import write_records
from agggen_platform.job_config import JobConfig
from agggen_platform.training.job import train_job
from tests.chaos.test_train_kill import PRESET
from tests.cluster.containers import Cluster
from tests.processes import until
from tests.unit.training.toy import NAMES, record

pytestmark = pytest.mark.cluster


def test_a_node_killed_in_a_sweep_changes_no_trial(cluster: Cluster, tmp_path: Path) -> None:
    folder, out = cluster.folder / "sweep", cluster.bucket / "runs"
    (folder / "toy").mkdir(parents=True)
    records = [record(f"{name} {number}") for number in range(30) for name in NAMES]
    write_records(folder / "toy" / "train.parquet", records, "toy", "train")
    write_records(folder / "toy" / "dev.parquet", records[:4], "toy", "dev")
    (folder / "toy.yaml").write_text(PRESET.replace("CORPUS", str(folder / "toy")))
    space = {"space": {"model.predicate_dim": {"choice": [4, 8]}}, "trials": 2, "concurrent": 2, "asha": None}
    (folder / "space.yaml").write_text(json.dumps(space))
    subprocess.run(["chmod", "-R", "go+rX", str(folder)], check=True)
    command = ["agggen", "sweep", str(folder / "toy.yaml"), "--space", str(folder / "space.yaml"), "--no-register"]
    job = cluster.driver(*command, "storage.url=s3://agggen-models/runs", "--name", "s", "--runs", "/tmp/runs")

    def both_have_begun() -> bool:
        assert job.poll() is None, f"it ended ({job.returncode}): {job.communicate()[0]}"
        return all(len(list((out / f"s-t00{number}").rglob("latest.json"))) > 0 for number in (0, 1))

    until(both_have_begun, "checkpoint of each trial")
    cluster.lose(cluster.workers[0])
    assert not list(out.glob("s-t*/bundle/manifest.json"))
    cluster.worker()
    output = job.communicate(timeout=900)[0]
    assert job.returncode == 0, output
    for number in (0, 1):
        bundle = out / f"s-t00{number}" / "bundle"
        size = json.loads((out / f"s-t00{number}" / "run.json").read_text())["model.predicate_dim"]
        config = load_config(JobConfig, str(folder / "toy.yaml"), [f"model.predicate_dim={size}"])
        assert fingerprint(bundle) == fingerprint(train_job(config, f"t{number}", runs_dir=tmp_path).path)
