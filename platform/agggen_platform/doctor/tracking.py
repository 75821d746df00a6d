"""MLflow: the client's version, and the server, database or file that runs are logged to and models registered in."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agggen_platform.doctor import reach
from agggen_platform.doctor.findings import Check, Finding, error, note, ok, warning
from agggen_platform.doctor.settings import Settings
from agggen_platform.doctor.versions import MLFLOW, installed, is_older, judged
from agggen_platform.registry.client import registry_uri
from agggen_platform.tracking.origin import without_credentials
from agggen_platform.tracking.tracker import default_uri

AREA = "mlflow"
_IMPORTS = 45.0  # seconds that importing MLflow may take on a busy machine
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(.+?)(?:\?.*)?")
_DRIVERS = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}  # by module
_CREDENTIALS = "export MLFLOW_TRACKING_USERNAME=NAME MLFLOW_TRACKING_PASSWORD=..."


def checks(settings: Settings) -> list[Check]:
    addresses = {settings.tracking or default_uri(settings.runs): "tracking"}
    addresses.setdefault(registry_uri(settings.tracking, settings.runs), "registry")
    seconds = _IMPORTS + 4 * reach.SECONDS
    return [
        Check(AREA, "version", version, 5),
        *(
            Check(AREA, what, partial(store, uri, what, settings.experiment), seconds)
            for uri, what in addresses.items()
        ),
    ]


def version() -> Iterator[Finding]:
    found = installed("mlflow")
    if found is None:
        yield error("version", "MLflow is not installed", f"pip install '{MLFLOW.requirement}'")
    else:
        yield judged(found, MLFLOW)


def store(uri: str, what: str, experiment: str) -> Iterator[Finding]:
    """The MLflow at `uri`, which is for `what`: tracking or the registry. Nothing is written to it."""
    if uri.startswith(("http://", "https://")):
        yield from _server(uri.rstrip("/"), what, experiment)
    elif file := _SQLITE.fullmatch(uri):
        yield from _file(Path(file[1]), uri, what)
    elif re.match(r"(postgresql|mysql|mssql)\b", uri):
        yield from _database(uri, what)
    else:
        yield error(
            what,
            f"{without_credentials(uri)!r} is no MLflow: http(s)://, a database or sqlite:///FILE",
            "export MLFLOW_TRACKING_URI=http://HOST:5000",
        )


# --- a server ----------------------------------------------------------------------------------------------------


def _server(uri: str, what: str, experiment: str) -> Iterator[Finding]:
    shown = without_credentials(uri)
    place = shown.partition("://")[2].partition("/")[0]
    port = "" if re.search(r":\d+$", place) else ":443" if uri.startswith("https") else ":80"
    if (refused := reach.refusal(f"{place}{port}")) is not None:
        yield error(
            what,
            f"nothing answers at {shown}: {refused}; a run goes on without and is sent later",
            f"curl -sS {shown}/health  # is the server up, and may this machine reach it?",
        )
        return
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    from agggen_platform.tracking.store import reason

    once: dict[str, Any] = {"max_retries": 0, "timeout": reach.SECONDS, "raise_on_status": False}
    try:
        who = get_default_host_creds(uri)
        about = http_request(who, "/version", "GET", **once)
        path = "/api/2.0/mlflow/experiments/get-by-name"
        answer = http_request(who, path, "GET", params={"experiment_name": experiment}, **once)
    except MlflowException as failed:
        found = f"what listens at {shown} does not answer as MLflow does: {reason(failed)}"
        yield error(what, found, f"curl -sS --max-time 5 {shown}/health")
        return
    yield from of_answer(answer.status_code, answer.text, shown, what, experiment)
    if about.status_code == 200:
        yield from of_version(about.text.strip(), shown)
    if skew := reach.clock(shown, answer.headers.get("Date")):
        yield skew


def of_answer(status: int, text: str, shown: str, what: str, experiment: str) -> Iterator[Finding]:
    """What the server's answer to a question about the experiment means."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    code = answer.get("error_code") if isinstance(answer, dict) else None
    if status == 401:
        had = "these credentials" if os.environ.get("MLFLOW_TRACKING_USERNAME") else "requests without credentials"
        yield error(what, f"{shown} refuses {had}", _CREDENTIALS)
    elif status == 403 and "host header" in text.lower():
        host = shown.partition("://")[2].partition("/")[0]
        yield error(
            what,
            f"{shown} refuses the name {host} by which it is called (its guard against DNS rebinding)",
            f"mlflow server --allowed-hosts {host},localhost:*  # on the server, or MLFLOW_SERVER_ALLOWED_HOSTS",
        )
    elif status == 403:
        yield error(what, f"{shown}: this user may not read the experiment {experiment!r}", _CREDENTIALS)
    elif status == 200 and isinstance(answer, dict) and "experiment" in answer:
        about = answer["experiment"]
        if about.get("lifecycle_stage") == "deleted":
            yield error(
                what,
                f"{shown}: the experiment {experiment!r} was deleted there",
                f"mlflow experiments restore --experiment-id {about.get('experiment_id')}",
            )
        else:
            yield ok(what, f"{shown} answers, and has the experiment {experiment!r}")
    elif status == 404 and code == "RESOURCE_DOES_NOT_EXIST":
        yield ok(what, f"{shown} answers; a run will make the experiment {experiment!r}")
    else:
        yield error(
            what,
            f"{shown} answers {status}, not as MLflow does: {' '.join(text.split())[:120]}",
            f"curl -sS {shown}/health  # MLflow says OK; a prefix of the path belongs to the address",
        )


