"""Alerts fire when they should and only then: promtool runs the rules over made-up series."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

MONITORING = Path(__file__).parents[2] / "infra" / "monitoring"
TESTS = sorted((MONITORING / "tests").glob("*.yaml"))


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool on PATH: apt install prometheus")
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_prometheus_takes_the_rules() -> None:
    done = promtool("check", "rules", *sorted((MONITORING / "rules").glob("*.yaml")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_alerts_fire_and_do_not_fire(path: Path) -> None:
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_that_changes_fails_its_test(tmp_path: Path) -> None:
    for name in ("rules", "tests"):
        shutil.copytree(MONITORING / name, tmp_path / name)
    path = tmp_path / "rules" / "jobs.yaml"
    changed = path.read_text(encoding="utf-8").replace("> 1800", "> 18000")
    assert changed != path.read_text(encoding="utf-8")
    path.write_text(changed, encoding="utf-8")
    done = promtool("test", "rules", tmp_path / "tests" / "jobs.yaml")
    assert done.returncode != 0 and "AgggenJobStalled" in done.stdout + done.stderr


def test_every_alert_has_a_test() -> None:
    alerts = {
        rule["alert"]
        for path in (MONITORING / "rules").glob("*.yaml")
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    text = "".join(path.read_text(encoding="utf-8") for path in TESTS)
    assert [name for name in sorted(alerts) if f'alertname="{name}"' not in text and f": {name}\n" not in text] == []


def test_prometheus_takes_the_configuration(tmp_path: Path) -> None:
    """A copy, with a key: promtool looks whether files of credentials are there."""
    shutil.copytree(MONITORING / "rules", tmp_path / "rules")
    shutil.copy(MONITORING / "prometheus.yaml", tmp_path)
    (tmp_path / "endpoint.key").touch()
    done = promtool("check", "config", tmp_path / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
