"""Segmentation on a container cluster that loses a worker. The output must not change."""

from dataclasses import replace
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from tests.cluster.containers import Cluster, count_nodes, make_readable, output_of, wait_for
from tests.integration.segment_jobs import elements

pytestmark = pytest.mark.cluster


def parts(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "train").glob("*.parquet")}


def test_a_killed_node_does_not_change_the_segmentation(cluster: Cluster) -> None:
    corpus, out = cluster.folder / "texts", cluster.bucket / "facts"
    corpus.mkdir()
    records = [replace(r, id=f"{r.id}-{copy}") for copy in range(20) for r in elements("train")[:100]]
    write_records(corpus / "train.parquet", records, "elements", "train")
    make_readable(corpus)
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
