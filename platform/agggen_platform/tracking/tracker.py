"""The log of a run: each call appends a line to ``RUNS_DIR/RUN_NAME/tracking.jsonl``; a thread sends lines to MLflow.

    with Tracker(run_name="elements-1", runs_dir="runs") as tracker:
        tracker.log_params(flatten(config))
        tracker.log_metrics({"dev/bleu": 41.2}, step=300)
        tracker.log_artifact(bundle_folder)
    print(tracker.ui_command())

The same name in the same folder continues the same run. Models are logged as plain files: to load a model of an MLflow
flavour, MLflow would unpickle it.
"""

import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from agggen.config import Scalar
from agggen.errors import ConfigError, StoppedEarlyError, StoppedError
from agggen.records import Plan, Record
from agggen_platform.extras import is_installed
from agggen_platform.tracking import journal
from agggen_platform.tracking.journal import Journal
from agggen_platform.tracking.origin import masked, masked_value, origin, without_credentials
from agggen_platform.tracking.sender import Sender
from agggen_platform.tracking.store import reason

_TEXTS_FILE = "texts.json"
_RUN_NAME = re.compile(r"\w[\w.\-]*")


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr)


def default_uri(runs_dir: Path) -> str:
    """MLflow's default address: ``MLFLOW_TRACKING_URI``, else the SQLite file in `runs_dir`."""
    return os.environ.get("MLFLOW_TRACKING_URI") or sqlite_uri(runs_dir)


def sqlite_uri(runs_dir: Path) -> str:
    return f"sqlite:///{runs_dir.resolve() / 'mlflow.db'}"


