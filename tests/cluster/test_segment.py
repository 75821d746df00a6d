"""Segmentation on a cluster of containers that loses a worker. The output must be the same bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from tests.cluster.containers import Cluster, make_readable, nodes_at, output_of, wait_for
from tests.integration.segment_jobs import elements

pytestmark = pytest.mark.cluster


def parts(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "train").glob("*.parquet")}


def test_a_node_killed_in_segmentation_changes_no_byte(cluster: Cluster) -> None:
    corpus, out = cluster.folder / "texts", cluster.bucket / "facts"
    corpus.mkdir()
    records = [replace(r, id=f"{r.id}-{copy}") for copy in range(20) for r in elements("train")[:100]]
    write_records(corpus / "train.parquet", records, "elements", "train")
    make_readable(corpus)
    settings = ["shard_rows=50", "actors=2", "cache=off"]
    job = cluster.driver("agggen", "segment", str(corpus), "--out", "s3://agggen-models/facts", *settings)
    wait_for(job, lambda: nodes_at(out) == 2 and parts(out), "work on both nodes")
    cluster.lose(cluster.workers[0])
    assert not (out / "manifest.json").exists()
    cluster.worker()
    output_of(job)
    undisturbed = cluster.folder / "undisturbed-facts"
    segment(str(corpus), str(undisturbed), SegmentConfig(actors=0, shard_rows=50, cache="off"))
    assert parts(out) == parts(undisturbed)
