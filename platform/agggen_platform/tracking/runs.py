"""The runs of a folder: reads their logs, and sends missing entries to MLflow."""

from __future__ import annotations

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
from agggen_platform.tracking import cursor, journal
from agggen_platform.tracking.journal import numbers
from agggen_platform.tracking.origin import without_credentials
from agggen_platform.tracking.sender import Sender
from agggen_platform.tracking.store import reason


class UnsentError(AggGenError):
    exit_code = 6


@dataclass
class Run:
    """A run, as its log describes it."""

    folder: Path
    experiment: str = "agggen"
    uri: str = ""  # address of its MLflow, without credentials
    parent: str | None = None
    began: float = 0.0  # seconds since 1970
    status: str = "RUNNING"  # or FINISHED, FAILED, KILLED; CUT OFF if the process died without logging the end
    entries: int = 0
    unsent: int = 0
    rejected: int = 0
    metrics: dict[str, float] = field(default_factory=dict)  # the last value of each
    run_id: str | None = None
    size: int = 0  # bytes of the log

    @property
    def name(self) -> str:
        return self.folder.name


def _read_run(folder: Path) -> Run:
    run = Run(folder, size=(folder / journal.NAME).stat().st_size)
    for event, _ in journal.entries(folder / journal.NAME):
        run.entries += 1
        if event is None:
            continue
        run.began = run.began or event["time"]
        match event["event"]:
            case "start":
                run.experiment, run.uri, run.parent = event["experiment"], event["mlflow"], event.get("parent")
                run.status = "RUNNING"
            case "metrics":
                run.metrics |= numbers(event)
            case "end":
                run.status = event["status"]
    if run.status == "RUNNING" and not cursor.is_held(folder):
        run.status = "CUT OFF"
    sent = cursor.load(folder, without_credentials(run.uri), run.experiment)
    run.unsent, run.rejected, run.run_id = sent.unsent(folder, None), sent.rejected, sent.run_id
    return run


def find_runs(runs_dir: Path, names: Sequence[str] = ()) -> list[Run]:
    """The runs of these names, by default all, in the order in which they began; ConfigError for an unknown name."""
    logs = {log.parent.name: log.parent for log in runs_dir.glob(f"*/{journal.NAME}")}
    if unknown := [name for name in names if name not in logs]:
        near = get_close_matches(unknown[0], logs, 1)
        advice = f"did you mean {near[0]}?" if near else "`agggen runs list` shows all"  # sweeps have hundreds
        raise ConfigError(f"there is no run {unknown[0]!r} in {runs_dir}; {advice}")
    selected = [_read_run(folder) for name, folder in logs.items() if not names or name in names]
    return sorted(selected, key=lambda run: (run.began, run.name))


def sync(
    runs: Sequence[Run], report: Callable[[str], None], uri: str | None = None, patience: float = 60.0
) -> dict[str, int]:
    """Sends missing entries to MLflow, by default the one in each run's log; returns the number sent for each run.

    Raises UnsentError if MLflow did not take all entries of a run within `patience` seconds.
    """
    sent: dict[str, int] = {}
    unsent: dict[str, str] = {}
    unreachable: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: run.parent is not None):  # a child needs its parent's id
        to = uri or _with_credentials(run.uri)
        if not to or to in unreachable:
            unsent[run.name] = unreachable.get(to, "its log does not name an MLflow; give --uri")
            continue
        cut_off = run.size if run.status == "CUT OFF" else None
        sender = Sender(run.folder, to, run.experiment, run.parent, report, cut_off=cut_off)
        before = sender.unsent()
        if before == 0 and cut_off is None:
            continue
        sender.start()
        remaining = sender.close(patience)
        sent[run.name] = before - remaining
        if remaining:
            cause = "another process is sending it" if sender.busy else sender.failure or "it did not answer"
            unsent[run.name] = f"{remaining} entries: {cause}"
            if sender.failure and not sender.answered:
                unreachable[to] = cause  # further runs with this MLflow are skipped
    if unsent:
        which = "; ".join(f"{name} ({cause})" for name, cause in unsent.items())
        raise UnsentError(f"MLflow misses parts of {len(unsent)} of {len(runs)} runs: {which}")
    return sent


def compare_address(runs: Sequence[Run], port: int = 5000, metric: str | None = None) -> str:
    """The address of the page that compares the runs, on their MLflow server or, for a database, `agggen runs ui`.

    The page shows the curves of `metric`, or by default parameters, metrics and tags side by side. The run of a sweep
    is left out, because it has no parameters or metrics in common with its trials.

    Raises:
        ConfigError: fewer than two runs, runs of several servers or experiments, a run that MLflow does not have, or an
            MLflow that does not answer.
    """
    parents = {run.parent for run in runs}
    compared = [run for run in runs if run.name not in parents]
    if len(compared) < 2:
        raise ConfigError(f"a comparison needs at least two runs, not {len(compared)}")
    stores = sorted({f"{run.uri} experiment {run.experiment}" for run in compared})
    if len(stores) > 1:
        raise ConfigError(
            f"MLflow compares runs of one experiment; these are in {' and '.join(stores)}: choose some of them"
        )
    if unknown := [run.name for run in compared if run.run_id is None]:
        raise ConfigError(f"MLflow does not have {', '.join(unknown)} yet: agggen runs sync sends them")
    uri = compared[0].uri
    client = mlflow_client(_with_credentials(uri))
    from mlflow.exceptions import MlflowException

    try:
        experiment = client.get_experiment_by_name(compared[0].experiment)
    except MlflowException as error:
        raise ConfigError(f"MLflow ({uri}) does not name the experiment of these runs: {reason(error)}") from error
    if experiment is None:
        raise ConfigError(f"MLflow ({uri}) has no experiment {compared[0].experiment!r} any more")
    server = uri if uri.startswith(("http://", "https://")) else f"http://127.0.0.1:{port}"
    # MLflow's pages only work if the runs are the first parameter.
    query: dict[str, Any] = {"runs": [run.run_id for run in compared], "experiments": [experiment.experiment_id]}
    if metric:
        query |= {"metric": metric, "plot_metric_keys": [metric], "plot_layout": {}, "show_point": True}
    encoded = "&".join(f"{name}={quote(json.dumps(ids, separators=(',', ':')))}" for name, ids in query.items())
    page = "metric" if metric else "compare-runs"
    return f"{server.rstrip('/')}/#/{page}?{encoded}&x_axis=step&workflowType=machine_learning"


def _with_credentials(uri: str) -> str:
    """``MLFLOW_TRACKING_URI``, if it is `uri` (an address in a run log) with credentials; else `uri`."""
    configured = os.environ.get("MLFLOW_TRACKING_URI", "")
    return configured if without_credentials(configured) == uri else uri
