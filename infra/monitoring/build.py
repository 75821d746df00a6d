"""Writes ``kubernetes/rules.yaml``, a PrometheusRule of the Prometheus operator, from the files in ``rules``.

python -m infra.monitoring.build
"""

from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
TARGET = HERE / "kubernetes" / "rules.yaml"


def rules_object() -> str:
    """The YAML text of the PrometheusRule."""
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
    header = "# Generated from infra/monitoring/rules by `python -m infra.monitoring.build`: edit the sources.\n"
    return header + yaml.safe_dump(rule, sort_keys=False, width=110, allow_unicode=True)


if __name__ == "__main__":
    TARGET.write_text(rules_object(), encoding="utf-8")
