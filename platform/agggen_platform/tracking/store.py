"""MLflow: one run of it that takes events. Calls block as long as MLflow does, so they belong on the sender's thread.

Every event may be sent twice, since who does not hear an answer cannot know: MLflow drops a metric with the same step,
time and value, and the rest is written so that it is the same the second time. The run itself is found by a tag.
"""

from __future__ import annotations

import json
import logging
import os
import posixpath
import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from agggen_platform.tracking.cursor import locked
from agggen_platform.tracking.journal import Event, numbers

# MLflow's own limits.
PARAM_CHARACTERS = 6000
TAG_CHARACTERS = 8000
KEY_CHARACTERS = 250
DIGEST_CHARACTERS = 36
METRICS_A_BATCH = 1000
_PARAMS_A_BATCH = 100

_REFUSED_KEY_CHARACTERS = re.compile(r"[^\w\-. :/]")
_CAUSE = re.compile(r"""Caused by \w+\(["'](?:HTTP\w+\(.*?\): |<.*?>: )?(.*?)["'](?:\)|, )""")
_LOG_TAG = "agggen.run_log"
# A call that gets no answer is given up and made again by us: a server that is down would block it for minutes
# otherwise. A user's own values win.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_REFUSALS = (
    "INVALID_PARAMETER_VALUE",
    "MALFORMED_REQUEST",
    "INVALID_STATE",
    "BAD_REQUEST",
    "RESOURCE_ALREADY_EXISTS",
    "ALREADY_EXISTS",
)
_HOPELESS = (
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "CUSTOMER_UNAUTHORIZED",
    "ENDPOINT_NOT_FOUND",
    "NOT_IMPLEMENTED",
    "FEATURE_DISABLED",
)


_STEPS = range(-(1 << 63), 1 << 63)  # that MLflow's protocol and databases can hold
_OF_SQL, _OF_DATA = "sqlalche.me/e/", re.compile(r"sqlalche\.me/e/\w+/9h9h")  # how SQLAlchemy's errors end


class GoneError(Exception):
    """The run or the experiment was deleted in MLflow."""


class UnreadableError(Exception):
    """A local file is not there or may not be read."""


def verdict(error: Exception) -> Literal["refused", "hopeless", "again"]:
    """What an error of a call means: this value is refused, nothing will do, or MLflow may take it another time.

    Only what MLflow says of a value refuses it: 5xx, timeouts and whatever an artifact store raises pass, or an
    operator ends them.
    """
    code = getattr(error, "error_code", None)
    if code == "BAD_REQUEST" and _OF_SQL in str(error) and not _OF_DATA.search(str(error)):
        return "again"  # any error of the database goes by this code: read-only, no free connection
    if isinstance(error, UnreadableError) or code in _REFUSALS:
        return "refused"
    status = getattr(getattr(error, "response", None), "status_code", 500)  # of an artifact store behind HTTP
    if code in _HOPELESS or isinstance(error, GoneError | ImportError) or status in (401, 403, 404, 413):
        return "hopeless"
    return "again"


