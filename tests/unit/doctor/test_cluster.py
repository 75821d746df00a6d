"""Ray: version, token, a cluster's answers and a dashboard's. A real cluster is asked in the integration tests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.doctor import cluster, reach
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from tests.processes import free_ports
from tests.unit.doctor.servers import Answer, Answers, black_hole, distribution, only, said

JOINING = Settings(address="127.0.0.1:6379")
SECRET = "0123456789abcdef" * 4


# --- version -----------------------------------------------------------------------------------------------------


def test_an_old_ray_is_an_error_that_names_the_advisories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "ray", "2.53.0")))
    (found,) = cluster.version()
    assert found.level == "error"
    assert "CVE-2025-62593" in found.found and "CVE-2026-27482" in found.found
    assert found.remedy == "pip install 'ray[data,train,serve,tune]>=2.55'"


def test_a_ray_that_is_new_enough_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "ray", "2.60.0")))
    assert said(cluster.version()) == {"version": "ok"}
    monkeypatch.setattr(cluster, "installed", lambda _: None)
    assert said(cluster.version()) == {"version": "note"}
    assert said(cluster.cluster(JOINING)) == {"cluster": "error"}


# --- token -------------------------------------------------------------------------------------------------------


@pytest.fixture
def token_file(home: Path) -> Path:
    path = home / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def token(settings: Settings, **variables: object) -> list[Finding]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, str(value))
        found = list(cluster.token(settings))
    assert SECRET not in str(found)
    return found


def test_without_a_cluster_no_token_is_needed() -> None:
    assert said(token(Settings())) == {"token": "ok"}


def test_a_token_that_only_this_user_can_read(token_file: Path) -> None:
    assert said(token(JOINING, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=token_file)) == {"token": "ok"}
    assert said(token(JOINING, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=SECRET)) == {"token": "ok"}


def test_the_token_of_the_home_folder(home: Path) -> None:
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text(SECRET)
    (home / ".ray" / "auth_token").chmod(0o644)  # as Ray makes it
    found = token(JOINING, RAY_AUTH_MODE="token")
    assert only(found, "token").level == "warning"
    assert only(found, "token").remedy == f"chmod 600 {home}/.ray/auth_token"


@pytest.mark.parametrize("settings", [Settings(), JOINING])
def test_no_token_at_all_by_choice_is_an_error(settings: Settings) -> None:
    found = only(token(settings, RAY_AUTH_MODE="disabled"), "token")
    assert (found.level, "runs code as this user" in found.found) == ("error", True)


def test_a_cluster_without_a_token() -> None:
    assert said(token(JOINING)) == {"token": "warning"}
    assert said(token(JOINING, RAY_AUTH_MODE="token")) == {"token": "error"}


def test_a_mode_that_does_not_exist() -> None:
    found = only(token(Settings(), RAY_AUTH_MODE="tokens"), "token")
    assert (found.level, found.remedy) == ("error", "export RAY_AUTH_MODE=token")


def test_a_token_without_the_mode(token_file: Path) -> None:
    assert said(token(JOINING, RAY_AUTH_TOKEN_PATH=token_file)) == {"token": "ok", "token mode": "note"}


def test_a_file_of_a_token_that_is_none(home: Path) -> None:
    (home / "empty").write_text("\n")
    for name in ("absent", "empty", "."):
        assert said(token(JOINING, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=home / name)) == {"token": "error"}


# --- the cluster -------------------------------------------------------------------------------------------------


def test_without_an_address_nothing_is_asked() -> None:
    assert said(cluster.cluster(Settings())) == {"cluster": "note"}
    assert said(cluster.cluster(Settings(address="local"))) == {"cluster": "note"}


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens(scheme: str) -> None:
    address = f"{scheme}127.0.0.1:{free_ports(1)[0]}"
    found = only(cluster.cluster(Settings(address=address)), "cluster")
    assert (found.level, f"answers at {address}: Connection refused" in found.found) == ("error", True)


def test_the_address_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_ports(1)[0]}")
    assert said(cluster.cluster(Settings())) == {"cluster": "error"}


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SECONDS", 1.0)
    begin = time.monotonic()
    with black_hole() as port:
        found = only(cluster.cluster(Settings(address=f"127.0.0.1:{port}")), "cluster")
    assert time.monotonic() - begin < 30
    assert (found.level, "does not answer as Ray does" in found.found) == ("error", True)


def test_a_port_for_clients_is_only_knocked_at() -> None:
    with black_hole() as port:
        assert said(cluster.cluster(Settings(address=f"ray://127.0.0.1:{port}"))) == {"cluster": "ok"}


FAKE_RAY = {
    "_common/usage/usage_lib.py": "def get_cluster_metadata(client): return client.about",
    "_private/ray_constants.py": "DASHBOARD_ADDRESS, KV_NAMESPACE_DASHBOARD = 'dashboard', b'dashboard'",
    "_private/services.py": "def canonicalize_bootstrap_address_or_die(address): return address",
    "_private/utils.py": "def compute_version_info(): return '2.60.0', '3.11.7'",
    "core/generated/gcs_pb2.py": "class GcsNodeInfo: ALIVE, DEAD = 0, 1",
    "_raylet.py": """
