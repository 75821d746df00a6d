"""A job asks an autoscaling cluster for the nodes that it has work for."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bulk_jobs import some_records, write_jsonl
from tests.processes import Running
from tests.ray_head import Head
from tests.unit.serve.conftest import save_tiny_model

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")

pytestmark = pytest.mark.slow


def test_a_bulk_job_asks_for_more_cpus_than_there_are(tmp_path: Path) -> None:
    """Its actors once shared the CPUs that there were, so no node was ever asked for."""
    save_tiny_model(tmp_path / "bundle")
    source = write_jsonl(tmp_path / "in.jsonl", some_records(1500))
    with ExitStack() as stack:
        head = Head(tmp_path, stack, cpus=1, more_nodes=2)
        command = ["-m", "agggen_platform.cli.main", "bulk", str(tmp_path / "bundle"), str(source), "--out", "out"]
        settings = ["inference.plans=20", "shard_rows=4"]
        job = stack.enter_context(Running([*command, *settings], tmp_path, head.env | {"RAY_ADDRESS": head.gcs}))
        job.wait_until(lambda: "{'CPU': 1}: 2" in head.requested(), "a request for another CPU")
        assert job.finish() == 0, job.output()
