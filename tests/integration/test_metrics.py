"""The metrics that a Ray node exports for the endpoint, training and jobs over shards match the recorded ones.

``AGGGEN_RECORD_METRICS=1`` writes them to `tests/manifests/ray_metrics.json` instead, by which tests without Ray check
the queries of dashboards and rules.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from agggen.datasets import load_dataset
from agggen.facts.config import SegmenterConfig
from agggen_platform.bulk.job import generate
from agggen_platform.bulk.model import Model, bulk_config
from agggen_platform.job_config import ClusterConfig
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import segment
from agggen_platform.training.job import train_job
from tests.bulk_jobs import numbered_records, write_jsonl
from tests.manifests.exported_metrics import (
    RECORDED,
    UNRECORDED,
    MetricLabels,
    as_json,
    merged,
    parse_exposition,
    recorded,
)
from tests.processes import until
from tests.serve_app import RECORDS, serving
from tests.unit.training.toy import config_of, write_corpus

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"

RECORDING = bool(os.environ.get("AGGGEN_RECORD_METRICS"))
_GAUGE_LIFETIME = 35.0
"""Seconds after which Ray drops a gauge that is not set again: it exports every 10 s and keeps gauges for 20 s."""
PERMANENT_GAUGES = {
    "ray_serve_application_status",
    "ray_serve_deployment_status",
    "ray_serve_deployment_replica_healthy",
    "ray_serve_proxy_status",
    "ray_serve_replica_processing_queries",
}
"""Gauges that alerts expect to be exported while the endpoint is idle."""

PARTS = ("agggen", "serve", "node", "component", "cluster", "resources", "actors")
"""Second words of the recorded metrics; metrics of Ray's internals are not recorded."""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def scraped(expected: MetricLabels, seconds: float = 120) -> MetricLabels:
    """Scrapes until each expected metric was exported with its labels; gauges of finished jobs disappear.

    Labels are compared since the node may still export metrics of earlier tests.
    """
    import ray

    (node,) = [node for node in ray.nodes() if node["Alive"]]
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    metrics: MetricLabels = {}
    end = time.monotonic() + seconds
    while missing := [name for name, labels in expected.items() if not has_labels(metrics.get(name), labels)]:
        assert time.monotonic() < end, f"Ray does not export { ({name: expected[name] for name in missing}) }"
        time.sleep(1)
        metrics = merged([metrics, parse_exposition(httpx.get(url, timeout=60).raise_for_status().text)])
    return metrics


def has_labels(exported: Mapping[str, frozenset[str]] | None, labels: Mapping[str, frozenset[str]]) -> bool:
    """Whether a metric has these labels with at least these values."""
    return exported is not None and all(
        label in exported and values <= exported[label] for label, values in labels.items()
    )


def queried(*prefixes: str) -> MetricLabels:
    """The recorded metrics with these prefixes that queries use, except `UNRECORDED`."""
    files = [*(MONITORING / "rules").glob("*.yaml"), *(MONITORING / "dashboards").glob("*.json")]
    names = {name for path in files for name in re.findall(r"\bray_[a-z_]+", path.read_text(encoding="utf-8"))}
    queried_names = [name for name in names if name.startswith(prefixes) and name not in UNRECORDED]
    metrics = {name: {} for name in queried_names} if RECORDING else recorded()
    return {name: metrics[name] for name in queried_names}


def test_the_exported_metrics_are_those_that_were_recorded(model: Model, tmp_path: Path) -> None:
    config = config_of(write_corpus(tmp_path / "toy"))
    train_job(replace(config, cluster=ClusterConfig(workers=1)), "toy", runs_dir=tmp_path / "runs")
    training = scraped(queried("ray_agggen_training", "ray_agggen_tracking"))

    load_dataset("elements", splits=["dev"]).save(tmp_path / "texts")
    clauses = SegmentConfig(facts=SegmenterConfig(source="clauses"), actors=1, shard_rows=50)
    segment(str(tmp_path / "texts"), str(tmp_path / "facts"), clauses)
    source = write_jsonl(tmp_path / "in.jsonl", [*numbered_records(8), *numbered_records(1)])
    settings = ["actors=1", "shard_rows=4", "max_reject_share=0.5"]
    generate(model, str(source), str(tmp_path / "out"), bulk_config(model, settings))
    jobs = scraped(queried("ray_agggen_job"))

    with serving(model.address) as endpoint, httpx.Client(base_url=endpoint.url, timeout=120) as client:
        until(lambda: client.post("/v1/generate", json={"records": RECORDS}).status_code == 200, "texts")
        assert client.post("/v1/plan", json={"records": RECORDS}).status_code == 200
        request = {"records": [{**RECORDS[0], "text": "Neon was found by Ramsay."}]}
        assert client.post("/v1/align", json=request).status_code == 200
        assert client.post("/v1/plan", json={}).status_code == 422
        kinds = ("batch", "queue", "worked", "records", "problems", "bundle")
        prefixes = *(f"ray_agggen_{kind}" for kind in kinds), "ray_serve", "ray_node", "ray_comp"
        routes = {"ray_serve_num_http_requests_total": {"route": frozenset({"/v1/generate", "/v1/plan", "/v1/align"})}}
        served = scraped(merged([queried(*prefixes), routes]))

        time.sleep(_GAUGE_LIFETIME)  # until Ray has dropped gauges that are set only once
        scraped({name: {} for name in PERMANENT_GAUGES}, seconds=15)

    metrics = merged([training, jobs, served])
    assert not [name for name, labels in queried("ray_").items() if not has_labels(metrics.get(name), labels)]
    if RECORDING:
        kept = {
            name: labels for name, labels in metrics.items() if name.startswith(tuple(f"ray_{part}" for part in PARTS))
        }
        RECORDED.write_text(as_json(kept), encoding="utf-8")
