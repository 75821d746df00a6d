"""Dashboards are whole and as the panels say; scrapes and policies name ports that pods have."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.monitoring.build import files
from infra.monitoring.panels import DASHBOARDS

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"
KUBERAY = MONITORING.parent / "kuberay"
UNITS = {"short", "percentunit", "s", "ms", "bytes", "reqps", "sci"}


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_a_derived_file_is_what_is_derived(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run: python -m infra.monitoring"


@pytest.mark.parametrize("name", [board.uid for board in DASHBOARDS])
def test_a_dashboard_is_whole(name: str) -> None:
    board = json.loads((MONITORING / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))
    assert board["uid"] == f"agggen-{name}" and board["title"] and board["description"]
    assert board["templating"]["list"][0]["type"] == "datasource"
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels:
        assert panel["title"] and len(panel["description"]) > 8, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == sorted({t["refId"] for t in panel["targets"]})
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", [board.uid for board in DASHBOARDS])
def test_panels_do_not_overlap(name: str) -> None:
    board = json.loads((MONITORING / "dashboards" / f"{name}.json").read_text(encoding="utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def test_scrapes_name_ports_that_pods_have() -> None:
    base = KUBERAY / "base" / "cluster" / "cluster.yaml"
    if not base.exists():
        pytest.skip("there are no manifests of clusters")
    text = base.read_text(encoding="utf-8")
    for monitor in documents(MONITORING / "kubernetes" / "scrape.yaml"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            assert f"name: {endpoint['port']}, containerPort:" in text, endpoint["port"]


def test_prometheus_is_let_in_to_what_it_scrapes_alone() -> None:
    (policy,) = documents(MONITORING / "kubernetes" / "network.yaml")
    (rule,) = policy["spec"]["ingress"]
    assert {port["port"] for port in rule["ports"]} == {8000, 8080}
    assert all(source.keys() == {"namespaceSelector", "podSelector"} for source in rule["from"])


def test_jobs_of_prometheus_have_the_same_names_everywhere() -> None:
    """Alerts ask for them."""
    jobs = {"ray", "agggen-endpoint"}
    for place in (MONITORING, MONITORING.parent / "compose"):
        if (place / "prometheus.yaml").exists():
            (config,) = documents(place / "prometheus.yaml")
            assert {one["job_name"] for one in config["scrape_configs"]} >= jobs, place
    there = {
        step["replacement"]
        for monitor in documents(MONITORING / "kubernetes" / "scrape.yaml")
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
        for step in endpoint["relabelings"]
        if step["targetLabel"] == "job"
    }
    assert there == jobs


def test_no_secret_is_written_down() -> None:
    for path in MONITORING.rglob("*.yaml"):
        for document in documents(path):
            assert document.get("kind") != "Secret", path
    assert not (MONITORING / "endpoint.key").exists(), "it belongs to the machine, not here"


def test_kustomize_takes_it() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl on PATH")
    done = subprocess.run([kubectl, "kustomize", str(MONITORING)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert {one["metadata"]["namespace"] for one in made} == {"agggen"}
    assert sorted(one["kind"] for one in made) == [
        "ConfigMap",
        "NetworkPolicy",
        "PodMonitor",
        "PodMonitor",
        "PrometheusRule",
    ]
    (boards,) = (one for one in made if one["kind"] == "ConfigMap")
    assert set(boards["data"]) == {"training.json", "bulk.json", "endpoint.json"}
