"""Bulk jobs on an endpoint: the same bytes as local jobs, under load and when replicas are killed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen.records import Record, Triple
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, open_model
from agggen_platform.serving.deploy import Endpoint
from agggen_platform.sharded.config import JobError
from tests.bulk_jobs import in_process, interrupt_after, numbered_records, published, rejects, write_jsonl
from tests.serve_app import Load, kill, replicas, serving
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]
BODY_BYTES = 16384  # more than any batch of valid records has
SETTINGS = ("n_best=2", "inference.plans=3", "inference.beam.beam=3", "shard_rows=16", "critic=included")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 records, one of them with a plan, and three invalid ones."""
    path = write_jsonl(tmp_path_factory.mktemp("source") / "in.jsonl", numbered_records(150))
    lines = path.read_text().splitlines()
    lines[3] = json.dumps({"id": "planned", "triples": [["Neon", "symbol", "Ne"]], "plan": "[symbol]"})
    long = {"id": "long", "triples": [["s", f"p{i}", "o"] for i in range(99)]}
    lines[20:20] = ["{no json", lines[0], json.dumps(long)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def served(model: Model, ray_cluster: None) -> Iterator[Endpoint]:
    settings = ("generator.min_replicas=2", "generator.max_replicas=2", f"limits.body_bytes={BODY_BYTES}")
    with serving(model.address, *settings) as endpoint:
        yield endpoint


def test_only_the_records_that_exceed_the_limit_of_a_request_are_rejected(
    served: Endpoint, model: Model, tmp_path: Path
) -> None:
    """Regression: a batch that exceeded the endpoint's `limits.body_bytes` ended the job."""
    large = Record("large", (Triple("Neon", "symbol", "Ne" * BODY_BYTES),))
    source = write_jsonl(tmp_path / "in.jsonl", [*numbered_records(20), large])
    config = in_process(model, "max_reject_share=0.1")
    report = generate(model, str(source), str(tmp_path / "out"), config, endpoint=served.url)
    assert (report.summary.records, report.summary.rejects) == (20, 1)
    (reject,) = rejects(tmp_path / "out")
    assert reject["id"] == "large" and f"more than {BODY_BYTES} bytes" in reject["reason"]


def test_the_output_is_that_of_a_local_job(served: Endpoint, model: Model, source: Path, tmp_path: Path) -> None:
    config = in_process(model, *SETTINGS, "max_reject_share=0.1")
    generate(model, str(source), str(tmp_path / "local"), config)
    expected = published(tmp_path / "local")
    out = str(tmp_path / "remote")
    with Load(served.url, clients=2) as load:
        with pytest.raises(KeyboardInterrupt):
            generate(model, str(source), out, config, endpoint=served.url, progress=interrupt_after(2))
        assert published(out) == {}
        kill({next(iter(replicas("Generator")))})

        def kill_ingress(progress: Progress) -> None:
            if progress.shards == 6:
                kill(replicas("Ingress"))

        report = generate(model, str(source), out, config, endpoint=served.url, progress=kill_ingress)
    assert load.lost == []
    assert report.progress is not None
    assert report.progress.reused >= 2
    assert published(out) == expected
    other_model = open_model(str(save_tiny_model(tmp_path / "other", seed=6)))
    with pytest.raises(JobError, match=f"serves the bundle {model.fingerprint[:12]}"):
        generate(other_model, str(source), str(tmp_path / "mixed"), in_process(other_model), endpoint=served.url)


def test_a_setting_that_requests_cannot_express_is_refused(model: Model, source: Path, tmp_path: Path) -> None:
    config = in_process(model, "inference.plan_weight=0.5")
    with pytest.raises(ConfigError, match=r"inference\.plan_weight cannot be sent to an endpoint"):
        generate(model, str(source), str(tmp_path / "out"), config, endpoint="http://127.0.0.1:1")
