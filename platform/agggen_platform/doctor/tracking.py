"""MLflow: whether runs can be logged, and whether the model registry can be read."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agggen_platform.doctor.findings import Finding, Settings, error, note, ok
from agggen_platform.doctor.machine import unwritable
from agggen_platform.extras import is_installed
from agggen_platform.mlflow_client import sqlite_file
from agggen_platform.registry.address import RegistryError
from agggen_platform.registry.store import connect, registry_uri
from agggen_platform.tracking.origin import masked, without_credentials
from agggen_platform.tracking.tracker import default_uri, sqlite_uri


def check(settings: Settings) -> Iterator[Finding]:
    runs = Path(settings.runs)
    uri = settings.tracking or default_uri(runs)
    if not is_installed("mlflow"):
        level = note if uri == sqlite_uri(runs) else error
        yield level("tracking", f"MLflow is not installed: runs are logged in {runs} only", "pip install 'agggen[ray]'")
        return
    yield from server(uri, "tracking", lambda client: _check_write_access(client, settings.experiment))
    yield from server(registry_uri(settings.tracking, runs), "registry", _check_registry_access)


def server(uri: str, subject: str, check_access: Any) -> Iterator[Finding]:
    """Connects to MLflow at `uri`; `check_access` gets the client and returns the end of the finding's message."""
    address = without_credentials(uri)
    file = sqlite_file(uri)
    if file and not file.exists():
        if problem := unwritable(file.parent):
            yield error(subject, f"{file} cannot be created: {problem}", "agggen train PRESET --runs FOLDER")
        else:
            yield ok(subject, f"{file} will be created by the first run")
        return
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield ok(subject, f"{address} {check_access(connect(uri))}")
    except (RegistryError, MlflowException, SQLAlchemyError) as failure:
        cause = failure.__cause__ if isinstance(failure, RegistryError) and failure.__cause__ else failure
        message = masked(" ".join(str(cause).split())[:500])
        yield error(subject, f"{address} cannot be used: {message}", remedy(message, uri))


def _check_write_access(client: Any, name: str) -> str:
    """Sets a tag of the experiment, which needs the same permission as logging a run; raises MlflowException."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return f"answers; the first run will create the experiment {name!r}"
    if experiment.lifecycle_stage == "deleted":
        raise MlflowException(f"the experiment {name!r} (id {experiment.experiment_id}) was deleted")
    time = datetime.now(UTC).isoformat(timespec="seconds")
    client.set_experiment_tag(experiment.experiment_id, "agggen.doctor", time)
    return f"lets this user write to the experiment {name!r}"


def _check_registry_access(client: Any) -> str:
    client.search_registered_models(max_results=1)
    return "lets this user read the model registry"


def remedy(message: str, uri: str) -> str:
    text, address = message.lower(), without_credentials(uri)
    if "401" in text or "not authenticated" in text:
        return "export MLFLOW_TRACKING_USERNAME=NAME MLFLOW_TRACKING_PASSWORD=..."
    if "host header" in text:  # MLflow's protection against DNS rebinding
        host = address.partition("://")[2].partition("/")[0]
        return f"mlflow server --allowed-hosts {host},localhost:*  # on the server, or MLFLOW_SERVER_ALLOWED_HOSTS"
    if "403" in text or "permission" in text:
        return "export MLFLOW_TRACKING_USERNAME=NAME  # a user who may edit the experiment; or ask its owner"
    if "was deleted" in text:
        return "mlflow experiments restore --experiment-id ID  # or tracking.experiment=NAME"
    if "out-of-date" in text:
        return f"mlflow db upgrade {address}  # after a backup; or upgrade MLflow on this machine, if it is older"
    if uri.startswith(("http://", "https://")):
        return f"curl -sS --max-time 5 {address}/health  # MLflow answers OK"
    return "export MLFLOW_TRACKING_URI=http://HOST:5000  # or a database or sqlite:///FILE that this user can write to"
