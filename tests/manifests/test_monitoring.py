"""Rules, alerts and dashboards: accepted by promtool, tested, and based on exported metrics and labels."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.monitoring.build import TARGET, rules_object
from tests.manifests.exported_metrics import TARGET_LABELS, all_metrics
from tests.manifests.rendering import REPO, of_kind, rendered
from tests.processes import run_program

MONITORING = REPO / "infra" / "monitoring"
RULES = sorted((MONITORING / "rules").glob("*.yaml"))
TESTS = sorted((MONITORING / "tests").glob("*.yaml"))
BOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
VARIABLES = {"$__rate_interval": "5m", "$run": ".+", "$kind": ".+"}  # as Grafana substitutes variables


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def rules() -> list[dict[str, Any]]:
    return [rule for path in RULES for group in documents(path)[0]["groups"] for rule in group["rules"]]


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(path.read_text(encoding="utf-8"))["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """(place, query) of all rules, panels and dashboard variables."""
    for rule in rules():
        yield rule.get("record") or rule["alert"], rule["expr"]
    for path in BOARDS:
        for panel in panels(path):
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for variable in json.loads(path.read_text(encoding="utf-8"))["templating"]["list"][1:]:
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
            assert match, variable["definition"]
            selector = match[1] if "{" in match[1] else f'{match[1]}{{{match[2]}=~".+"}}'
            yield f"{path.stem}: ${variable['name']}", selector


def substituted(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query, f"unknown variable: {query}"
    return query


promtool = partial(run_program, "promtool", install="apt install prometheus")


@pytest.mark.parametrize(("place", "query"), list(queries()))
def test_queries_use_exported_metrics_and_labels(place: str, query: str) -> None:
    records = {rule["record"] for rule in rules() if "record" in rule}
    exported = all_metrics()
    query = substituted(query)
    for name in re.findall(r"\b(?:up|ray_\w+|agggen[_:][\w:]+)\b", re.sub(r"\"[^\"]*\"", "", query)):
        assert name in exported or name in records, f"{place}: {name} is not exported"
    for name, matchers in re.findall(r"([a-z_:0-9]+)\{([^}]*)\}", query):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers))
        assert name in records or labels <= exported[name].keys() | TARGET_LABELS, f"{place}: unknown labels of {name}"


def test_promtool_accepts_the_rules_and_the_queries_of_dashboards(tmp_path: Path) -> None:
    exprs = [substituted(target["expr"]) for path in BOARDS for panel in panels(path) for target in panel["targets"]]
    group = {"name": "panels", "rules": [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(exprs)]}
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    promtool("check", "rules", *RULES, tmp_path / "panels.yaml")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should(path: Path) -> None:
    promtool("test", "rules", path)


def test_every_alert_has_a_test_and_a_runbook() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in TESTS)
    for rule in rules():
        if (name := rule.get("alert")) is not None:
            assert f'alertname="{name}"' in text or f": {name}\n" in text, name
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"].keys() == {"summary", "runbook"}, name


@pytest.mark.parametrize(
    "options", [[MONITORING / "prometheus.yaml"], ["--syntax-only", REPO / "infra" / "compose" / "prometheus.yaml"]]
)
def test_promtool_accepts_the_configurations(options: list[object]) -> None:
    promtool("check", "config", *options)


def test_the_prometheus_rule_object_has_the_current_rules() -> None:
    assert TARGET.read_text(encoding="utf-8") == rules_object(), "outdated: run python -m infra.monitoring.build"


def test_every_prometheus_configuration_has_the_jobs_of_the_alerts() -> None:
    jobs = set(re.findall(r"up\{job=\"([^\"]+)\"\}", "\n".join(rule["expr"] for rule in rules())))
    for path in (MONITORING / "prometheus.yaml", REPO / "infra" / "compose" / "prometheus.yaml"):
        assert {scrape["job_name"] for scrape in documents(path)[0]["scrape_configs"]} >= jobs, path
    monitors = documents(MONITORING / "kubernetes" / "scrape.yaml")
    endpoints = [endpoint for monitor in monitors for endpoint in monitor["spec"]["podMetricsEndpoints"]]
    relabelings = [relabeling for endpoint in endpoints for relabeling in endpoint["relabelings"]]
    assert {step["replacement"] for step in relabelings if step["targetLabel"] == "job"} == jobs != set()


def test_kustomize_renders_the_monitoring() -> None:
    objects = rendered(MONITORING)
    assert {item["kind"] for item in objects} == {"ConfigMap", "NetworkPolicy", "PodMonitor", "PrometheusRule"}
    (boards,) = of_kind(objects, "ConfigMap")
    assert set(boards["data"]) == {path.name for path in BOARDS}
