"""MLflow: its SQLite file, servers with every refusal, and servers that do not answer."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from agggen_platform.doctor import tracking
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from tests.processes import free_ports
from tests.unit.doctor.helpers import Answer, answering, levels, only

EXPERIMENT, MODELS = "/api/2.0/mlflow/experiments/get-by-name", "/api/2.0/mlflow/registered-models/search"
ABSENT = (404, json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment"}))
DELETED = {"experiment_id": "7", "name": "agggen", "lifecycle_stage": "deleted"}


def look(uri: str | None = None) -> list[Finding]:
    return list(tracking.check(Settings(tracking=uri)))


def test_the_file_in_runs(home: Path) -> None:
    assert levels(look()) == {"tracking": "ok", "registry": "ok"}
    assert list(home.iterdir()) == []
    (home / "runs").write_text("a file where a folder should be")
    assert levels(look()) == {"tracking": "error", "registry": "error"}


def test_an_experiment_that_can_and_that_cannot_be_written_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file for all cases: MLflow takes seconds to create it."""
    from mlflow import MlflowClient

    path = home / "mlflow.db"
    uri = f"sqlite:///{path}"
    client = MlflowClient(uri)
    number = client.create_experiment("agggen")
    assert "lets this user write to the experiment 'agggen'" in only(look(uri), "tracking").message
    assert "agggen.doctor" in client.get_experiment(number).tags
    shutil.copy(path, home / "old.db")
    with sqlite3.connect(home / "old.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    connection.close()
    assert str(only(look(f"sqlite:///{home}/old.db"), "tracking").remedy).startswith("mlflow db upgrade sqlite:///")
    client.delete_experiment(number)
    finding = only(look(uri), "tracking")
    assert (finding.level, str(finding.remedy).startswith("mlflow experiments restore")) == ("error", True)


def test_a_server_that_works() -> None:
    with answering({EXPERIMENT: ABSENT, MODELS: (200, "{}")}) as url:
        findings = look(url)
    assert levels(findings) == {"tracking": "ok", "registry": "ok"}
    assert "will create the experiment 'agggen'" in only(findings, "tracking").message


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        ((401, "You are not authenticated."), "MLFLOW_TRACKING_PASSWORD="),
        ((403, "Invalid Host header - possible DNS rebinding attack detected"), "--allowed-hosts"),
        ((403, "Permission denied"), "MLFLOW_TRACKING_USERNAME="),
        ((200, json.dumps({"experiment": DELETED})), "mlflow experiments restore"),
        ((404, "no such page"), "curl -sS"),
        ((400, json.dumps({"error_code": "INTERNAL_ERROR"})), "curl -sS"),
    ],
)
def test_a_server_that_refuses(answer: Answer, remedy: str) -> None:
    with answering({EXPERIMENT: answer, MODELS: (200, "{}")}) as url:
        finding = only(look(url), "tracking")
    assert (finding.level, remedy in str(finding.remedy)) == ("error", True), finding


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_an_address_where_nothing_listens(scheme: str) -> None:
    uri = f"{scheme}://ann:swordfish@127.0.0.1:{free_ports(1)[0]}/mlflow"
    finding = only(look(uri), "tracking")
    assert (finding.level, "swordfish" in str(finding)) == ("error", False)
