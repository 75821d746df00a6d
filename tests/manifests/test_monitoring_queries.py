"""Every query of every panel and rule is PromQL, and asks for what is really exported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("promql_parser", reason="promql-parser is not installed: pip install -e '.[dev]'")

from infra.monitoring.panels import DASHBOARDS
from tests.manifests.exported_metrics import OF_PROMETHEUS, UNSEEN, Known, all_known, of_jobs, recorded
from tests.manifests.promql import QueryError, filled, labels_of

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"


def rules() -> Iterator[dict[str, Any]]:
    """Recording rules first: the others use them."""
    for path in sorted((MONITORING / "rules").glob("*.yaml"), key=lambda path: path.name != "recording.yaml"):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


@cache
def known() -> Known:
    """What is exported, and what the recording rules make of it."""
    found = all_known()
    for rule in rules():
        if "record" in rule:
            try:
                labels = labels_of(rule["expr"], found)
            except QueryError:
                continue  # its own test says so, and nobody exports it
            sources = [found[name] for name in re.findall(r"[a-z_:0-9]+", rule["expr"]) if name in found]
            values = {label: [one[label] for one in sources if label in one] for label in labels}
            found[rule["record"]] = {label: frozenset().union(*some) for label, some in values.items()}
    return found


RECORDS = [rule for rule in rules() if "record" in rule]
ALERTS = [rule for rule in rules() if "alert" in rule]
PANELS = [
    pytest.param(query, legend, id=f"{board.uid}: {panel.title}: {legend}")
    for board in DASHBOARDS
    for panel in board.panels
    if not isinstance(panel, str)
    for query, legend in panel.queries
]


@pytest.mark.parametrize("rule", RECORDS, ids=lambda rule: rule["record"])
def test_a_recording_rule_asks_for_what_is_exported(rule: dict[str, Any]) -> None:
    labels_of(rule["expr"], known())


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_is_exported_and_says_what_to_do(rule: dict[str, Any]) -> None:
    labels = labels_of(rule["expr"], known())
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["alert"].startswith("Agggen")
    notes = rule["annotations"]
    assert set(notes) == {"summary", "runbook"}
    assert len(notes["runbook"]) > 40
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(notes.values())))
    assert named <= labels, f"it has the labels {sorted(labels)}"


@pytest.mark.parametrize(("query", "legend"), PANELS)
def test_a_panel_asks_for_what_is_exported(query: str, legend: str) -> None:
    labels = labels_of(filled(query), known())
    assert set(re.findall(r"{{(\w+)}}", legend)) <= labels, f"it has the labels {sorted(labels)}"


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_variables_list_labels_that_there_are(board: Any) -> None:
    names = set()
    for name, _, query in board.variables:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found, query
        assert found[2] in labels_of(filled(found[1]), known())
        names.add(f"${name}")
    used = set(
        re.findall(
            r"\$[a-z]\w*", " ".join(query for p in board.panels if not isinstance(p, str) for query, _ in p.queries)
        )
    )
    assert used == names


def test_every_metric_of_jobs_is_shown_or_watched() -> None:
    queries = [rule["expr"] for rule in rules()] + [query for parameters in PANELS for query in parameters.values[:1]]
    text = "\n".join(queries)
    assert [name for name in of_jobs() if name not in text] == []


def test_what_was_not_seen_is_not_in_the_recording_and_is_used() -> None:
    text = (MONITORING / "kubernetes" / "rules.yaml").read_text(encoding="utf-8")
    text += "".join(path.read_text(encoding="utf-8") for path in (MONITORING / "dashboards").glob("*.json"))
    for name in UNSEEN:
        assert name not in recorded(), "it was seen: take it off the list"
        assert name in text, "nobody asks for it"


def test_what_jobs_define_is_what_ray_exports() -> None:
    """A definition is of use only if Ray exports it under the name and with the labels that are expected."""
    there = recorded()
    for name, labels in of_jobs().items():
        if name in UNSEEN:
            assert set(UNSEEN[name]) == set(labels)
            continue
        assert labels.keys() <= there[name].keys(), name


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("sum(rate(agggen_records_total[5m])", "parenthesis"),
        ("rate(agggen_records_total)", "matrix"),
        ("agggen_record_total", "nobody exports"),
        ('agggen_records_total{result="ok"}', "no label result"),
        ("sum by (deployment) (agggen_records_total)", "grouped by deployment"),
        ('ray_serve_http_request_latency_ms_bucket{le="10"}', "le='10'"),
        ('ray_agggen_job_items_total{item="reject"}', "item='reject'"),
        ("histogram_quantile(0.9, sum(rate(agggen_request_seconds_bucket[5m])))", "no label le"),
        ("sum by (route) (agggen_records_total) / sum(agggen_records_total)", "never match"),
        ("agggen_records_total / on (deployment) agggen_refused_total", "joined on deployment"),
        ("rate(up[$interval])", "no such variable"),
    ],
)
def test_a_wrong_query_is_found(query: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        labels_of(filled(query), known())


def test_a_right_query_has_its_labels() -> None:
    assert "up" in OF_PROMETHEUS
    query = "histogram_quantile(0.9, sum by (route, le) (rate(agggen_request_seconds_bucket[$__rate_interval]))) > 1"
    assert labels_of(filled(query), known()) == {"route"}
    assert labels_of("max(up) * 2", known()) == frozenset()
