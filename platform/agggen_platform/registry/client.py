"""Connects to the MLflow model registry; if it does not answer, raises an error within seconds."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from agggen_platform.extras import require
from agggen_platform.mlflow_client import mlflow_client, schema_lock, sqlite_file
from agggen_platform.registry.address import RegistryError
from agggen_platform.tracking.origin import masked
from agggen_platform.tracking.tracker import default_uri

_SQLITE = "sqlite:///"
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_CONNECT_SECONDS = 5.0  # timeout of a connection to a database server


def registry_uri(uri: str | None = None, runs_dir: Path = Path("runs")) -> str:
    """`uri`, else ``MLFLOW_REGISTRY_URI``, else ``MLFLOW_TRACKING_URI``, else the SQLite file in `runs_dir`."""
    return uri or os.environ.get("MLFLOW_REGISTRY_URI") or default_uri(runs_dir)


def connect(uri: str, create: bool = False) -> Any:
    """An ``MlflowClient`` of the registry at `uri`; `create`: create a missing SQLite file, which takes seconds."""
    require("mlflow")
    if uri.startswith("sqlite:"):
        _check_file(uri, create)
    elif not uri.startswith(("http://", "https://")):
        _check_server(uri)
    with registry_errors(uri), schema_lock(uri) if create else nullcontext():
        return mlflow_client(uri, uri)  # creates the schema of a new file


@contextmanager
def registry_errors(uri: str) -> Iterator[None]:
    """Converts errors of MLflow to a `RegistryError` with a one-line message."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        reason = "it does not answer" if "HTTPConnectionPool" in line else masked(line)[:300]
        raise RegistryError(f"the registry {masked(uri)} cannot be used: {reason}") from error


def _check_file(uri: str, create: bool) -> None:
    """Checks that the file is an SQLite database; otherwise MLflow would retry for an hour."""
    path = sqlite_file(uri)
    if path is None:
        raise RegistryError(f"{uri!r} is not a registry: use {_SQLITE}FILE")
    if not path.exists():
        if create:
            return
        raise RegistryError(
            f"there is no registry at {path}; `agggen models register BUNDLE` creates one, and MLFLOW_TRACKING_URI "
            "selects another"
        )
    try:
        with path.open("rb") as file:
            header = file.read(16)
    except OSError as error:
        raise RegistryError(f"the registry {path} cannot be read: {error.strerror}") from error
    if header and header != b"SQLite format 3\0":
        raise RegistryError(f"the registry {path} is not an SQLite database")


def _check_server(uri: str) -> None:
    """Checks that a database server accepts connections; otherwise MLflow would retry for an hour."""
    from sqlalchemy.engine import make_url  # MLflow's parser: a password may contain / ? and #
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        url = None
    if url is None or (kind := url.get_backend_name()) not in _PORTS or not url.host:
        raise RegistryError(
            f"{masked(uri)!r} is not a registry: use http(s)://, {'://, '.join(_PORTS)}:// or {_SQLITE}FILE"
        )
    try:
        socket.create_connection((url.host, url.port or _PORTS[kind]), _CONNECT_SECONDS).close()
    except OSError as error:
        raise RegistryError(f"the registry {masked(uri)} cannot be reached: {error.strerror or error}") from error
