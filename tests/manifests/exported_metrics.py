"""The exported metrics with their labels: those of jobs from the code that defines them, others from a real scrape.

`ray_metrics.json` was recorded from a node of Ray 2.60 with the endpoint, a training job and jobs over shards on it, by
`tests/integration/test_metrics.py`, which compares it with a new scrape each time it runs.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from agggen_platform.bulk import rows as bulk
from agggen_platform.metrics import METRICS
from agggen_platform.segmentation import rows as segmentation

RECORDED = Path(__file__).with_name("ray_metrics.json")
VALUED = ("le", "deployment", "application", "route", "work", "kind", "item", "split", "stage")
"""Labels with few, known values."""
UNSEEN = {
    # Ray reports GPUs if there are any (dashboard/modules/reporter); the recording machine had none.
    "ray_node_gpus_utilization": ("ip", "GpuIndex"),
    "ray_node_gram_used": ("ip", "GpuIndex"),
    # Exported from the first event on.
    "ray_memory_manager_worker_eviction_total": ("Type", "Name"),
    "ray_agggen_training_restarts_total": ("run",),
    "ray_agggen_job_shard_retries_total": ("kind", "run"),
}
"""Metrics of events or devices that the recording lacks, as their sources define them."""
OF_PROMETHEUS = {"up": (), "ALERTS": ("alertname", "alertstate")}
OF_TARGETS = frozenset({"instance", "job"})  # labels that Prometheus adds

Known = dict[str, dict[str, frozenset[str]]]
"""Labels of each metric, and their values where these are among `VALUED`; empty where they are not known."""


def read(text: str) -> Known:
    """The metrics of an exposition, by the names of their samples."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return merged(
        {sample.name: {label: frozenset({value} if label in VALUED else ()) for label, value in sample.labels.items()}}
        for sample in samples
    )


def merged(scrapes: Iterable[Known]) -> Known:
    union: Known = {}
    for known in scrapes:
        for name, labels in known.items():
            known_values = union.setdefault(name, {})
            for label, values in labels.items():
                known_values[label] = known_values.get(label, frozenset()) | values
    return union


def recorded() -> Known:
    content: Mapping[str, Mapping[str, list[str]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {name: {label: frozenset(values) for label, values in labels.items()} for name, labels in content.items()}


def of_jobs() -> Known:
    items = frozenset(field.name for counts in (bulk.Counts, segmentation.Counts) for field in fields(counts))
    values = {"item": items}
    known = {metric: {label: values.get(label, frozenset()) for label in metric.labels} for metric in METRICS}
    return {f"ray_{m.name}{'_total' if m.kind == 'counter' else ''}": labels for m, labels in known.items()}


@cache
def all_known() -> Known:
    stated = {**UNSEEN, **OF_PROMETHEUS}
    unseen = {name: {label: frozenset[str]() for label in labels} for name, labels in stated.items()}
    return merged([recorded(), of_jobs(), unseen])


def as_json(known: Known) -> str:
    """As `ray_metrics.json` has it: a line for each metric."""
    metrics = {name: {label: sorted(values) for label, values in known[name].items()} for name in sorted(known)}
    lines = [f"{json.dumps(name)}: {json.dumps(labels, sort_keys=True)}" for name, labels in metrics.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
