"""Jobs and the endpoint on a cluster of containers; a sweep and a segmentation that lose a node must not change."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from agggen.bundle import fingerprint
from agggen.config import load_config
from agggen.corpora.prepared import write_records
from agggen.datasets import load_dataset
from agggen_platform.job_config import JobConfig
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from agggen_platform.training.job import train_job
from tests.bulk_jobs import numbered_records, write_jsonl
from tests.cluster.containers import Cluster, count_nodes, is_reachable, make_readable, output_of, podman, wait_for
from tests.unit.serve.conftest import save_tiny_model
from tests.unit.training.toy import write_preset

pytestmark = pytest.mark.cluster


def test_a_submitted_job_and_a_request_to_the_endpoint(cluster: Cluster) -> None:
    folder, store = cluster.folder / "jobs", cluster.bucket / "submitted"
    bundle = str(save_tiny_model(folder / "bundle"))
    records = list(numbered_records(12))
    source = str(write_jsonl(folder / "in.jsonl", records))
    make_readable(folder)
    python = ["python", "/opt/agggen/jobs/generate.py"]
    job = [*python, bundle, source, "--out", "s3://agggen-models/submitted", "format=jsonl", "--runs", "/tmp/runs"]
    submitted = cluster.driver("ray", "job", "submit", "--address=http://127.0.0.1:8265", "--", *job)
    output_of(submitted)
    (part,) = store.glob("texts/*.jsonl")
    texts = [json.loads(line) for line in part.read_text().splitlines()]
    assert [text["id"] for text in texts] == [record.id for record in records]

    keys = folder / "keys"
    make_key = [sys.executable, "-m", "agggen_platform.cli.main", "serve-key", "tests", "--file", str(keys)]
    key = subprocess.run(make_key, capture_output=True, text=True, check=True).stdout.split()[-1]
    subprocess.run(["chown", "10001:10001", str(keys)], check=True)
    settings = ["http.host=0.0.0.0", f"security.keys_file={keys}", "ingress.cpus=0.2", "planner.cpus=0.2"]
    note = ["sh", "-c", 'echo $$ >/tmp/serve.pid; exec "$@"', "sh"]
    serve = cluster.driver(*note, "agggen", "serve", bundle, "--address=auto", *settings, "generator.cpus=0.2")
    address = f"http://{cluster.address.partition(':')[0]}:8000"

    wait_for(serve, lambda: is_reachable(f"{address}/readyz"), "ready endpoint", 240)
    request, headers = {"records": [records[0].as_dict()]}, {"Authorization": f"Bearer {key}"}
    answer = httpx.post(f"{address}/v1/generate", json=request, headers=headers, timeout=60, trust_env=False)
    assert answer.json()["answers"][0]["texts"][0]["text"] == texts[0]["text"]
    podman("exec", cluster.head, "sh", "-c", "kill -INT $(cat /tmp/serve.pid)")
    output_of(serve, expect=130)


def test_a_killed_node_does_not_change_the_segmentation(cluster: Cluster) -> None:
    corpus, out = cluster.folder / "texts", cluster.bucket / "facts"
    corpus.mkdir()
    records = [replace(r, id=f"{r.id}-{copy}") for copy in range(20) for r in load_dataset("elements").train[:100]]
    write_records(corpus / "train.parquet", records, "elements", "train")
    make_readable(corpus)

    def parts(folder: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (folder / "train").glob("*.parquet")}

    settings = ["shard_rows=50", "actors=2", "cache=off"]
    job = cluster.driver("agggen", "segment", str(corpus), "--out", "s3://agggen-models/facts", *settings)
    wait_for(job, lambda: count_nodes(out) == 2 and parts(out), "work on both nodes")
    cluster.kill_worker(cluster.workers[0])
    assert not (out / "manifest.json").exists()
    cluster.add_worker()
    output_of(job)
    uninterrupted = cluster.folder / "uninterrupted-facts"
    segment(str(corpus), str(uninterrupted), SegmentConfig(actors=0, shard_rows=50, cache="off"))
    assert parts(out) == parts(uninterrupted)


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
