"""The metrics that a real Ray node exports for the endpoint, training and jobs over shards are those on record.

With ``AGGGEN_RECORD_METRICS=1`` the scrape is written to `tests/manifests/ray_metrics.json` instead, by which the
queries of dashboards and rules are checked without Ray.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import bulk_config, open_model
from agggen_platform.job_config import ClusterConfig
from agggen_platform.segmentation.job import segment
from agggen_platform.training.job import train_job
from tests.bulk_jobs import numbered_records, write_jsonl
from tests.integration.segment_jobs import by_clauses
from tests.integration.segment_jobs import write_corpus as write_texts
from tests.manifests.exported_metrics import RECORDED, UNSEEN, Known, as_json, merged, read, recorded
from tests.processes import until
from tests.serve_app import RECORDS, serving
from tests.unit.serve.conftest import save_tiny_model
from tests.unit.training.toy import config_of, write_corpus

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"

RECORDING = bool(os.environ.get("AGGGEN_RECORD_METRICS"))
_FORGOTTEN = 35.0
"""Seconds after which a gauge that is not refreshed is gone: Ray exports every 10, and keeps it for 20."""
STEADY = {
    "ray_serve_application_status",
    "ray_serve_deployment_status",
    "ray_serve_deployment_replica_healthy",
    "ray_serve_proxy_status",
    "ray_serve_replica_processing_queries",
}
"""Gauges that alerts expect to stay while nothing happens."""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def scrape() -> Known:
    import ray

    (node,) = [node for node in ray.nodes() if node["Alive"]]
    answer = httpx.get(f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics", timeout=60)
    return read(answer.raise_for_status().text)


def scraped(expected: Known, seconds: float = 120) -> Known:
    """Scrapes until all expected metrics and labels were exported once: gauges of finished jobs disappear.

    Names are not enough: the same node of Ray may still export metrics of earlier tests.
    """
    metrics: Known = {}
    end = time.monotonic() + seconds
    while missing := [name for name, labels in expected.items() if not holds(metrics.get(name), labels)]:
        assert time.monotonic() < end, f"Ray does not export { ({name: expected[name] for name in missing}) }"
        time.sleep(1)
        metrics = merged([metrics, scrape()])
    return metrics


def holds(known: Mapping[str, frozenset[str]] | None, labels: Mapping[str, frozenset[str]]) -> bool:
    """Whether a metric has all these values of these labels."""
    return known is not None and all(label in known and values <= known[label] for label, values in labels.items())


def asked_for(*prefixes: str) -> Known:
    """Recorded labels of Ray's metrics that queries use, without those of special events or devices."""
    files = [*(MONITORING / "rules").glob("*.yaml"), *(MONITORING / "dashboards").glob("*.json")]
    names = {name for path in files for name in re.findall(r"\bray_[a-z_]+", path.read_text(encoding="utf-8"))}
    expected = [name for name in names if name.startswith(prefixes) and name not in UNSEEN]
    before = {name: {} for name in expected} if RECORDING else recorded()
    return {name: before[name] for name in expected}


def test_what_is_exported_is_what_was_recorded(tmp_path: Path) -> None:
    config = config_of(write_corpus(tmp_path / "toy"))
    train_job(replace(config, cluster=ClusterConfig(workers=1)), "toy", runs_dir=tmp_path / "runs")
    training = scraped(asked_for("ray_agggen_training", "ray_agggen_tracking"))

    (tmp_path / "texts").mkdir()
    texts = write_texts(tmp_path / "texts")
    segment(str(texts), str(tmp_path / "facts"), by_clauses(actors=1, shard_rows=50))
    model = open_model(str(save_tiny_model(tmp_path / "bundle")))
    source = write_jsonl(tmp_path / "in.jsonl", [*numbered_records(8), *numbered_records(1)])
    generate(
        model,
        str(source),
        str(tmp_path / "out"),
        bulk_config(model, ["actors=1", "shard_rows=4", "max_reject_share=0.5"]),
    )
    jobs = scraped(asked_for("ray_agggen_job"))

    with serving(model.address) as endpoint, httpx.Client(base_url=endpoint.url, timeout=120) as client:
        until(lambda: client.post("/v1/generate", json={"records": RECORDS}).status_code == 200, "texts")
        assert client.post("/v1/plan", json={"records": RECORDS}).status_code == 200
        request = {"records": [{**RECORDS[0], "text": "Neon was found by Ramsay."}]}
        assert client.post("/v1/align", json=request).status_code == 200
        assert client.post("/v1/plan", json={}).status_code == 422
        ours = "ray_agggen_batch", "ray_agggen_queue", "ray_agggen_worked", "ray_agggen_records", "ray_agggen_problems"
        prefixes = *ours, "ray_agggen_bundle", "ray_serve", "ray_node", "ray_comp"
        asked = {"ray_serve_num_http_requests_total": {"route": frozenset({"/v1/generate", "/v1/plan", "/v1/align"})}}
        served = scraped(merged([asked_for(*prefixes), asked]))

        time.sleep(_FORGOTTEN)  # gauges that were set once are gone now
        scraped({name: {} for name in STEADY}, seconds=15)

    metrics = merged([training, jobs, served])
    assert not [name for name, labels in asked_for("ray_").items() if not holds(metrics.get(name), labels)]
    if RECORDING:
        RECORDED.write_text(
            as_json({name: labels for name, labels in metrics.items() if keeps(name)}), encoding="utf-8"
        )


def keeps(name: str) -> bool:
    """Whether queries may use it; excludes Ray's internal metrics."""
    ours = ("ray_agggen", "ray_serve", "ray_node", "ray_component", "ray_cluster", "ray_resources", "ray_actors")
    return name.startswith(ours)
