"""A sweep of two trials on two nodes, one of which is killed. Both bundles must not change."""

import json
from pathlib import Path

import pytest

from agggen.bundle import fingerprint
from agggen.config import load_config
from agggen_platform.job_config import JobConfig
from agggen_platform.training.job import train_job
from tests.cluster.containers import Cluster, make_readable, output_of, wait_for
from tests.unit.training.toy import write_preset

pytestmark = pytest.mark.cluster


def test_a_killed_node_does_not_change_the_bundles(cluster: Cluster, tmp_path: Path) -> None:
    folder, out = cluster.folder / "sweep", cluster.bucket / "runs"
    preset = str(write_preset(folder, copies=30))
    space = {"space": {"model.predicate_dim": {"choice": [4, 8]}}, "trials": 2, "concurrent": 2, "asha": None}
    (folder / "space.yaml").write_text(json.dumps(space))
    make_readable(folder)
    command = ["agggen", "sweep", preset, "--space", str(folder / "space.yaml"), "--no-register"]
    job = cluster.driver(*command, "storage.url=s3://agggen-models/runs", "--name", "s", "--runs", "/tmp/runs")

    def both_have_checkpoints() -> bool:
        return all(any((out / f"s-t00{number}").rglob("latest.json")) for number in (0, 1))

    wait_for(job, both_have_checkpoints, "checkpoint of each trial")
    cluster.kill_worker(cluster.workers[0])
    assert not list(out.glob("s-t*/bundle/manifest.json"))
    cluster.add_worker()
    output_of(job)
    for number in (0, 1):
        bundle = out / f"s-t00{number}" / "bundle"
        size = json.loads((out / f"s-t00{number}" / "run.json").read_text())["model.predicate_dim"]
        config = load_config(JobConfig, preset, [f"model.predicate_dim={size}"])
        assert fingerprint(bundle) == fingerprint(train_job(config, f"t{number}", runs_dir=tmp_path).path)
