"""An autoscaling cluster grows for a job and shrinks afterwards."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bulk_jobs import numbered_records, texts, write_jsonl
from tests.processes import Running
from tests.ray_head import Head

pytestmark = pytest.mark.slow


def test_a_bulk_job_makes_a_cluster_grow_to_three_nodes_and_shrink_again(bundle: Path, tmp_path: Path) -> None:
    """Nodes have one CPU, so each actor must request its own."""
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(450))
    with ExitStack() as stack:
        head = Head(tmp_path, stack, cpus=1, more_nodes=2)
        head.running.wait_until(lambda: head.nodes() == 1, "first node")
        command = ["-m", "agggen_platform.cli.main", "bulk", str(bundle), str(source), "--out", "out"]
        settings = ["inference.plans=20", "shard_rows=4"]
        job = stack.enter_context(Running([*command, *settings], tmp_path, head.env | {"RAY_ADDRESS": head.gcs}))
        job.wait_until(lambda: head.nodes() == 3, "two more nodes")
        assert job.finish() == 0, job.output()
        head.running.wait_until(lambda: head.nodes() == 1, "removal of idle nodes")
    assert [text["id"] for text in texts(tmp_path / "out")] == [f"r{number}" for number in range(450)]