class Tracker:
    """One run; a context manager. Its methods for logging do not wait for MLflow and never raise."""

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
        """Nothing is written before the ``with`` block.

        `uri`: MLflow's address, by default `default_uri`. `report` is called with a line about each problem, from any
        thread. `patience`: seconds to wait for MLflow at the end of the block. `parent`: the name of the parent run in
        `runs_dir`. `system_seconds`: seconds between two system metrics; 0: none are logged.
        """
        for name in (run_name, parent):
            if name is not None and not _RUN_NAME.fullmatch(name):
                raise ConfigError(f"the run name {name!r} must be letters, digits, '_', '-' and '.', as in webnlg-1")
        self.runs_dir = Path(runs_dir).resolve()
        self.uri = uri or default_uri(self.runs_dir)
        self.experiment, self.run_name, self.parent = experiment, run_name, parent
        self._tags = dict(tags or {})
        self._report, self._patience = report, patience
        self._has_warned = False
        self._journal = Journal(self.path)
        self._sender: Sender | None = None
        self._has_mlflow = is_installed("mlflow")
        self._system = SystemMetrics(system_seconds if self._has_mlflow else 0.0, self.log_system)
        self._start_time = time.time()

    @property
    def path(self) -> Path:
        """The JSONL file, one event per line: start, params, metrics, tags, dataset, model, artifact, end."""
        return self.runs_dir / self.run_name / journal.FILE_NAME

    @property
    def run_id(self) -> str | None:
        """MLflow's id of this run; None until MLflow has answered."""
        return self._sender.cursor.run_id if self._sender else None

    def __enter__(self) -> Self:
        start = {"experiment": self.experiment, "run": self.run_name, "mlflow": without_credentials(self.uri)}
        parent = {"parent": self.parent} if self.parent else {}
        if not self._has_mlflow and not self.path.exists():
            self._report(
                f"MLflow is not installed, so {self.path} is the only log of this run; to send it to MLflow: pip "
                f"install 'agggen[ray]' && agggen runs sync {self.run_name} --runs {shlex.quote(str(self.runs_dir))}"
            )
        if self._record("start", start | parent | {"tags": _masked(origin() | self._tags)}) and self._has_mlflow:
            times = (entry.event["time"] for entry in journal.entries(self.path) if entry.event)
            self._start_time = next(times, self._start_time)
            self._sender = Sender(self.path.parent, self.uri, self.experiment, self.parent, self._report)
            self._sender.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._system.stop()
        status, ended = _final_status(error)
        self._record("end", {"status": status, "ended": masked(ended)})
        self._journal.close()
        if self._sender and (unsent := self._sender.close(self._patience)):
            timeout = f"it did not answer within {self._patience:g} s"
            cause = "another process is sending this run" if self._sender.is_busy else self._sender.failure or timeout
            self._report(
                f"warning: {unsent} entries of run {self.run_name} are not in MLflow "
                f"({without_credentials(self.uri)}) yet: {cause}. All are in {self.path}; to send them: "
                f"agggen runs sync {self.run_name} --runs {shlex.quote(str(self.runs_dir))}"
            )

    def log_params(self, params: Mapping[str, Scalar]) -> None:
        self._record("params", {"values": _masked(params)})

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        values = {}
        for name, value in metrics.items():
            try:
                values[name] = float(value)
            except (TypeError, ValueError, OverflowError):
                self._warn(f"the metric {name} is not a number: {value!r:.80}")
        self._record("metrics", {"step": int(step), "values": values})
        self._system.start()  # not before, because MLflow's pages compare runs by the first logged metric

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self._record("tags", {"values": _masked(tags)})

    def log_dataset(self, name: str, split: str, fingerprint: str, source: str) -> None:
        """Logs that the run uses `split` of the corpus `name`, read from the folder or URL `source`."""
        self._record("dataset", {"name": name, "split": split, "fingerprint": fingerprint, "source": masked(source)})

    def log_model(
        self,
        name: str,
        fingerprint: str,
        params: Mapping[str, Scalar],
        metrics: Mapping[str, float],
        dataset: str,
        digest: str,
    ) -> None:
        """Logs a bundle's metrics on the dataset with the fingerprint `digest`, as a LoggedModel without weights.

        MLflow uses `name` and `params` only if it has no model with the bundle's `fingerprint` yet.
        """
        fields = {"name": name, "fingerprint": fingerprint, "params": _masked(params), "metrics": dict(metrics)}
        self._record("model", fields | {"dataset": dataset, "digest": digest})

    def log_artifact(self, path: Path | str) -> None:
        """Logs a file or a folder: the run log contains the path, and MLflow a copy."""
        self._record("artifact", {"path": str(Path(path).resolve()), "folder": ""})

    def log_text(self, text: str, name: str) -> None:
        """Writes `text` to the file `name`, a relative path in the run's folder, and logs this file."""
        path = self.path.parent / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except (OSError, UnicodeError) as error:  # the run continues without this text
            self._warn(f"cannot write {path}: {getattr(error, 'strerror', error)}")
        else:
            self._record("artifact", {"path": name, "folder": name.rpartition("/")[0]})

    def log_texts(self, texts: Iterable[tuple[Record, Plan | None, str]]) -> None:
        """Logs records with their plans and texts as a table, in which MLflow's pages compare several runs."""
        rows = [
            [record.id, text, str(plan or ""), record.references[0].text, "\n".join(map(str, record.triples))]
            for record, plan, text in texts
        ]
        # By default, MLflow's page groups by the first column and compares the second.
        table = {"columns": ["id", "text", "plan", "reference", "triples"], "data": rows}
        self.log_text(json.dumps(table, ensure_ascii=False), _TEXTS_FILE)
        self.set_tags({"mlflow.loggedArtifacts": json.dumps([{"path": _TEXTS_FILE, "type": "table"}])})

    def ui_command(self) -> str:
        """MLflow's address without credentials, or a command that starts a local one; empty if it is not installed."""
        if not self._has_mlflow:
            return ""
        uri = without_credentials(self.uri)
        if uri.startswith(("http://", "https://")):
            return uri
        options = ("--runs", str(self.runs_dir)) if self.uri == sqlite_uri(self.runs_dir) else ("--uri", uri)
        return shlex.join(["agggen", "runs", "ui", *options])

    def log_system(self, metrics: Mapping[str, float]) -> None:
        """Logs system metrics; their step is the time since the first start of the run, in seconds."""
        self.log_metrics(metrics, step=round(time.time() - self._start_time))

    def _record(self, kind: str, fields: Mapping[str, Any]) -> bool:
        try:
            self._journal.append({"event": kind, **fields, "time": round(time.time(), 3)})
        except OSError as error:
            self._warn(f"cannot write {self.path}: {error.strerror}")
            return False
        return True

    def _warn(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._report(masked(f"warning: the run log is incomplete: {problem}. The run continues; see {self.path}"))


def _final_status(error: BaseException | None) -> tuple[str, str]:
    """The status in MLflow of a run that ended by `error`, and why it ended."""
    match error:
        case None:
            return "FINISHED", "finished"
        case StoppedEarlyError():
            return "FINISHED", f"early stopping: {error}"
        case KeyboardInterrupt() | StoppedError():
            return "KILLED", f"stopped: {reason(error)}"
    return "FAILED", f"{type(error).__name__}: {reason(error)}"


def _masked(values: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): masked_value(str(name), value) for name, value in values.items()}


class SystemMetrics:
    """Logs CPU, memory and GPU use as ``system/...`` every `seconds` on a thread; never if `seconds` is 0.

    MLflow's own thread would lose values while its server is down.
    """

    def __init__(self, seconds: float, log: Callable[[Mapping[str, float]], None]) -> None:
        self._seconds, self._log = seconds, log
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system metrics", daemon=True)

    def start(self) -> None:
        """Starts the thread; further calls do nothing."""
        if self._seconds and self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
            from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
        except ImportError:  # no MLflow
            return
        monitors: list[Any] = [CPUMonitor()]
        with suppress(ImportError, RuntimeError):  # no nvidia-ml-py, or no GPU
            monitors.append(GPUMonitor())
        while not self._stop.wait(self._seconds):
            values: dict[str, float] = {}
            for monitor in monitors:
                monitor.collect_metrics()
                values |= monitor.aggregate_metrics()
                monitor.clear_metrics()
            self._log({f"system/{name}": value for name, value in values.items()})
