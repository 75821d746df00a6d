"""The run log: a local JSONL file that is the truth, and MLflow beside it for looking at.

Tracking cannot hurt. Every call writes one line to ``RUNS_DIR/RUN_NAME/tracking.jsonl`` and returns; a thread of its
own carries the lines to MLflow. When MLflow cannot be reached, is slow, or refuses a value, that is said once and the
run goes on: leaving the ``with`` block waits a bounded time at most, and the JSONL holds everything.

    with Tracker(run_name="elements-1") as tracker:
        tracker.log_params(flatten(config))
        tracker.log_metrics({"dev/bleu": 41.2}, step=300)
        tracker.log_artifact(bundle_folder)
    print(tracker.ui_command())

Only metrics, parameters, tags and plain files are logged: MLflow's model flavours would unpickle on loading.
"""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agggen.errors import ConfigError
from agggen_platform.config import Scalar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# MLflow's own limits are 6,000 characters a value, 250 a key, 100 parameters and 1,000 metrics a batch.
PARAM_CHARACTERS = 6000
KEY_CHARACTERS = 250
PARAMS_A_BATCH = 100
METRICS_A_BATCH = 1000

_QUEUE_LENGTH = 10_000
_REFUSED_KEY_CHARACTERS = re.compile(r"[^\w\-. :/]")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_RUN_NAME = re.compile(r"\w[\w.\-]*")
# Without these a dead server blocks each call for minutes; a user's own values win.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr)


class Tracker:
    """One run. A context manager; its calls are cheap, may come from one thread at a time, and never raise."""

    def __init__(
        self,
        uri: str | None = None,
        experiment: str = "agggen",
        run_name: str = "run",
        tags: Mapping[str, str] | None = None,
        *,
        runs_dir: Path | str = "runs",
        report: Callable[[str], None] = _to_stderr,
        patience: float = 60.0,
        parent: str | None = None,
        system_seconds: float = 0.0,
    ) -> None:
        """`uri`: an MLflow tracking URI; by default a SQLite file in `runs_dir`. `report` says what went wrong, once.

        `patience`: seconds that leaving the ``with`` block may wait for MLflow to take what is still under way.
        `parent`: the name of the run in `runs_dir` that this one is part of. `system_seconds`: between two looks at CPU
        and memory; 0 for none.

        Raises:
            ConfigError: `run_name` is no file name.
        """
        if not _RUN_NAME.fullmatch(run_name):
            raise ConfigError(f"the run name {run_name!r} must be letters, digits, '_', '-' and '.', like webnlg-1")
        self.runs_dir = Path(runs_dir).resolve()
        self.uri = uri or f"sqlite:///{self.runs_dir / 'mlflow.db'}"
        self.experiment = experiment
        self.run_name = run_name
        self.run_id: str | None = None
        """MLflow's id of this run, once it is known."""
        self.parent = parent
        self._system_seconds = system_seconds
        self._tags = dict(tags or {})
        self._report = report
        self._patience = patience
        self._complained = False
        self._events: queue.Queue[dict[str, Any]] = queue.Queue(_QUEUE_LENGTH)
        self._sender = threading.Thread(target=self._send_all, name="mlflow", daemon=True)

    @property
    def path(self) -> Path:
        """The JSONL file, one event a line: ``start``, ``params``, ``metrics``, ``artifact``, ``end``."""
        return self.runs_dir / self.run_name / "tracking.jsonl"

    def __enter__(self) -> Self:
        self._record({"event": "start", "experiment": self.experiment, "run": self.run_name, "tags": self._tags})
        self._sender.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = "FINISHED" if kind is None else "KILLED" if issubclass(kind, KeyboardInterrupt) else "FAILED"
        self._record({"event": "end", "status": status})
        self._sender.join(self._patience)
        if self._sender.is_alive():
            self._complain(f"it did not answer within {self._patience:g} s")

    def log_params(self, params: Mapping[str, Scalar]) -> None:
        """Logs what the run was given, once: a resolved configuration, fingerprints."""
        self._record({"event": "params", "values": dict(params)})

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Logs numbers at a step."""
        self._record({"event": "metrics", "step": step, "values": {name: float(v) for name, v in metrics.items()}})

    def log_artifact(self, path: Path | str) -> None:
        """Logs a file, or a folder with all that is in it. MLflow gets a copy, the JSONL its path."""
        self._record({"event": "artifact", "path": str(Path(path).resolve())})

    def log_text(self, text: str, name: str) -> None:
        """Writes `text` to the file `name` in the run's folder and logs it."""
        path = self.path.parent / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self._complain(f"cannot write {path}: {error.strerror}", of="the run log")
        else:
            self.log_artifact(path)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Sets tags; a tag that is there gets the new value."""
        self._record({"event": "tags", "values": {name: str(value) for name, value in tags.items()}})

    def log_dataset(self, name: str, split: str, fingerprint: str, source: str) -> None:
        """Logs what was read: `split` of the corpus `name` with this `fingerprint`, from the folder or URL `source`."""
        event = {"event": "dataset", "name": name, "split": split, "fingerprint": fingerprint, "source": source}
        self._record(event)

    def log_figure(self, name: str, figure: Callable[[], Figure]) -> None:
        """Draws `figure()` here and now into ``figures/NAME.png`` of the run's folder and logs it."""
        path = self.path.parent / "figures" / f"{name}.png"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure().savefig(path, dpi=120)
        except Exception as error:  # a figure that cannot be drawn costs the run nothing but the figure
            self._complain(f"cannot draw {path}: {_first_line(error)}", of="the run log")
        else:
            self.log_artifact(path)

    def ui_command(self) -> str:
        """The shell command that opens the store in a browser; credentials in its address are left to fill in."""
        python = shlex.quote(sys.executable)
        store = shlex.quote(_CREDENTIALS.sub("***", self.uri))
        if self.uri.startswith(("http://", "https://")):
            return f"{python} -m webbrowser {store}"
        # One worker and no job runner: half a gigabyte and ten seconds instead of two and forty.
        server = f"{python} -m mlflow server --backend-store-uri {store} --host 127.0.0.1 --port 5000 --workers 1"
        return f"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false {server}"

    def _record(self, event: dict[str, Any]) -> None:
        event["time"] = round(time.time(), 3)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(_finite(event), ensure_ascii=False, allow_nan=False) + "\n")
        except OSError as error:
            self._complain(f"cannot write {self.path}: {error.strerror}", of="the run log")
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._complain(f"it is more than {_QUEUE_LENGTH:,} entries behind")

    def _complain(self, reason: str, of: str = "MLflow") -> None:
        if not self._complained:
            self._complained = True
            what = f"{of} ({self.uri})" if of == "MLflow" else of
            message = f"warning: {what} misses parts of this run: {reason}. The run goes on; see {self.path}"
            self._report(_CREDENTIALS.sub("***", message))

    # --- in the sender's thread --------------------------------------------------------------------------------

    def _send_all(self) -> None:
        """Carries events to MLflow until the end, or until MLflow is found to be down."""
        try:
            store = _Store(self)
        except Exception as error:  # whatever a tracking store does, the run goes on
            return self._complain(_first_line(error))
        while True:
            event = self._events.get()
            try:
                store.send(event)
            except Exception as error:
                self._complain(_first_line(error))
                if not _refuses_value(error):
                    return None
            if event["event"] == "end":
                return None


