"""The one way to MLflow for tracking and registry: a client whose calls fail after seconds where MLflow is down.

Only runs, names, tags, aliases and plain files are used. MLflow's model flavours would unpickle what they load.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from agggen_platform.extras import require

if TYPE_CHECKING:
    from mlflow import MlflowClient

_ENVIRONMENT = {  # a user's own values win
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds; by default a server that is down blocks each call for minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # tracking retries by itself
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


KEY_CHARACTERS = 250  # MLflow's limit
_REFUSED_KEY_CHARACTERS = re.compile(r"[^\w\-. :/]")


def mlflow_client(uri: str, registry_uri: str | None = None) -> MlflowClient:
    """A client of the tracking server at `uri`, and of the registry at `registry_uri`.

    Raises:
        ConfigError: MLflow is not installed.
    """
    require("mlflow")
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for noisy in ("mlflow", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # prints what it raises
    return MlflowClient(uri, registry_uri)


def experiment_called(client: MlflowClient, name: str, **options: Any) -> Any:
    """The experiment called `name`; if it does not exist it is created, with `options` of MLflow's client."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            client.create_experiment(name, **options)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
                raise
        experiment = client.get_experiment_by_name(name)
    return experiment


def mlflow_key(name: str) -> str:
    """A name as MLflow accepts it: other characters replaced, and a long one cut and made distinct by a hash."""
    key = posixpath.normpath("/" + _REFUSED_KEY_CHARACTERS.sub("_", name)).lstrip("/") or "_"  # refused: /a, a//b, ../a
    if len(key) <= KEY_CHARACTERS:
        return key
    return f"{key[: KEY_CHARACTERS - 9]}.{sha256(name.encode()).hexdigest()[:8]}"
