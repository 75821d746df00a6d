"""Checks of Ray, the store and MLflow: token, room for workers, refusals, servers that do not respond."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agggen_platform.doctor import cluster, store, tracking
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.storage.folder import Folder
from tests.processes import free_ports
from tests.s3_faults import FaultyS3
from tests.unit.doctor.helpers import Answer, finding_about, levels, stub_server

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
def test_token(settings: Settings, variables: dict[str, str], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("private", 0o600), ("readable", 0o644)):
        Path(name).write_text(TOKEN)
        Path(name).chmod(mode)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    findings = list(cluster.token(settings))
    assert levels(findings) == {"token": level}
    assert TOKEN not in str(findings)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens(scheme: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'agggen[ray]'")
    address = f"{scheme}127.0.0.1:{free_ports(1)[0]}"
    finding = finding_about(cluster.check(Settings(address=address)), "cluster")
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
def test_findings_about_room_for_the_jobs_workers(settings: Settings, level: str | None) -> None:
    assert levels(cluster.worker_resources(4, 0, settings)).get("workers") == level


@pytest.mark.parametrize(("status", "level"), [(401, "ok"), (403, "ok"), (200, "warning")])
def test_a_dashboard_must_require_a_token(status: int, level: str) -> None:
    with stub_server({"/api/version": (status, "{}")}) as url:
        assert cluster.dashboard(url).level == level


def check_store(address: str) -> list[Finding]:
    return list(store.check(Settings(storage=address)))


def test_a_store_that_works(s3: str, faulty_s3: FaultyS3) -> None:
    Folder(s3).write("models/runs/model", b"content")
    faulty_s3.requests.clear()
    assert levels(check_store(f"{s3}/models/runs")) == {"objects": "ok"}
    assert {method for method, _ in faulty_s3.requests} == {"GET", "PUT", "DELETE"}
    assert Folder(s3).names() == ["models/runs/model"]


REFUSED, KEYS = "AccessDenied", "export AWS_ACCESS_KEY_ID"


@pytest.mark.parametrize(
    ("fault", "method", "path", "step", "message", "remedy"),
    [
        ("403", "PUT", "", "put", REFUSED, KEYS),
        ("403", "GET", "/.agggen-doctor", "get", REFUSED, KEYS),
        ("403", "GET", "list-type=2", "list", REFUSED, KEYS),
        ("403", "DELETE", "", "delete", REFUSED, KEYS),
        ("503", "", "", "put", "failed 2 times", "curl "),
        ("short upload", "PUT", "", "get", "differs from the one that was written", "aws s3 ls "),
    ],
)
def test_the_step_that_fails_is_named(
    fault: str, method: str, path: str, step: str, message: str, remedy: str, s3: str, faulty_s3: FaultyS3
) -> None:
    faulty_s3.inject(fault, -1, method=method, path=path)
    finding = finding_about(check_store(f"{s3}/models"), step)
    assert (finding.level, message in finding.message) == ("error", True), finding
    assert ("may be left there" in finding.message) == (fault == "403" and step != "put")
    assert str(finding.remedy).startswith(remedy)


def test_a_store_that_is_busy_or_down(s3: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_s3.inject("503", 1)
    assert levels(check_store(s3)) == {"objects": "ok"}
    assert str(finding_about(check_store(f"{s3}-other/models"), "put").remedy).startswith("aws s3 mb s3://test-")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    finding = finding_about(check_store(s3), "put")
    assert "nothing answers at http://127.0.0.1" in finding.message
    assert str(finding.remedy).startswith("curl ")


def test_findings_about_a_store_in_a_folder(home: Path) -> None:
    job = {"address": "head:6379", "workers": 2}
    assert levels(store.check(Settings())) == {"storage": "note"}
    assert levels(store.check(Settings(**job))) == {"storage": "warning"}
    finding = finding_about(store.check(Settings(**job, storage=str(home))), "objects")
    assert "whether other nodes share this folder is not checked" in finding.message
    (home / "file").write_text("")
    assert levels(check_store(f"{home}/runs")) == {"objects": "ok"}
    assert finding_about(check_store(f"{home}/file/runs"), "put").remedy == "storage.url=FOLDER"
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["file"]


EXPERIMENT, MODELS = "/api/2.0/mlflow/experiments/get-by-name", "/api/2.0/mlflow/registered-models/search"
ABSENT = (404, json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment"}))


def check_mlflow(uri: str | None = None) -> list[Finding]:
    return list(tracking.check(Settings(tracking=uri)))


def test_findings_about_the_mlflow_file_in_runs(home: Path) -> None:
    assert levels(check_mlflow()) == {"tracking": "ok", "registry": "ok"}
    assert list(home.iterdir()) == []
    (home / "runs").write_text("a file where a folder should be")
    assert levels(check_mlflow()) == {"tracking": "error", "registry": "error"}


def test_experiments_that_are_writable_outdated_and_deleted(home: Path) -> None:
    """All cases share a file, which MLflow takes seconds to create."""
    path = home / "mlflow.db"
    uri = f"sqlite:///{path}"
    client = mlflow_client(uri)
    number = client.create_experiment("agggen")
    assert "lets this user write to the experiment 'agggen'" in finding_about(check_mlflow(uri), "tracking").message
    assert "agggen.doctor" in client.get_experiment(number).tags
    shutil.copy(path, home / "old.db")
    with closing(sqlite3.connect(home / "old.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    old = finding_about(check_mlflow(f"sqlite:///{home}/old.db"), "tracking")
    assert str(old.remedy).startswith("mlflow db upgrade sqlite:///")
    client.delete_experiment(number)
    finding = finding_about(check_mlflow(uri), "tracking")
    assert (finding.level, str(finding.remedy).startswith("mlflow experiments restore")) == ("error", True)


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (ABSENT, "ok", "the first run will create the experiment 'agggen'"),
        ((401, "You are not authenticated."), "error", "MLFLOW_TRACKING_PASSWORD="),
        ((403, "Invalid Host header - possible DNS rebinding attack detected"), "error", "--allowed-hosts"),
        ((403, "Permission denied"), "error", "MLFLOW_TRACKING_USERNAME="),
        ((404, "no such page"), "error", "curl -sS"),
        ((400, json.dumps({"error_code": "INTERNAL_ERROR"})), "error", "curl -sS"),
    ],
)
def test_findings_about_an_mlflow_server(answer: Answer, level: str, text: str) -> None:
    with stub_server({EXPERIMENT: answer, MODELS: (200, "{}")}) as url:
        findings = check_mlflow(url)
    assert levels(findings) == {"tracking": level, "registry": "ok"}
    finding = finding_about(findings, "tracking")
    assert text in (finding.remedy or finding.message), finding


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_an_mlflow_where_nothing_listens(scheme: str) -> None:
    uri = f"{scheme}://ann:swordfish@127.0.0.1:{free_ports(1)[0]}/mlflow"
    finding = finding_about(check_mlflow(uri), "tracking")
    assert (finding.level, "swordfish" in str(finding)) == ("error", False)
