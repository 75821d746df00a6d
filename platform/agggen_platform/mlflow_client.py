"""The MLflow client for tracking and the model registry, with timeouts of seconds."""

from __future__ import annotations

import logging
import os
import posixpath
import re
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agggen_platform.extras import require
from agggen_platform.locks import locked

if TYPE_CHECKING:
    from mlflow import MlflowClient

_ENVIRONMENT = {  # defaults; variables that the user has set take precedence
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds; with MLflow's default, a call to a dead server blocks for minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # `tracking.sender` retries itself
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}

KEY_CHARACTERS = 250  # MLflow's limit
_INVALID_IN_KEY = re.compile(r"[^\w\-. :/]")
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(.+?)(?:\?.*)?")


def mlflow_client(uri: str, registry_uri: str | None = None) -> MlflowClient:
    """A client of the tracking server at `uri` and the registry; raises ConfigError if MLflow is not installed."""
    require("mlflow")
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for logger_name in ("mlflow", "alembic"):
        logging.getLogger(logger_name).setLevel(logging.WARNING)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # its errors are also raised
    return MlflowClient(uri, registry_uri)


def sqlite_file(uri: str) -> Path | None:
    """The database file of an ``sqlite://`` URI; None for other URIs."""
    match = _SQLITE.fullmatch(uri)
    return Path(match[1]) if match else None


def schema_lock(uri: str) -> AbstractContextManager[object]:
    """A lock for creating the schema of an SQLite file: two processes that create it concurrently would both fail."""
    file = sqlite_file(uri)
    return locked(Path(f"{file}.lock")) if file else nullcontext()


def get_or_create_experiment(client: MlflowClient, name: str, **options: Any) -> Any:
    """The MLflow experiment `name`; created with `options` of `MlflowClient.create_experiment` if it does not exist."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            client.create_experiment(name, **options)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # created by another process in the meantime
                raise
        experiment = client.get_experiment_by_name(name)
    return experiment


def mlflow_key(name: str) -> str:
    """`name` as a valid MLflow key: replaces invalid characters; truncates long names and appends a hash."""
    key = posixpath.normpath("/" + _INVALID_IN_KEY.sub("_", name)).lstrip("/") or "_"  # MLflow refuses /a, a//b, ../a
    if len(key) <= KEY_CHARACTERS:
        return key
    return f"{key[: KEY_CHARACTERS - 9]}.{sha256(name.encode()).hexdigest()[:8]}"
