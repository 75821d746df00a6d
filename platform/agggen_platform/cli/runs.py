"""`agggen runs`: what the run logs hold, and carrying to MLflow what it missed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.train import Runs

if TYPE_CHECKING:
    from agggen_platform.tracking.runs import Run

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List and compare runs, and send to MLflow what it missed of them.",
)
Uri = Annotated[str | None, typer.Option(help="An MLflow's address. [default: each run's own]")]
_SHOWN = 3  # metrics in the list


@app.command("list")
def list_runs(runs: Runs = Path("runs")) -> None:
    """List the runs of a folder from their logs: state, last metrics, and how much of each MLflow has.

    CUT OFF is a run that ended without saying so: killed, or its machine went down. The same command that began it
    continues it.
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
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs. [default: all]")] = None,
    runs: Runs = Path("runs"),
    uri: Uri = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for MLflow to answer.")] = 60.0,
) -> None:
    """Send to MLflow what it missed of runs, each entry once. Exit code 6 where something stays unsent.

    With --uri the runs go to another MLflow, whole. Credentials are taken from it, from MLFLOW_TRACKING_URI where that
    is the run's own, or from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; run logs hold none.
    """
    from agggen_platform.extras import require
    from agggen_platform.tracking.runs import find_runs
    from agggen_platform.tracking.runs import sync as send

    require("mlflow")
    sent = send(list(find_runs(runs, names or ())), console.note, uri, patience)
    console.print_table(("run", "entries sent"), list(sent.items()))
    if not sent:
        console.note("MLflow has all of them already")


@app.command()
def ui(
    runs: Runs = Path("runs"),
    uri: Uri = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of a server on this machine.")] = 5000,
) -> None:
    """Open MLflow's pages: a server on loopback for the runs of a folder, or the browser for --uri http://..."""
    import os

    from agggen_platform.extras import require
    from agggen_platform.tracking.tracker import default_uri, ui_program

    store = uri or default_uri(runs)
    if not store.startswith(("http://", "https://")):
        require("mlflow")
    words, variables = ui_program(store, port)
    pages = f"http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning"
    console.note(f"Opening {words[-1]}" if len(words) == 4 else f"In some seconds MLflow's pages are at {pages}")
    os.execve(words[0], words, {**os.environ, **variables})


@app.command()
def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Runs, or sweeps, for their trials. [default: all]"),
    ] = None,
    runs: Runs = Path("runs"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where `agggen runs ui` serves a folder's runs.")] = 5000,
) -> None:
    """Print the address at which MLflow's pages compare runs, and that of their curves if all were trained.

    \b
        agggen runs compare sweep-1a2b3c
        agggen runs compare elements-1 elements-2
    """
    from agggen_platform.tracking.runs import compare_address, find_runs

    every = list(find_runs(runs))
    asked = {run.name for run in find_runs(runs, names or ())}
    chosen = [run for run in every if run.name in asked or run.parent in asked]
    console.say(compare_address(chosen, port))
    parents = {run.parent for run in chosen}
    if all("dev_loss" in run.metrics for run in chosen if run.name not in parents):
        console.note(f"Curves of dev_loss: {compare_address(chosen, port, 'dev_loss')}")


def _shown(run: Run) -> str:
    """The last values of a few metrics: those of a test before those of development, before others."""
    kinds = ("test", "dev", "")

    def rank(name: str) -> int:
        return next(number for number, kind in enumerate(kinds) if kind in name)

    names = sorted((name for name in run.metrics if not name.startswith("system/")), key=rank)
    return " ".join(f"{name}={run.metrics[name]:.4g}" for name in names[:_SHOWN])
