"""MLflow: servers that answer in all ways that a server can, and files that are and are not its database."""

from __future__ import annotations

import json
import sqlite3
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from agggen_platform.doctor import reach, tracking
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from tests.processes import free_ports
from tests.unit.doctor.servers import Answer, Answers, black_hole, distribution, only, said

EXPERIMENT, VERSION = "/api/2.0/mlflow/experiments/get-by-name", "/version"
ABSENT = (404, json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment"}))


def experiment(stage: str) -> Answer:
    about = {"experiment_id": "7", "name": "agggen", "lifecycle_stage": stage}
    return (200, json.dumps({"experiment": about}))


def look(server: Answers, credentials: str = "") -> list[Finding]:
    uri = server.url.replace("://", f"://{credentials}")
    return list(tracking.store(uri, "tracking", "agggen"))


def installed() -> str:
    found = tracking.installed("mlflow")
    assert found is not None
    return found


def test_versions_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(tracking.version()) == {"version": "ok"}
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "mlflow", "3.16.4")))
    assert only(tracking.version(), "version").remedy == "pip install 'mlflow>=3.17,<4'"
    monkeypatch.setattr(tracking, "installed", lambda _: None)
    assert said(tracking.version()) == {"version": "error"}


@pytest.mark.parametrize("answer", [ABSENT, experiment("active")], ids=["no experiment yet", "an experiment"])
def test_a_server_that_is_well(answer: Answer) -> None:
    now = {"Date": formatdate(usegmt=True)}
    with Answers({EXPERIMENT: answer, VERSION: (200, installed())}, now) as server:
        assert said(look(server)) == {"tracking": "ok", "server version": "ok", "clock": "ok"}


@pytest.mark.parametrize(
    ("answer", "words", "remedy"),
    [
        ((401, "You are not authenticated."), "refuses requests without credentials", "MLFLOW_TRACKING_PASSWORD="),
        ((403, "Invalid Host header - possible DNS rebinding attack detected"), "refuses the name", "--allowed-hosts"),
        ((403, "Permission denied"), "may not read the experiment 'agggen'", "MLFLOW_TRACKING_USERNAME="),
        (experiment("deleted"), "was deleted there", "mlflow experiments restore --experiment-id 7"),
        ((200, "<html>It works!</html>"), "answers 200, not as MLflow does: <html>It works!", "curl"),
        ((404, "no such page"), "answers 404, not as MLflow does", "curl"),
        ((500, json.dumps({"error_code": "INTERNAL_ERROR"})), "answers 500", "curl"),
    ],
)
def test_a_server_that_refuses(answer: Answer, words: str, remedy: str) -> None:
    with Answers({EXPERIMENT: answer}) as server:
        found = only(look(server), "tracking")
    assert found.level == "error"
    assert words in found.found
    assert remedy in str(found.remedy)


def test_credentials_that_are_refused_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2hunter2")
    with Answers({EXPERIMENT: (401, "no")}) as server:
        found = look(server)
        assert "refuses these credentials" in only(found, "tracking").found
        found += look(server, "bob:swordfish@")
    assert "Basic" in dict(server.asked[-1][1])["Authorization"]  # they were sent
    assert not any(secret in str(found) for secret in ("hunter2", "swordfish"))


@pytest.mark.parametrize(("version", "level"), [("3.4.0", "warning"), ("4.0.1", "warning"), ("a proxy's page", None)])
def test_servers_of_other_versions(version: str, level: str | None) -> None:
    with Answers({EXPERIMENT: ABSENT, VERSION: (200, version)}) as server:
        assert said(look(server)).get("server version") == level


@pytest.mark.parametrize(("seconds", "level"), [(-300, "warning"), (300, "warning"), (4000, "error"), (-4000, "error")])
def test_a_clock_that_differs(seconds: float, level: str) -> None:
    date = {"Date": formatdate(time.time() + seconds, usegmt=True)}
    with Answers({EXPERIMENT: ABSENT}, date) as server:
        found = only(look(server), "clock")
    assert found.level == level
    assert ("behind" if seconds > 0 else "ahead of") in found.found


def test_an_address_where_nobody_listens() -> None:
    uri = f"http://127.0.0.1:{free_ports(1)[0]}"
    found = only(tracking.store(uri, "tracking", "agggen"), "tracking")
    assert (found.level, f"nothing answers at {uri}: Connection refused" in found.found) == ("error", True)


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SECONDS", 0.5)
    begin = time.monotonic()
    with black_hole() as port:
        found = only(tracking.store(f"http://127.0.0.1:{port}", "tracking", "agggen"), "tracking")
    assert time.monotonic() - begin < 20
    assert (found.level, "does not answer as MLflow does" in found.found) == ("error", True)


