"""Sends events to one run of MLflow. All calls may block, so only the sender's thread makes them.

If a response is lost, the event is sent again. This is harmless: MLflow drops a metric with the same step, time and
value, and all other calls are idempotent.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agggen_platform.mlflow_client import get_or_create_experiment, mlflow_client, mlflow_key, schema_lock, sqlite_file
from agggen_platform.tracking.journal import Event, metric_values

# MLflow's own limits.
PARAM_CHARACTERS = 6000
TAG_CHARACTERS = 8000
DIGEST_CHARACTERS = 36
METRICS_PER_BATCH = 1000
_PARAMS_PER_BATCH = 100

_CAUSE = re.compile(r"""Caused by \w+\(["'](?:HTTP\w+\(.*?\): |<.*?>: )?(.*?)["'](?:\)|, )""")
_LOG_TAG = "agggen.run_log"
ENDED_TAG = "ended"  # how and why the run ended
_REJECTED = (
    "INVALID_PARAMETER_VALUE", "MALFORMED_REQUEST", "INVALID_STATE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS",
    "ALREADY_EXISTS",
)  # fmt: skip
_PERMANENT = (
    "PERMISSION_DENIED", "UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED",
    "FEATURE_DISABLED",
)  # fmt: skip
# SQLAlchemy's messages end with a link; the code of a DataError is 9h9h.
_SQL_ERROR, _SQL_DATA_ERROR = "sqlalche.me/e/", re.compile(r"sqlalche\.me/e/\w+/9h9h")


class DeletedError(Exception):
    """The run or the experiment was deleted in MLflow."""


class UnreadableError(Exception):
    """A local file is missing or not readable."""


def classify(error: Exception) -> Literal["rejected", "permanent", "transient"]:
    """rejected: MLflow refuses this value; permanent: every call will fail; transient: a retry may succeed."""
    code = getattr(error, "error_code", None)
    if code == "BAD_REQUEST" and _SQL_ERROR in str(error) and not _SQL_DATA_ERROR.search(str(error)):
        return "transient"  # MLflow uses this code for all database errors, such as no free connection
    status = getattr(getattr(error, "response", None), "status_code", 500)  # of an HTTP artifact store
    if isinstance(error, UnreadableError) or code in _REJECTED or status == 413:
        return "rejected"
    if code in _PERMANENT or isinstance(error, DeletedError | ImportError) or status in (401, 403, 404):
        return "permanent"
    return "transient"


def reason(error: BaseException) -> str:
    """The first line of an error's message, or its type; of a failed connection, the innermost cause."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if cause := _CAUSE.search(line):
        line = cause.group(1)
    return line[:300].rstrip(".")


class Store:
    """A connection to MLflow and, after `open`, to one of its runs."""

    def __init__(self, uri: str, experiment: str, runs_dir: Path, rejected: Callable[[str], None]) -> None:
        """`rejected` is called with a message for each value or file that MLflow rejects."""
        self._rejected = rejected
        self._run_id = ""
        self._params: dict[str, str] = {}
        folder = (runs_dir / "artifacts" / experiment).as_uri() if sqlite_file(uri) else None
        tags = {"mlflow.experimentKind": "custom_model_development"}  # pages open with runs, not with prompts
        with schema_lock(uri):
            self._client = mlflow_client(uri)
            existing = get_or_create_experiment(self._client, experiment, artifact_location=folder, tags=tags)
        if existing.lifecycle_stage != "active":
            raise DeletedError(f"the experiment {experiment!r} was deleted in MLflow: restore it, or choose another")
        self._experiment_id = str(existing.experiment_id)

    def _search(self, condition: str) -> str | None:
        runs = self._client.search_runs([self._experiment_id], condition, max_results=1)
        return runs[0].info.run_id if runs else None

    def open(self, run_id: str | None, key: str, run_name: str, first_event: Event) -> tuple[str, bool]:
        """Finds the run of a log, or creates it; returns its id, and whether it replaces a deleted one (`run_id`)."""
        from mlflow.exceptions import MlflowException

        run, is_replaced = None, False
        if run_id is not None:
            try:
                run = self._client.get_run(run_id)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
            is_replaced = run is None or run.info.lifecycle_stage != "active"
        if run is None or is_replaced:
            if existing := self._search(f"tags.`{_LOG_TAG}` = '{key}'"):  # MLflow did not confirm its creation
                run = self._client.get_run(existing)
            else:
                start = _milliseconds(first_event)
                run = self._client.create_run(self._experiment_id, start, {_LOG_TAG: key}, run_name)
        self._run_id, self._params = run.info.run_id, dict(run.data.params)
        return self._run_id, is_replaced

    def metrics(self, events: Sequence[Event]) -> None:
        from mlflow.entities import Metric

        points: list[Any] = []
        for event in events:
            time_and_step = _milliseconds(event), event["step"]
            points += [Metric(mlflow_key(name), value, *time_and_step) for name, value in metric_values(event).items()]
        self._log("metrics", points, METRICS_PER_BATCH)

    def send(self, event: Event) -> None:
        match event["event"]:
            case "start":
                self._set_tags(event["tags"])
                self._send("the start", lambda: self._client.update_run(self._run_id, "RUNNING"))
            case "params":
                self._log_params(event["values"])
            case "tags":
                self._set_tags(event["values"])
            case "dataset":
                self._send(f"the dataset {event['name']}", lambda: self._log_dataset(event))
            case "model":
                self._send(f"the model {event['name']}", lambda: self._log_model(event))
            case "artifact":
                path, folder = Path(event["path"]), event["folder"]
                self._send(str(path), lambda: self._log_files(path, folder))
            case "end":
                self._set_tags({ENDED_TAG: event.get("ended", "")})
                end = (self._run_id, event["status"], _milliseconds(event))
                self._send("the end", lambda: self._client.set_terminated(*end))

    def _send(self, subject: str, call: Callable[[], object]) -> None:
        """Calls `call`; reports an error if it means that MLflow rejects the value, and raises any other error."""
        try:
            call()
        except Exception as error:
            if classify(error) != "rejected":
                raise
            self.check()
            self._rejected(f"{subject}: {reason(error)}")

    def _log(self, kind: Literal["metrics", "params", "tags"], items: Sequence[Any], size: int) -> None:
        """Sends items, at most `size` in a call."""
        for begin in range(0, len(items), size):
            batch = items[begin : begin + size]
            names = ", ".join(dict.fromkeys(item.key for item in batch))
            self._send(f"{kind} {names:.200}", partial(self._client.log_batch, self._run_id, **{kind: batch}))

    def check(self) -> None:
        """Raises MLflow's error if it does not answer, and `DeletedError` if the run was deleted."""
        if self._client.get_run(self._run_id).info.lifecycle_stage != "active":
            raise DeletedError("the run was deleted in MLflow")

    def set_parent(self, run_name: str) -> bool:
        """Makes this run a child of the newest run of this name; returns whether there is one."""
        if run_id := self._search(f"attributes.run_name = '{run_name}'"):
            self._client.set_tag(self._run_id, "mlflow.parentRunId", run_id)
        return run_id is not None

    def _set_tags(self, tags: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        items = [RunTag(mlflow_key(name), _shortened(str(value), TAG_CHARACTERS)) for name, value in tags.items()]
        self._log("tags", items, _PARAMS_PER_BATCH)

    def _log_params(self, values: dict[str, Any]) -> None:
        """Logs parameters. MLflow keeps the first value of each; a different later value counts as rejected."""
        from mlflow.entities import Param

        texts = {mlflow_key(name): _shortened(str(value), PARAM_CHARACTERS) for name, value in values.items()}
        new_params = {key: text for key, text in texts.items() if key not in self._params}
        self._log("params", [Param(key, text) for key, text in new_params.items()], _PARAMS_PER_BATCH)
        self._params |= new_params
        if changed_params := [key for key, text in texts.items() if self._params[key] != text]:
            self._rejected(f"new values of parameters, since it keeps the first: {', '.join(changed_params)}")

    def _log_dataset(self, event: Event) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        scheme, colon, _ = event["source"].partition("://")
        source = json.dumps({"uri": event["source"]})
        profile = json.dumps({"split": event["split"], "fingerprint": event["fingerprint"]})
        digest = event["fingerprint"][:DIGEST_CHARACTERS]
        dataset = Dataset(_shortened(event["name"], 500), digest, scheme if colon else "local", source, profile=profile)
        context = InputTag("mlflow.data.context", event["split"])
        self._client.log_inputs(self._run_id, [DatasetInput(dataset, [context])])

    def _log_model(self, event: Event) -> None:
        """Logs a bundle's metrics on a dataset to the LoggedModel with its fingerprint, which is created if missing."""
        from mlflow.entities import Metric

        condition = f"tags.fingerprint = '{event['fingerprint']}'"
        models = self._client.search_logged_models([self._experiment_id], condition, max_results=1)
        if models:
            model_id = models[0].model_id
        else:
            tags = {"fingerprint": event["fingerprint"], "mlflow.model.isExternal": "true"}
            params = {mlflow_key(name): _shortened(str(value), 500) for name, value in event["params"].items()}
            name = re.sub(r"[/:.%\"']", "-", event["name"])  # characters that MLflow refuses
            model = self._client.create_logged_model(self._experiment_id, name, self._run_id, tags, params, "agggen")
            model_id = model.model_id
            self._client.finalize_logged_model(model_id, "READY")
        links = {"model_id": model_id, "dataset_name": event["dataset"], "run_id": self._run_id}
        links["dataset_digest"] = event["digest"][:DIGEST_CHARACTERS]
        time = _milliseconds(event)
        points = [Metric(mlflow_key(name), float(value), time, 0, **links) for name, value in event["metrics"].items()]
        self._log("metrics", points, METRICS_PER_BATCH)

    def _log_files(self, path: Path, folder: str) -> None:
        """Sends a file or folder to the artifact folder `folder`; raises UnreadableError."""
        if not path.is_dir():
            _check_readable(path)
            self._client.log_artifact(self._run_id, str(path), folder or None)
            return
        # File by file, because `log_artifacts` starts threads that delay the interpreter's exit.
        for file in sorted(path.rglob("*")):
            if file.is_file():
                _check_readable(file)
                artifact_folder = Path(folder, path.name, file.parent.relative_to(path)).as_posix()
                self._client.log_artifact(self._run_id, str(file), artifact_folder)


def _check_readable(file: Path) -> None:
    try:
        file.open("rb").close()
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UnreadableError(f"{file}: {error.strerror}") from error


def _milliseconds(event: Event) -> int:
    return round(event["time"] * 1000)


def _shortened(text: str, characters: int) -> str:
    """Truncates `text` to MLflow's limit, and replaces NUL, which PostgreSQL cannot store."""
    text = text.replace("\0", "\ufffd")
    return text if len(text) <= characters else text[: characters - 1] + "…"
