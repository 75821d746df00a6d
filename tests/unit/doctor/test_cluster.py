"""Ray: the token, the room for workers and the dashboard. The integration tests connect to a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen_platform.doctor import cluster
from agggen_platform.doctor.settings import Settings
from tests.processes import free_ports
from tests.unit.doctor.helpers import answering, levels, only

JOINING = Settings(address="127.0.0.1:6379")
TOKEN = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("settings", "variables", "level"),
    [
        (Settings(), {}, "ok"),
        (Settings(), {"RAY_AUTH_MODE": "disabled"}, "error"),
        (JOINING, {"RAY_AUTH_MODE": "disabled"}, "error"),
        (JOINING, {}, "warning"),
        (JOINING, {"RAY_AUTH_MODE": "token"}, "error"),
        (JOINING, {"RAY_AUTH_TOKEN": TOKEN}, "ok"),
        (JOINING, {"RAY_AUTH_TOKEN_PATH": "private"}, "ok"),
        (JOINING, {"RAY_AUTH_TOKEN_PATH": "readable"}, "warning"),
        (JOINING, {"RAY_AUTH_TOKEN_PATH": "absent"}, "error"),
    ],
)
def test_the_token(
    settings: Settings, variables: dict[str, str], level: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in (("private", 0o600), ("readable", 0o644)):
        (home / name).write_text(TOKEN)
        (home / name).chmod(mode)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    findings = list(cluster.token(settings))
    assert levels(findings) == {"token": level}
    assert TOKEN not in str(findings)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens(scheme: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'agggen[ray]'")
    address = f"{scheme}127.0.0.1:{free_ports(1)[0]}"
    finding = only(cluster.check(Settings(address=address)), "cluster")
    assert (finding.level, "Connection refused" in finding.message) == ("error", True)
    assert str(finding.remedy).startswith("nc -vz 127.0.0.1 ")


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (Settings(workers=4, cpus_per_worker=1), None),
        (Settings(workers=5, cpus_per_worker=1), "error"),
        (Settings(workers=5, cpus_per_worker=1, autoscaling=True), "note"),
        (Settings(workers=1, cpus_per_worker=1, gpus_per_worker=1), "error"),
    ],
)
def test_the_room_for_the_jobs_workers(settings: Settings, level: str | None) -> None:
    assert levels(cluster.room(4, 0, settings)).get("room") == level


@pytest.mark.parametrize(("status", "level"), [(401, "ok"), (403, "ok"), (200, "warning")])
def test_a_dashboard_asks_for_a_token(status: int, level: str) -> None:
    with answering({"/api/version": (status, "{}")}) as url:
        assert cluster.dashboard(url).level == level
