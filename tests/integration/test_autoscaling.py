"""A job makes an autoscaling cluster grow, and lets it shrink."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import open_model
from tests.bulk_jobs import here, published, some_records, write_jsonl
from tests.processes import Running
from tests.ray_head import Head
from tests.unit.serve.conftest import save_tiny_model

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow


def test_a_bulk_job_gets_another_node_and_gives_it_back(tmp_path: Path) -> None:
    """Nodes have one CPU each."""
    model = open_model(str(save_tiny_model(tmp_path / "bundle")))
    source = str(write_jsonl(tmp_path / "in.jsonl", some_records(1500)))
    settings, out = ["inference.plans=20", "shard_rows=4"], tmp_path / "out"
    with ExitStack() as stack:
        head = Head(tmp_path, stack, cpus=1, more_nodes=1)
        head.running.wait_until(lambda: head.nodes() == 1, "the first node")
        command = ["-m", "agggen_platform.cli.main", "bulk", model.address, source, *settings, "--out", str(out)]
        job = stack.enter_context(Running(command, tmp_path, head.env | {"RAY_ADDRESS": head.gcs}))
        job.wait_until(lambda: head.nodes() == 2, "another node")
        assert job.finish() == 0, job.output()
        head.running.wait_until(lambda: head.nodes() == 1, "the end of the node without work")
    generate(model, source, str(tmp_path / "alone"), here(model, *settings))
    assert published(out) == published(tmp_path / "alone")
