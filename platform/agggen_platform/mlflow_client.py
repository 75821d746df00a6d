"""The MLflow client of tracking and registry: its calls fail within seconds if MLflow does not answer.

Only runs, names, tags, aliases and plain files are used. Models of MLflow's flavours are not, as MLflow unpickles them.
"""

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

_ENVIRONMENT = {  # defaults; the user's own values take precedence
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds; by default a server that is down blocks each call for minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the run log's sender has its own retries
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
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # logs errors that are also raised
    return MlflowClient(uri, registry_uri)


def sqlite_file(uri: str) -> Path | None:
    """The database file of an SQLite address; None for other addresses."""
    match = _SQLITE.fullmatch(uri)
    return Path(match[1]) if match else None


def schema_lock(uri: str) -> AbstractContextManager[object]:
    """Held while the schema of a new SQLite file is created: two processes that do so at once would both fail."""
    file = sqlite_file(uri)
    return locked(Path(f"{file}.lock")) if file else nullcontext()


def get_or_create_experiment(client: MlflowClient, name: str, **options: Any) -> Any:
    """The experiment called `name`, created with these `options` of MLflow's client if it does not exist."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            client.create_experiment(name, **options)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # otherwise another process created the experiment
                raise
        experiment = client.get_experiment_by_name(name)
    return experiment


def mlflow_key(name: str) -> str:
    """`name` as a valid key for MLflow: invalid characters are replaced, a long name is truncated and gets a hash."""
    key = posixpath.normpath("/" + _INVALID_IN_KEY.sub("_", name)).lstrip("/") or "_"  # /a, a//b and ../a are refused
    if len(key) <= KEY_CHARACTERS:
        return key
    return f"{key[: KEY_CHARACTERS - 9]}.{sha256(name.encode()).hexdigest()[:8]}"