class _Store:
    """An MLflow run that takes events."""

    def __init__(self, tracker: Tracker) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        logging.getLogger("alembic").setLevel(logging.WARNING)  # mlflow's import sets it back
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._metric, self._param = Metric, Param
        self._client = MlflowClient(tracker.uri)
        found = self._client.get_experiment_by_name(tracker.experiment)
        if found is None:
            local = tracker.uri.startswith("sqlite:")
            folder = (tracker.runs_dir / "artifacts" / tracker.experiment).as_uri() if local else None
            experiment_id = self._client.create_experiment(tracker.experiment, folder)
        else:
            experiment_id = found.experiment_id
        run = self._client.create_run(experiment_id, run_name=tracker.run_name, tags=tracker._tags)
        tracker.run_id = self._run_id = run.info.run_id

    def send(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "params":
                params = [self._param(_key(name), _text(value)) for name, value in event["values"].items()]
                for start in range(0, len(params), PARAMS_A_BATCH):
                    self._client.log_batch(self._run_id, params=params[start : start + PARAMS_A_BATCH])
            case "metrics":
                at = int(event["time"] * 1000)
                metrics = [self._metric(_key(name), v, at, event["step"]) for name, v in event["values"].items()]
                for start in range(0, len(metrics), METRICS_A_BATCH):
                    self._client.log_batch(self._run_id, metrics=metrics[start : start + METRICS_A_BATCH])
            case "artifact":
                path = Path(event["path"])
                if path.is_dir():
                    self._client.log_artifacts(self._run_id, str(path), path.name)
                else:
                    self._client.log_artifact(self._run_id, str(path))
            case "tags":
                for name, value in event["values"].items():
                    self._client.set_tag(self._run_id, _key(name), value)
            case "end":
                self._client.set_terminated(self._run_id, event["status"])


def _key(name: str) -> str:
    return _REFUSED_KEY_CHARACTERS.sub("_", name)[:KEY_CHARACTERS]


def _text(value: Scalar) -> str:
    text = str(value)
    return text if len(text) <= PARAM_CHARACTERS else text[: PARAM_CHARACTERS - 1] + "…"


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: they are written as the strings "nan", "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return value


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(".")


def _refuses_value(error: Exception) -> bool:
    """Whether the store is well and only this one event was wrong, so that the next may be sent."""
    return isinstance(error, FileNotFoundError) or getattr(error, "error_code", None) in (
        "INVALID_PARAMETER_VALUE",
        "BAD_REQUEST",
    )