import os
from types import SimpleNamespace as Node
TOKEN, DASHBOARD = %r, %r
class GcsClient:
    about = {"ray_version": "2.60.0", "python_version": "3.11.7"}
    def __init__(self, address):
        if TOKEN and (os.environ.get("RAY_AUTH_MODE") != "token" or os.environ.get("RAY_AUTH_TOKEN") != TOKEN):
            raise RuntimeError("Unauthenticated: InvalidAuthToken")
    def internal_kv_get(self, key, namespace, timeout): return DASHBOARD
    def get_all_node_info(self, timeout):
        return {"a": Node(state=0, resources_total={"CPU": 4.0}), "b": Node(state=1, resources_total={"CPU": 64.0})}
""",
}


def ask(
    home: Path, monkeypatch: pytest.MonkeyPatch, token: str | None, dashboard: bytes | None = None
) -> list[Finding]:
    """What is said of a cluster that asks for `token`, by a Ray that knows no other; we have the token `SECRET`."""
    for name, content in FAKE_RAY.items():
        path = home / "site" / "ray" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content % (token, dashboard) if name == "_raylet.py" else content)
    monkeypatch.setenv("PYTHONPATH", str(home / "site"))
    (home / "site" / "ray" / "__init__.py").touch()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", SECRET)
    with black_hole() as port:
        return list(cluster.cluster(Settings(address=f"127.0.0.1:{port}")))


def test_a_cluster_with_a_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(home, monkeypatch, SECRET)
    assert said(found) == {"cluster": "ok", "same Ray": "ok", "same Python": "ok", "cluster token": "ok"}
    assert "nodes 1, CPUs 4," in only(found, "cluster").found  # a node that died counts for nothing


def test_a_cluster_with_another_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(home, monkeypatch, "another")
    assert said(found) == {"cluster": "error"}
    assert "refuses this token: RuntimeError: Unauthenticated" in found[0].found


def test_a_cluster_that_asks_for_no_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = only(ask(home, monkeypatch, None), "cluster token")
    assert (found.level, "whoever reaches its ports runs code" in found.found) == ("error", True)


def test_the_dashboard_of_the_cluster_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Answers({MODE: mode("token"), VERSION: ABOUT}) as server:
        found = ask(home, monkeypatch, SECRET, f"127.0.0.1:{server.port}".encode())
    assert "takes that of this process" in only(found, "dashboard").found


def seen(**changes: Any) -> dict[str, Any]:
    same = {"ray": "2.60.0", "own_ray": "2.60.0", "python": "3.11.7", "own_python": "3.11.7", "dashboard": None}
    return {**same, "nodes": [{"CPU": 4.0}, {"CPU": 4.0, "GPU": 2.0}], **changes}


def test_a_cluster_of_the_same_versions_with_room() -> None:
    job = Settings(workers=2, cpus_per_worker=4, gpus_per_worker=1)
    found = list(cluster.of_probe(seen(), "head:6379", job))
    assert said(found) == {"cluster": "ok", "same Ray": "ok", "same Python": "ok"}
    assert only(found, "cluster").found == "head:6379: nodes 2, CPUs 8, GPUs 2"


@pytest.mark.parametrize(
    ("changes", "about", "words"),
    [
        ({"ray": "2.58.0"}, "same Ray", "Ray 2.60.0 here, 2.58.0 on the cluster"),
        ({"python": "3.11.9"}, "same Python", "Python 3.11.7 here, 3.11.9 on the cluster"),
        ({"ray": "2.40.0", "own_ray": "2.40.0"}, "cluster version", "older than 2.55"),
    ],
)
def test_a_cluster_of_other_versions(changes: dict[str, str], about: str, words: str) -> None:
    found = only(cluster.of_probe(seen(**changes), "head:6379", Settings()), about)
    assert (found.level, words in found.found, bool(found.remedy)) == ("error", True, True)


@pytest.mark.parametrize(("autoscaling", "level"), [(False, "error"), (True, "note")])
def test_a_cluster_that_is_too_small(autoscaling: bool, level: str) -> None:
    job = Settings(workers=4, cpus_per_worker=1, gpus_per_worker=1, autoscaling=autoscaling)
    found = only(cluster.of_probe(seen(), "head:6379", job), "room")
    assert found.level == level
    assert "4 workers need 4 GPUs, and the cluster has 2" in found.found


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("RpcError: Unauthenticated: InvalidAuthToken", "refuses this token"),
        ("killed by SIGABRT", "does not answer as"),
    ],
)
def test_why_a_cluster_does_not_say_what_it_is(why: str, words: str) -> None:
    found = cluster._unanswered("head:6379", why)
    assert (found.level, words in found.found, why in found.found) == ("error", True, True)


# --- the dashboard -----------------------------------------------------------------------------------------------

MODE, VERSION = "/api/authentication_mode", "/api/version"
ABOUT = (200, json.dumps({"ray_version": "2.60.0"}))


def mode(name: str) -> Answer:
    return (200, json.dumps({"authentication_mode": name}))


def test_a_dashboard_that_takes_our_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", SECRET)
    with Answers({MODE: mode("token"), VERSION: ABOUT}) as server:
        assert said(cluster.dashboard(server.url, ours=True)) == {"dashboard": "ok"}
    assert [headers.get("Authorization") for _, headers in server.asked] == [None, f"Bearer {SECRET}"]


def test_our_token_is_shown_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever listens at a port of this machine could collect it."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", SECRET)
    with Answers({MODE: mode("token"), VERSION: (401, "")}) as server:
        monkeypatch.setattr(cluster, "DASHBOARD_PORT", server.port)
        found = list(cluster.dashboard_here(Settings()))
    assert said(found) == {"dashboard": "ok"}
    assert len(server.asked) == 2
    assert SECRET not in str(server.asked)


@pytest.mark.parametrize(("status", "words"), [(401, "has no token"), (403, "has another token")])
def test_a_dashboard_that_refuses_our_token(status: int, words: str) -> None:
    with Answers({MODE: mode("token"), VERSION: (status, "no")}) as server:
        found = only(cluster.dashboard(server.url, ours=True), "dashboard")
    assert (found.level, words in found.found) == ("warning", True)


@pytest.mark.parametrize(("host", "level"), [("127.0.0.1", "warning"), ("0.0.0.0", "error")])
@pytest.mark.parametrize("first", [mode("disabled"), (404, "")], ids=["disabled", "of a Ray without tokens"])
def test_a_dashboard_without_a_token(host: str, level: str, first: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Answers({MODE: first, VERSION: ABOUT}, host=host) as server:
        monkeypatch.setattr(cluster, "DASHBOARD_PORT", server.port)
        found = only(cluster.dashboard_here(Settings()), "dashboard")
    assert found.level == level
    assert "asks for no token" in found.found
    assert ("listens at 0.0.0.0: strangers run code" in found.found) == (level == "error")


def test_a_dashboard_elsewhere_without_a_token_is_beyond_loopback() -> None:
    assert cluster._open_to_all("http://10.0.0.7:8265").level == "error"


def test_no_dashboard_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "DASHBOARD_PORT", free_ports(1)[0])
    assert said(cluster.dashboard_here(Settings())) == {"dashboard here": "ok"}


@pytest.mark.parametrize(("told", "level"), [(True, "error"), (False, "note")])
def test_something_that_is_no_dashboard(told: bool, level: str) -> None:
    with Answers({}) as server:
        assert said(cluster.dashboard(server.url, told=told)) == {"dashboard": level}
    with Answers({MODE: (200, "<html>")}) as server:
        assert said(cluster.dashboard(server.url, told=told)) == {"dashboard": level}
    assert said(cluster.dashboard(f"http://127.0.0.1:{free_ports(1)[0]}", told=told)) == {"dashboard": level}


def test_the_dashboard_that_jobs_are_submitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "DASHBOARD_PORT", free_ports(1)[0])
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", f"http://127.0.0.1:{free_ports(1)[0]}")
    assert [one.level for one in cluster.dashboard_here(Settings())] == ["error", "ok"]


def test_a_dashboard_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SECONDS", 0.3)
    begin = time.monotonic()
    with black_hole() as port:
        assert said(cluster.dashboard(f"http://127.0.0.1:{port}", told=True)) == {"dashboard": "error"}
    assert time.monotonic() - begin < 20
