"""The exported metrics and their labels: metrics of jobs from their definitions, others from a recorded scrape.

`tests/integration/test_metrics.py` recorded `ray_metrics.json` from a node of Ray 2.60 with the endpoint, a training
job and jobs over shards, and compares it with a new scrape.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from agggen_platform.bulk import rows as bulk
from agggen_platform.metrics import METRICS
from agggen_platform.segmentation import worker as segmentation

RECORDED = Path(__file__).with_name("ray_metrics.json")
VALUED = ("le", "deployment", "application", "route", "work", "kind", "item", "split", "stage")
"""Labels whose values are recorded, too."""
UNRECORDED = {
    # Exported on machines with GPUs (dashboard/modules/reporter).
    "ray_node_gpus_utilization": ("ip", "GpuIndex"),
    "ray_node_gram_used": ("ip", "GpuIndex"),
    # Exported after the first event.
    "ray_memory_manager_worker_eviction_total": ("Type", "Name"),
    "ray_agggen_training_restarts_total": ("run",),
    "ray_agggen_job_shard_retries_total": ("kind", "run"),
}
"""Labels of metrics that the recording lacks, from the code that defines them."""
PROMETHEUS_METRICS = {"up": (), "ALERTS": ("alertname", "alertstate")}
TARGET_LABELS = frozenset({"instance", "job"})  # labels that Prometheus adds

MetricLabels = dict[str, dict[str, frozenset[str]]]
"""The labels of each metric, and for labels in `VALUED` their values (else empty sets)."""


def parse_exposition(text: str) -> MetricLabels:
    """The metrics of a Prometheus exposition, by sample name."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return merged(
        {sample.name: {label: frozenset({value} if label in VALUED else ()) for label, value in sample.labels.items()}}
        for sample in samples
    )


def merged(scrapes: Iterable[MetricLabels]) -> MetricLabels:
    union: MetricLabels = {}
    for scrape in scrapes:
        for name, labels in scrape.items():
            label_values = union.setdefault(name, {})
            for label, values in labels.items():
                label_values[label] = label_values.get(label, frozenset()) | values
    return union


def recorded() -> MetricLabels:
    content: Mapping[str, Mapping[str, list[str]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {name: {label: frozenset(values) for label, values in labels.items()} for name, labels in content.items()}


def job_metrics() -> MetricLabels:
    items = frozenset(field.name for counts in (bulk.Counts, segmentation.Counts) for field in fields(counts))
    values = {"item": items}
    return {
        f"ray_{metric.name}{'_total' if metric.kind == 'counter' else ''}": {
            label: values.get(label, frozenset()) for label in metric.labels
        }
        for metric in METRICS
    }


@cache
def all_metrics() -> MetricLabels:
    defined = {**UNRECORDED, **PROMETHEUS_METRICS}
    unrecorded = {name: {label: frozenset[str]() for label in labels} for name, labels in defined.items()}
    return merged([recorded(), job_metrics(), unrecorded])


def as_json(metrics: MetricLabels) -> str:
    """The content of `ray_metrics.json`: one line per metric."""
    sorted_values = {
        name: {label: sorted(values) for label, values in metrics[name].items()} for name in sorted(metrics)
    }
    lines = [f"{json.dumps(name)}: {json.dumps(labels, sort_keys=True)}" for name, labels in sorted_values.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