def reason(error: Exception) -> str:
    """One line about an error."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if cause := _CAUSE.search(line):  # what happened to the connection, without the layers around it
        line = cause.group(1)
    return line[:300].rstrip(".")


class Store:
    """An MLflow that answered; after `open`, one run in it."""

    def __init__(self, uri: str, experiment: str, runs_dir: Path, refused: Callable[[str], None]) -> None:
        """Connects; makes the schema of a fresh SQLite store, and the experiment.

        Args:
            uri: of MLflow, with credentials where it needs them.
            experiment: made where it does not exist; with SQLite its artifacts lie in `runs_dir`.
            refused: is told of each value and file that MLflow would not have; the others around it are sent.

        Raises:
            Exception: whatever MLflow raises; see `verdict`.
        """
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # prints what it raises
        self._refused = refused
        self._run_id = ""
        self._params: dict[str, str] = {}
        sqlite = re.fullmatch(r"sqlite:///(.+?)(?:\?.*)?", uri)
        # Two processes that make the schema of one file at once break each other's.
        with locked(Path(f"{sqlite.group(1)}.lock")) if sqlite else nullcontext():
            self._client = MlflowClient(uri)
            self._experiment_id = self._experiment(experiment, runs_dir if sqlite else None)

    def _experiment(self, name: str, runs_dir: Path | None) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                folder = (runs_dir / "artifacts" / name).as_uri() if runs_dir else None
                return self._client.create_experiment(name, folder)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self._client.get_experiment_by_name(name)  # another process was faster
        if found.lifecycle_stage != "active":
            raise GoneError(f"the experiment {name!r} was deleted there: restore it, or name another")
        return found.experiment_id

    def find(self, run_name: str) -> str | None:
        """The id of the newest run of this name in the experiment."""
        return self._search(f"attributes.run_name = '{run_name}'")

    def _search(self, condition: str) -> str | None:
        found = self._client.search_runs([self._experiment_id], condition, max_results=1)
        return found[0].info.run_id if found else None

    def open(self, run_id: str | None, key: str, run_name: str, first: Event) -> tuple[str, bool]:
        """Finds the run of a run log, or makes it: its id, and whether the run `run_id` is gone and this is another.

        Args:
            run_id: where it was sent before.
            key: names the run log, so that a run is found whose making was not heard of.
            first: the run log's first event.
        """
        from mlflow.exceptions import MlflowException

        run, gone = None, False
        if run_id is not None:
            try:
                run = self._client.get_run(run_id)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
            gone = run is None or run.info.lifecycle_stage != "active"
        if run is None or gone:
            found = self._search(f"tags.`{_LOG_TAG}` = '{key}'")
            if found:
                run = self._client.get_run(found)
            else:
                tags = {_LOG_TAG: key}
                run = self._client.create_run(self._experiment_id, _milliseconds(first), tags, run_name)
        self._run_id, self._params = run.info.run_id, dict(run.data.params)
        return self._run_id, gone

    # --- events -------------------------------------------------------------------------------------------------

    def metrics(self, events: Sequence[Event]) -> None:
        """Sends the values of ``metrics`` events in few calls."""
        from mlflow.entities import Metric

        points = [
            Metric(_key(name), value, _milliseconds(event), event["step"])
            for event in events
            if event["step"] in _STEPS
            for name, value in numbers(event).items()
        ]
        self._log("metrics", points, METRICS_A_BATCH)
        for event in events:  # MLflow calls this an internal error, which would be tried for ever
            for name in event["values"] if event["step"] not in _STEPS else ():
                self._refused(f"the metric {name}: the step {event['step']} is no 64-bit number")

    def send(self, event: Event, say: Callable[[str], None]) -> None:
        """Sends an event that is not ``metrics``; tells `say` what MLflow has otherwise than it was logged."""
        match event["event"]:
            case "start":
                self._set_tags(event["tags"])
                self._or_refuse("the start", lambda: self._client.update_run(self._run_id, "RUNNING"))
            case "params":
                self._log_params(event["values"], say)
            case "tags":
                self._set_tags(event["values"])
            case "dataset":
                self._or_refuse(f"the dataset {event['name']}", lambda: self._log_dataset(event))
            case "artifact":
                path, folder = Path(event["path"]), event["folder"]
                self._or_refuse(str(path), lambda: self._log_files(path, folder))
            case "end":
                ended = (self._run_id, event["status"], _milliseconds(event))
                self._or_refuse("the end", lambda: self._client.set_terminated(*ended))

    def _or_refuse(self, what: str, call: Callable[[], object]) -> None:
        """Makes a call; that just this is refused is told to `self._refused`."""
        try:
            call()
        except Exception as error:
            if not self._is_refusal(error):
                raise
            self._refused(f"{what}: {reason(error)}")

    def _log(self, kind: Literal["metrics", "params", "tags"], items: Sequence[Any], size: int) -> None:
        """Sends items at most `size` a call; where a call is refused, the items by halves, until it is known which."""
        for begin in range(0, len(items), size):
            some = items[begin : begin + size]
            try:
                self._client.log_batch(self._run_id, **{kind: some})
            except Exception as error:
                if not self._is_refusal(error):
                    raise
                if len(some) > 1:
                    self._log(kind, some, (len(some) + 1) // 2)
                else:
                    self._refused(f"the {kind.rstrip('s')} {some[0].key}: {reason(error)}")

    def _is_refusal(self, error: Exception) -> bool:
        """Whether MLflow is well and will not have just what was sent."""
        if verdict(error) != "refused":
            return False
        self.check()
        return True

    def check(self) -> None:
        """Raises what MLflow raises where it does not answer, and `GoneError` where it has the run no more."""
        if self._client.get_run(self._run_id).info.lifecycle_stage != "active":
            raise GoneError("the run was deleted there")

    def set_parent(self, run_id: str) -> None:
        """Makes this run a child of another."""
        self._client.set_tag(self._run_id, "mlflow.parentRunId", run_id)

    def _set_tags(self, tags: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        items = [RunTag(_key(name), _shortened(str(value), TAG_CHARACTERS)) for name, value in tags.items()]
        self._log("tags", items, _PARAMS_A_BATCH)

    def _log_params(self, values: dict[str, Any], say: Callable[[str], None]) -> None:
        """MLflow never changes a parameter: another value for `a` is logged as `a.2`, then `a.3`."""
        from mlflow.entities import Param

        fresh: dict[str, str] = {}
        held = ChainMap(fresh, self._params)
        for name, value in values.items():
            text, number, key = _shortened(str(value), PARAM_CHARACTERS), 1, _key(name)
            while held.get(key, text) != text:
                number += 1
                key = _key(name, f".{number}")
            if key not in held:
                fresh[key] = text
                if number > 1:
                    say(f"MLflow never changes a parameter: {name} is {text[:80]!r} now, which it has as {key}")
        self._log("params", [Param(key, text) for key, text in fresh.items()], _PARAMS_A_BATCH)
        self._params |= fresh

    def _log_dataset(self, event: Event) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        scheme, colon, _ = event["source"].partition("://")
        source = json.dumps({"uri": event["source"]})
        about = json.dumps({"split": event["split"], "fingerprint": event["fingerprint"]})
        digest = event["fingerprint"][:DIGEST_CHARACTERS]
        dataset = Dataset(_shortened(event["name"], 500), digest, scheme if colon else "local", source, profile=about)
        self._client.log_inputs(
            self._run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", event["split"])])]
        )

    def _log_files(self, path: Path, folder: str) -> None:
        """A file into `folder` of the artifacts, or a folder with all that is in it into one of its name."""
        if not path.is_dir():
            _readable(path)
            self._client.log_artifact(self._run_id, str(path), folder or None)
            return
        # One by one: MLflow's own loop has threads that the interpreter waits for when it ends.
        for file in sorted(path.rglob("*")):
            if file.is_file():
                _readable(file)
                inside = Path(folder, path.name, file.parent.relative_to(path)).as_posix()
                self._client.log_artifact(self._run_id, str(file), inside)


def _readable(file: Path) -> None:
    """Raises UnreadableError: `file` cannot be sent, whatever the artifact store does."""
    try:
        file.open("rb").close()
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UnreadableError(f"{file}: {error.strerror}") from error


def _milliseconds(event: Event) -> int:
    return round(event["time"] * 1000)


def _key(name: str, suffix: str = "") -> str:
    """A name as MLflow takes it: other characters replaced, and what is too long cut and told apart by a hash."""
    key = posixpath.normpath("/" + _REFUSED_KEY_CHARACTERS.sub("_", name)).lstrip("/") or "_"  # refused: /a, a//b, ../a
    if len(key) + len(suffix) > KEY_CHARACTERS:
        digest = sha256(name.encode()).hexdigest()[:8]
        key = f"{key[: KEY_CHARACTERS - len(suffix) - 9]}.{digest}"
    return key + suffix


def _shortened(text: str, characters: int) -> str:
    """`text` as MLflow takes it: cut, and without NUL, which PostgreSQL cannot hold."""
    text = text.replace("\0", "\ufffd")
    return text if len(text) <= characters else text[: characters - 1] + "…"
