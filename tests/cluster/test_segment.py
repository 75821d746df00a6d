"""Segmentation on a cluster of containers that loses a worker: the output stays the same bytes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from tests.cluster.containers import Cluster, nodes_at
from tests.integration.segment_jobs import elements
from tests.processes import until

pytestmark = pytest.mark.cluster


def parts(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "train").glob("*.parquet")}


def test_a_node_killed_in_segmentation_changes_no_byte(cluster: Cluster) -> None:
    corpus, out = cluster.folder / "texts", cluster.bucket / "facts"
    corpus.mkdir()
    records = [replace(r, id=f"{r.id}-{copy}") for copy in range(20) for r in elements("train")[:100]]
    write_records(corpus / "train.parquet", records, "elements", "train")
    subprocess.run(["chmod", "-R", "go+rX", str(corpus)], check=True)
    settings = ["shard_rows=50", "actors=2", "cache=off"]
    job = cluster.driver("agggen", "segment", str(corpus), "--out", "s3://agggen-models/facts", *settings)

    def has_begun() -> bool:
        assert job.poll() is None, f"it ended ({job.returncode}): {job.communicate()[0]}"
        return nodes_at(out) == 2 and len(parts(out)) > 0

    until(has_begun, "work on both nodes")
    cluster.lose(cluster.workers[0])
    assert not (out / "manifest.json").exists()
    cluster.worker()
    output = job.communicate(timeout=900)[0]
    assert job.returncode == 0, output
    undisturbed = cluster.folder / "undisturbed-facts"
    segment(str(corpus), str(undisturbed), SegmentConfig(actors=0, shard_rows=50, cache="off"))
    assert parts(out) == parts(undisturbed)
