"""Writes what is derived here: Grafana's dashboards, and the rules as an object of the Prometheus operator.

    python -m infra.monitoring          # writes dashboards/*.json and kubernetes/rules.yaml
    python -m infra.monitoring --check  # exit code 1 if they are not what would be written

`panels` says what the dashboards show; this says how Grafana stores it. The same panels give the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from infra.monitoring.panels import DASHBOARDS, Board, Panel

HERE = Path(__file__).resolve().parent

_WIDTH, _HEIGHT = 24, 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def files() -> dict[Path, str]:
    """Every derived file and its content."""
    written = {HERE / "dashboards" / f"{board.uid}.json": _dashboard(board) for board in DASHBOARDS}
    return written | {HERE / "kubernetes" / "rules.yaml": _rules()}


def _dashboard(board: Board) -> str:
    panels: list[dict[str, Any]] = []
    x = y = tallest = 0
    for panel in board.panels:
        if isinstance(panel, str):  # a row's title
            y, x, tallest = y + tallest, 0, 0
            place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
            panels.append({"id": len(panels) + 1, "type": "row", "title": panel, "gridPos": place, "collapsed": False})
            y += 1
            continue
        if x + panel.width > _WIDTH:
            x, y, tallest = 0, y + tallest, 0
        height = 4 if panel.kind == "stat" else _HEIGHT
        panels.append(_panel(panel, len(panels) + 1, {"x": x, "y": y, "w": panel.width, "h": height}))
        x, tallest = x + panel.width, max(tallest, height)
    content = {
        "uid": f"agggen-{board.uid}",
        "title": f"agggen: {board.title}",
        "description": board.about,
        "tags": ["agggen"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": f"now-{board.hours}h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source_variable(), *(_variable(*one) for one in board.variables)]},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": 60_000}
    if panel.stacked:
        custom |= {"fillOpacity": 50, "stacking": {"mode": "normal", "group": "A"}}
    defaults: dict[str, Any] = {"unit": panel.unit, "custom": custom if panel.kind == "timeseries" else {}}
    if panel.least is not None:
        defaults["min"] = panel.least
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "red", "value": panel.red})
        defaults["custom"] |= {"thresholdsStyle": {"mode": "line"}} if panel.kind == "timeseries" else {}
    defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    options: dict[str, dict[str, Any]] = {
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "textMode": "value_and_name"},
    }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options[panel.kind],
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
                "range": True,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "variable"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def _rules() -> str:
    groups = [
        group
        for path in sorted((HERE / "rules").glob("*.yaml"))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    ]
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "agggen"},
        "spec": {"groups": groups},
    }
    head = "# Written by `python -m infra.monitoring` from infra/monitoring/rules: change those.\n"
    return head + yaml.safe_dump(rule, sort_keys=False, width=110, allow_unicode=True)


def main(arguments: list[str]) -> int:
    """Writes, or with ``--check`` compares; the exit code."""
    stale = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(HERE.parents[1])} is stale: python -m infra.monitoring", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(files()[path], encoding="utf-8")
    return 0
