"""`agggen runs`: lists, compares and opens runs, and sends unsent entries to MLflow."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.options import Runs
from agggen_platform.extras import require

if TYPE_CHECKING:
    from agggen_platform.tracking.runs import Run

app = typer.Typer(name="runs", no_args_is_help=True, help="List and compare runs, and send unsent entries to MLflow.")
Uri = Annotated[str | None, Option(help="MLflow's address. [default: the address in each run's log]")]


@app.command("list")
def list_runs(runs: Runs = Path("runs")) -> None:
    """List the runs of a folder: state, last metrics, and numbers of sent, unsent and refused log entries.

    CUT OFF means that the process was killed, or that its machine went down. The command that started a run resumes it.
    """
    from agggen_platform.tracking.runs import find_runs

    rows = []
    for run in find_runs(runs):
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.start_time))
        entries = (run.entries - run.unsent, run.unsent, run.rejected)
        rows.append((run.name, started, run.status, *entries, _last_metrics(run)))
    if not rows:
        console.note(f"No runs in {runs}")
    console.print_table(("run", "started", "state", "sent", "unsent", "refused", "last metrics"), rows)


@app.command()
def sync(
    names: Annotated[list[str] | None, Argument(metavar="[RUN]...", help="Runs. [default: all]")] = None,
    runs: Runs = Path("runs"),
    uri: Uri = None,
    patience: Annotated[float, Option(min=0, help="Timeout in seconds for each run.")] = 60.0,
) -> None:
    """Send unsent entries of runs to MLflow, each exactly once. The exit code is 6 if entries remain unsent.

    To copy whole runs to another MLflow, give its --uri. Credentials are read from --uri, from MLFLOW_TRACKING_URI if
    it is the run's address, or from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; run logs contain none.
    """
    from agggen_platform.tracking.runs import find_runs
    from agggen_platform.tracking.runs import sync as send_entries

    require("mlflow")
    sent_counts = send_entries(find_runs(runs, names or ()), console.note, uri, patience)
    console.print_table(("run", "entries sent"), list(sent_counts.items()))
    if not sent_counts:
        console.note("MLflow has all entries")


@app.command()
def ui(
    runs: Runs = Path("runs"),
    uri: Uri = None,
    port: Annotated[int, Option(min=1, max=65535, help="Port of a server on this machine.")] = 5000,
) -> None:
    """Start a local MLflow server for a folder of runs, or open the browser for --uri http://..."""
    from agggen_platform.tracking.origin import without_credentials
    from agggen_platform.tracking.tracker import default_uri

    backend = uri or default_uri(runs)
    if backend.startswith(("http://", "https://")):
        console.note(f"Opening {without_credentials(backend)}")
        webbrowser.open(without_credentials(backend))
        return
    require("mlflow")
    console.note(f"MLflow starts at http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning")
    # One worker and no job runner: the start takes 10 s and 0.5 GB of memory instead of 40 s and 2 GB.
    arguments = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    # The address may contain a password, and every user can read command lines; so it is passed in a variable.
    variables = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_BACKEND_STORE_URI": backend}
    os.execve(sys.executable, [sys.executable, *arguments], os.environ | variables)


@app.command()
def compare(
    names: Annotated[
        list[str] | None, Argument(metavar="[RUN]...", help="Runs, or sweeps (all their trials). [default: all]")
    ] = None,
    runs: Runs = Path("runs"),
    port: Annotated[int, Option(min=1, max=65535, help="The port of `agggen runs ui`.")] = 5000,
) -> None:
    """Print the address of MLflow's page that compares the runs, and of the curves of dev_loss, if all runs have it.

    \b
        agggen runs compare sweep-1a2b3c
        agggen runs compare elements-1 elements-2
    """
    from agggen_platform.tracking.runs import compare_address, find_runs

    selected_names = {run.name for run in find_runs(runs, names or ())}
    selected_runs = [run for run in find_runs(runs) if run.name in selected_names or run.parent in selected_names]
    console.echo(compare_address(selected_runs, port))
    parents = {run.parent for run in selected_runs}
    if all("dev_loss" in run.metrics for run in selected_runs if run.name not in parents):
        console.note(f"Curves of dev_loss: {compare_address(selected_runs, port, 'dev_loss')}")


def _last_metrics(run: Run) -> str:
    """The last values of three metrics: first of those on test data, then of those on development data."""
    names = [name for name in run.metrics if not name.startswith("system/")]
    names.sort(key=lambda name: 0 if "test" in name else 1 if "dev" in name else 2)
    return " ".join(f"{name}={run.metrics[name]:.4g}" for name in names[:3])
