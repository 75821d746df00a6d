"""`agggen runs`: lists, compares and opens runs, and sends unsent entries to MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.options import Runs

if TYPE_CHECKING:
    from agggen_platform.tracking.runs import Run

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List and compare runs, and send unsent entries to MLflow."
)
Uri = Annotated[str | None, Option(help="The address of an MLflow. [default: that of each run]")]
_SHOWN = 3  # metrics in the list


@app.command("list")
def list_runs(runs: Runs = Path("runs")) -> None:
    """List the runs of a folder from their logs: state, last metrics, and entries that MLflow has and lacks.

    A run is CUT OFF if it was killed or its machine went down. The command that started it resumes it.
    """
    import time

    from agggen_platform.tracking.runs import find_runs

    rows = [
        (
            run.name,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began)),
            run.status,
            run.entries - run.unsent,
            run.unsent,
            run.rejected,
            _shown(run),
        )
        for run in find_runs(runs)
    ]
    if not rows:
        console.note(f"No runs in {runs}")
    console.print_table(("run", "began", "state", "sent", "unsent", "refused", "last metrics"), rows)


@app.command()
def sync(
    names: Annotated[list[str] | None, Argument(metavar="[RUN]...", help="Runs. [default: all]")] = None,
    runs: Runs = Path("runs"),
    uri: Uri = None,
    patience: Annotated[float, Option(min=0, help="Seconds to wait for an answer of MLflow.")] = 60.0,
) -> None:
    """Send unsent entries of runs to MLflow, each exactly once. Exit code 6 if entries remain unsent.

    With --uri whole runs go to another MLflow. Credentials come from --uri, from MLFLOW_TRACKING_URI if it is the run's
    address, or from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; run logs contain none.
    """
    from agggen_platform.extras import require
    from agggen_platform.tracking.runs import find_runs
    from agggen_platform.tracking.runs import sync as send

    require("mlflow")
    sent = send(find_runs(runs, names or ()), console.note, uri, patience)
    console.print_table(("run", "entries sent"), list(sent.items()))
    if not sent:
        console.note("MLflow has all entries")


@app.command()
def ui(
    runs: Runs = Path("runs"),
    uri: Uri = None,
    port: Annotated[int, Option(min=1, max=65535, help="Port of a server on this machine.")] = 5000,
) -> None:
    """Open MLflow: a server on loopback for a folder of runs, or the browser for --uri http://..."""
    import os
    import sys
    import webbrowser

    from agggen_platform.extras import require
    from agggen_platform.tracking.origin import without_credentials
    from agggen_platform.tracking.tracker import default_uri

    store = uri or default_uri(runs)
    if store.startswith(("http://", "https://")):
        console.note(f"Opening {without_credentials(store)}")
        webbrowser.open(without_credentials(store))
        return
    require("mlflow")
    console.note(f"MLflow starts at http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning")
    # One worker and no job runner: starts in 10 s with 0.5 GB of memory, instead of in 40 s with 2 GB.
    words = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    # Every user of the machine can read command lines, so the address, which may have a password, is in a variable.
    variables = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_BACKEND_STORE_URI": store}
    os.execve(sys.executable, [sys.executable, *words], os.environ | variables)


@app.command()
def compare(
    names: Annotated[
        list[str] | None, Argument(metavar="[RUN]...", help="Runs, or sweeps for all their trials. [default: all]")
    ] = None,
    runs: Runs = Path("runs"),
    port: Annotated[int, Option(min=1, max=65535, help="The port of `agggen runs ui`.")] = 5000,
) -> None:
    """Print the address of MLflow's page that compares the runs, and if all have a dev_loss, that of its curves.

    \b
        agggen runs compare sweep-1a2b3c
        agggen runs compare elements-1 elements-2
    """
    from agggen_platform.tracking.runs import compare_address, find_runs

    selected = {run.name for run in find_runs(runs, names or ())}
    chosen = [run for run in find_runs(runs) if run.name in selected or run.parent in selected]
    console.say(compare_address(chosen, port))
    parents = {run.parent for run in chosen}
    if all("dev_loss" in run.metrics for run in chosen if run.name not in parents):
        console.note(f"Curves of dev_loss: {compare_address(chosen, port, 'dev_loss')}")


def _shown(run: Run) -> str:
    """The last values of a few metrics: those on test data first, then those on development data."""
    names = [name for name in run.metrics if not name.startswith("system/")]
    names.sort(key=lambda name: 0 if "test" in name else 1 if "dev" in name else 2)
    return " ".join(f"{name}={run.metrics[name]:.4g}" for name in names[:_SHOWN])