def of_version(theirs: str, shown: str) -> Iterator[Finding]:
    """Whether the server's version goes with ours."""
    ours = installed("mlflow") or ""
    if not re.match(r"\d+\.\d+", theirs):
        return  # something before it answers in its place
    if is_older(theirs, MLFLOW):
        found = f"{shown} is MLflow {theirs}, older than {MLFLOW.oldest}: {MLFLOW.why}"
        yield warning("server version", found, f"pip install '{MLFLOW.requirement}'  # on the server")
    elif theirs.split(".")[0] != ours.split(".")[0]:
        found = f"{shown} is MLflow {theirs}, the client {ours}"
        yield warning("server version", found, f"pip install mlflow=={ours}  # on the server")
    else:
        yield ok("server version", f"MLflow {theirs}, the client {ours}")


# --- databases ---------------------------------------------------------------------------------------------------


def _file(path: Path, uri: str, what: str) -> Iterator[Finding]:
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            yield ok(what, f"{path} is made by the first run")
        else:
            yield error(what, f"{path} cannot be made: {folder} takes no files", "agggen train PRESET --runs FOLDER")
        return
    try:
        found = _schema_of_file(path)
    except sqlite3.DatabaseError as failed:
        if "locked" in str(failed):
            remedy = f"fuser {path}  # which process; it ends by itself, or is stopped"
            yield warning(what, f"{path} is held by another process for longer than {reach.SECONDS:g} s", remedy)
        elif "readonly" in str(failed) or "unable to open" in str(failed):
            remedy = f"chmod u+w {path} {path.parent}"
            yield error(what, f"{path} cannot be written to by this user: {failed}", remedy)
        else:
            yield error(what, f"{path} is no database of MLflow: {failed}", f"mv {path} {path}.broken")
        return
    if found is None:
        yield error(what, f"{path} is an SQLite database, but not MLflow's", f"mv {path} {path}.other")
        return
    yield ok(what, f"{path} can be written to")
    yield from _schema(found, uri)


def _schema_of_file(path: Path) -> str | None:
    """The version of MLflow's schema in an SQLite file; takes the lock that a writer needs, and writes nothing."""
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=rw", timeout=reach.SECONDS, uri=True)
    try:
        connection.isolation_level = None
        connection.execute("BEGIN IMMEDIATE")
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError:  # no such table
            row = None
        connection.execute("ROLLBACK")
    finally:
        connection.close()
    return row and row[0]


def _schema(found: str, uri: str) -> Iterator[Finding]:
    from mlflow.store.db.utils import _get_latest_schema_revision  # MLflow has no public way to ask

    wanted = _get_latest_schema_revision()
    if found == wanted:
        yield ok("schema", f"{found}, which MLflow {installed('mlflow')} has")
    else:
        yield error(
            "schema",
            f"the database has the schema {found}, and MLflow {installed('mlflow')} has {wanted}",
            f"mlflow db upgrade {without_credentials(uri)}  # after a backup; a newer MLflow's needs that MLflow",
        )


def _database(uri: str, what: str) -> Iterator[Finding]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    shown = without_credentials(uri)
    url = make_url(uri)
    port = url.port or {"postgresql": 5432, "mysql": 3306, "mssql": 1433}[url.get_backend_name()]
    if (refused := reach.refusal(f"{url.host or 'localhost'}:{port}")) is not None:
        yield error(what, f"no database answers at {shown}: {refused}", f"nc -vz {url.host or 'localhost'} {port}")
        return
    patience = {"connect_timeout": int(reach.SECONDS)} if url.get_backend_name() in ("postgresql", "mysql") else {}
    try:
        with create_engine(uri, connect_args=patience).connect() as connection:
            row = connection.execute(text("SELECT version_num FROM alembic_version")).fetchone()
    except ImportError as failed:
        package = _DRIVERS.get(failed.name or "", failed.name)
        remedy = f"pip install {package}  # or name another driver, as in postgresql+psycopg2://"
        yield error(what, f"{shown} needs a driver: {failed}", remedy)
    except SQLAlchemyError as failed:
        line = str(failed).splitlines()[0]
        if "alembic_version" in line:
            yield note(what, f"{shown} is empty: the first run makes MLflow's tables")
        else:
            yield error(what, f"{shown} cannot be used: {line}", "export MLFLOW_TRACKING_URI=...  # user and password")
    else:
        yield ok(what, f"{shown} answers")
        if row is not None:
            yield from _schema(row[0], uri)
