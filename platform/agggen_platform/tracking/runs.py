"""The runs of a folder: reads their logs, and sends unsent entries to MLflow."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agggen.errors import AggGenError, ConfigError
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.tracking import journal
from agggen_platform.tracking.journal import Cursor, metric_values
from agggen_platform.tracking.origin import without_credentials
from agggen_platform.tracking.sender import Sender
from agggen_platform.tracking.store import reason


class UnsentError(AggGenError):
    """MLflow did not accept all entries of the run logs in time."""

    exit_code = 6


@dataclass
class Run:
    folder: Path
    experiment: str = "agggen"
    uri: str = ""  # MLflow's address without credentials
    parent: str | None = None
    start_time: float = 0.0  # seconds since 1970
    status: str = "RUNNING"  # or FINISHED, FAILED, KILLED; CUT OFF: the process died before it could log its end
    entries: int = 0
    unsent: int = 0
    rejected: int = 0
    metrics: dict[str, float] = field(default_factory=dict)  # last value by name
    run_id: str | None = None
    size: int = 0  # bytes of the log

    @property
    def name(self) -> str:
        return self.folder.name


def _read_run(folder: Path) -> Run:
    run = Run(folder, size=(folder / journal.FILE_NAME).stat().st_size)
    for event, _ in journal.entries(folder / journal.FILE_NAME):
        run.entries += 1
        if event is None:
            continue
        run.start_time = run.start_time or event["time"]
        match event["event"]:
            case "start":
                run.experiment, run.uri, run.parent = event["experiment"], event["mlflow"], event.get("parent")
                run.status = "RUNNING"
            case "metrics":
                run.metrics |= metric_values(event)
            case "end":
                run.status = event["status"]
    if run.status == "RUNNING" and not journal.is_locked(folder):
        run.status = "CUT OFF"
    cursor = Cursor.load(folder, without_credentials(run.uri), run.experiment)
    run.unsent, run.rejected, run.run_id = cursor.unsent(folder, None), cursor.rejected, cursor.run_id
    return run


def find_runs(runs_dir: Path, names: Sequence[str] = ()) -> list[Run]:
    """The runs called `names` (default: all), sorted by start time; raises ConfigError for an unknown name."""
    logs = {log.parent.name: log.parent for log in runs_dir.glob(f"*/{journal.FILE_NAME}")}
    if unknown := [name for name in names if name not in logs]:
        advice = "`agggen runs list` shows all"  # there may be hundreds of runs
        if similar_names := get_close_matches(unknown[0], logs, 1):
            advice = f"did you mean {similar_names[0]}?"
        raise ConfigError(f"no run {unknown[0]!r} in {runs_dir}; {advice}")
    selected_runs = [_read_run(folder) for name, folder in logs.items() if not names or name in names]
    return sorted(selected_runs, key=lambda run: (run.start_time, run.name))


def sync(
    runs: Sequence[Run], report: Callable[[str], None], uri: str | None = None, patience: float = 60.0
) -> dict[str, int]:
    """Sends unsent entries to MLflow at `uri` (default: the address in each run's log); returns their number by run.

    Raises UnsentError if MLflow did not accept all entries of a run within `patience` seconds.
    """
    n_sent: dict[str, int] = {}
    unsent_causes: dict[str, str] = {}  # by run
    unreachable: dict[str, str] = {}  # by address of MLflow
    for run in sorted(runs, key=lambda run: run.parent is not None):  # a child needs its parent's id
        destination = uri or _with_credentials(run.uri)
        if not destination or destination in unreachable:
            unsent_causes[run.name] = unreachable.get(destination, "its log has no address of MLflow; give --uri")
            continue
        killed_size = run.size if run.status == "CUT OFF" else None
        sender = Sender(run.folder, destination, run.experiment, run.parent, report, killed_size=killed_size)
        n_unsent = sender.unsent()
        if n_unsent == 0 and killed_size is None:
            continue
        sender.start()
        remaining = sender.close(patience)
        n_sent[run.name] = n_unsent - remaining
        if remaining:
            cause = "another process is sending it" if sender.is_busy else sender.failure or "it did not answer"
            unsent_causes[run.name] = f"{remaining} entries: {cause}"
            if sender.failure and not sender.has_answered:
                unreachable[destination] = cause  # the following runs do not wait for this server again
    if unsent_causes:
        details = "; ".join(f"{name} ({cause})" for name, cause in unsent_causes.items())
        raise UnsentError(f"MLflow lacks entries of {len(unsent_causes)} of {len(runs)} runs: {details}")
    return n_sent


def compare_address(runs: Sequence[Run], port: int = 5000, metric: str | None = None) -> str:
    """The address of MLflow's page that compares the runs; for a database, on the server of `agggen runs ui` at `port`.

    The page shows the curves of `metric`, or by default parameters, metrics and tags side by side. Runs of sweeps are
    left out: they share no parameters or metrics with their trials. Raises ConfigError if MLflow has no such page.
    """
    parents = {run.parent for run in runs}
    compared = [run for run in runs if run.name not in parents]
    if len(compared) < 2:
        raise ConfigError(f"a comparison needs at least two runs, not {len(compared)}")
    experiments = sorted({f"{run.uri} experiment {run.experiment}" for run in compared})
    if len(experiments) > 1:
        raise ConfigError(
            f"MLflow compares runs of one experiment; these are of several ({', '.join(experiments)}): name runs of one"
        )
    if unknown := [run.name for run in compared if run.run_id is None]:
        raise ConfigError(f"MLflow does not have {', '.join(unknown)} yet; to send them: agggen runs sync")
    uri = compared[0].uri
    client = mlflow_client(_with_credentials(uri))
    from mlflow.exceptions import MlflowException

    try:
        experiment = client.get_experiment_by_name(compared[0].experiment)
    except MlflowException as error:
        raise ConfigError(f"MLflow ({uri}) did not return the experiment of these runs: {reason(error)}") from error
    if experiment is None:
        raise ConfigError(f"MLflow ({uri}) has no experiment {compared[0].experiment!r} any more")
    server = uri if uri.startswith(("http://", "https://")) else f"http://127.0.0.1:{port}"
    # MLflow's page requires that `runs` is the first query parameter.
    query: dict[str, Any] = {"runs": [run.run_id for run in compared], "experiments": [experiment.experiment_id]}
    if metric:
        query |= {"metric": metric, "plot_metric_keys": [metric], "plot_layout": {}, "show_point": True}
    encoded = "&".join(f"{name}={quote(json.dumps(value, separators=(',', ':')))}" for name, value in query.items())
    page = "metric" if metric else "compare-runs"
    return f"{server.rstrip('/')}/#/{page}?{encoded}&x_axis=step&workflowType=machine_learning"


def _with_credentials(uri: str) -> str:
    """``MLFLOW_TRACKING_URI`` if it is `uri` with credentials (run logs contain none); else `uri`."""
    configured = os.environ.get("MLFLOW_TRACKING_URI", "")
    return configured if without_credentials(configured) == uri else uri