def test_which_addresses_are_looked_at(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(settings: Settings) -> list[str]:
        return [check.name for check in tracking.checks(settings)]

    assert names(Settings()) == ["version", "tracking"]  # the registry is the same file
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://127.0.0.1:1")
    assert names(Settings()) == ["version", "tracking", "registry"]


# --- databases ---------------------------------------------------------------------------------------------------


def database(path: Path, version: str | None) -> str:
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)" if version else "CREATE TABLE other (x)")
        if version:
            connection.execute("INSERT INTO alembic_version VALUES (?)", [version])
    connection.close()
    return f"sqlite:///{path}"


def store(uri: str) -> dict[str, str]:
    return said(tracking.store(uri, "tracking", "agggen"))


def test_a_file_that_mlflow_can_use(home: Path) -> None:
    from mlflow.store.db.utils import _get_latest_schema_revision

    uri = database(home / "runs" / "mlflow.db", _get_latest_schema_revision())
    before = (home / "runs" / "mlflow.db").read_bytes()
    assert store(uri) == {"tracking": "ok", "schema": "ok"}
    assert (home / "runs" / "mlflow.db").read_bytes() == before
    assert [path.name for path in (home / "runs").iterdir()] == ["mlflow.db"]


def test_a_file_of_another_mlflow(home: Path) -> None:
    uri = database(home / "mlflow.db", "451aebb31d03")
    found = only(tracking.store(uri, "tracking", "agggen"), "schema")
    assert found.level == "error"
    assert str(found.remedy).startswith(f"mlflow db upgrade {uri}")


def test_a_file_that_is_made_later(home: Path) -> None:
    assert store(f"sqlite:///{home}/runs/mlflow.db") == {"tracking": "ok"}
    assert not (home / "runs").exists()


def test_a_file_that_cannot_be_made(home: Path) -> None:
    (home / "runs").write_text("a file where a folder should be")
    assert store(f"sqlite:///{home}/runs/mlflow.db") == {"tracking": "error"}


@pytest.mark.parametrize("content", [b"these are no tables" * 100, None])
def test_a_file_that_is_no_database_of_mlflow(content: bytes | None, home: Path) -> None:
    path = home / "mlflow.db"
    if content is None:
        database(path, None)
    else:
        path.write_bytes(content)
    found = only(tracking.store(f"sqlite:///{path}", "tracking", "agggen"), "tracking")
    assert (found.level, str(found.remedy).startswith(f"mv {path} ")) == ("error", True)


def test_a_file_that_somebody_holds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SECONDS", 0.2)
    uri = database(home / "mlflow.db", "451aebb31d03")
    with sqlite3.connect(home / "mlflow.db", isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        found = only(tracking.store(uri, "tracking", "agggen"), "tracking")
    assert (found.level, "is held by another process" in found.found) == ("warning", True)


def test_a_database_where_nobody_listens() -> None:
    uri = f"postgresql://ann:swordfish@127.0.0.1:{free_ports(1)[0]}/mlflow"
    found = only(tracking.store(uri, "tracking", "agggen"), "tracking")
    assert (found.level, "no database answers" in found.found, "swordfish" in found.found) == ("error", True, False)


def test_a_database_without_its_driver() -> None:
    with black_hole() as port:
        found = only(tracking.store(f"mssql://ann:swordfish@127.0.0.1:{port}/x", "tracking", "agggen"), "tracking")
    assert (found.level, str(found.remedy).partition("  #")[0]) == ("error", "pip install pyodbc")


def test_a_database_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg2", reason="no driver of PostgreSQL is installed: pip install psycopg2-binary")
    monkeypatch.setattr(reach, "SECONDS", 2)  # the least that the driver knows
    begin = time.monotonic()
    with black_hole() as port:
        uri = f"postgresql+psycopg2://ann:swordfish@127.0.0.1:{port}/mlflow"
        found = only(tracking.store(uri, "tracking", "agggen"), "tracking")
    assert (found.level, "cannot be used" in found.found, "swordfish" in found.found) == ("error", True, False)
    assert time.monotonic() - begin < 20


def test_an_address_that_is_no_mlflow() -> None:
    found = only(tracking.store("file:///runs", "tracking", "agggen"), "tracking")
    assert (found.level, found.remedy) == ("error", "export MLFLOW_TRACKING_URI=http://HOST:5000")
