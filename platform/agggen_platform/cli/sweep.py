"""`agggen sweep`: searches for the best settings by many trainings."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from agggen_platform.cli import console
from agggen_platform.cli.options import Overrides, Runs, warn_if_temporary

if TYPE_CHECKING:
    from agggen_platform.sweep.job import Progress, SweepReport

_TERMINATED_STATUS = 143


def sweep(
    preset: Annotated[str, Argument(metavar="PRESET", help="A preset's name, or the path of a YAML file.")],
    overrides: Overrides = None,
    space: Annotated[
        str, Option(metavar="SPACE", help="A space's name (predicate-sizes, rates), or a YAML file.")
    ] = "predicate-sizes",
    runs: Runs = Path("runs"),
    name: Annotated[str | None, Option(help="The sweep's name. [default: sweep-HASH]")] = None,
    trials: Annotated[int | None, Option(help="Total number of trials. [default: the space's]")] = None,
    concurrent: Annotated[int | None, Option(help="Concurrent trials; 0: all that fit. [default: the space's]")] = None,
    model: Annotated[str, Option(help="Register the best bundle as a version of this model.")] = "agggen",
    no_register: Annotated[bool, Option("--no-register", help="Do not register the best bundle.")] = False,
) -> None:
    """Search the best settings by many trainings (trials).

    Weak trials are stopped early, and the best bundle is registered with the alias candidate. The same command resumes
    an interrupted sweep, and its running trials from their checkpoints; with a larger --trials it extends a finished
    sweep.

    \b
        agggen sweep elements --space predicate-sizes
        agggen sweep webnlg-quick corpus.limit=2000 --space my-space.yaml --trials 40 --concurrent 4
    """
    from agggen.config import load_config
    from agggen_platform.job_config import JobConfig
    from agggen_platform.sweep.config import SPACES, SweepConfig
    from agggen_platform.sweep.job import Terminated
    from agggen_platform.sweep.job import sweep as run_sweep

    options = {"trials": trials, "concurrent": concurrent}
    space_overrides = [f"{key}={value}" for key, value in options.items() if value is not None]
    settings = load_config(SweepConfig, space, space_overrides, SPACES)
    config = load_config(JobConfig, preset, overrides or ())
    warn_if_temporary(runs, "--runs")
    try:
        report = run_sweep(
            config,
            settings,
            name,
            runs_dir=runs,
            overrides=overrides or (),
            model=None if no_register else model,
            show=_note_trial,
            on_name=lambda sweep_name: console.note(f"Sweep {sweep_name}"),
        )
    except KeyboardInterrupt as interrupt:
        console.note("Interrupted; the same command resumes with the remaining trials")
        if isinstance(interrupt, Terminated):
            sys.exit(_TERMINATED_STATUS)
        raise
    console.print_table(report.columns, report.rows)
    if report.trials_run:
        console.note(f"{report.trials_run} trials in {report.seconds / 60:.1f} minutes")
    else:
        console.note("This sweep is finished; a larger --trials extends it")
    console.note(f"Compare trials: {report.ui_command}")
    console.echo(report.bundle)
    if report.version or report.refusal:
        _note_registered(report, model)


def _note_registered(report: SweepReport, model: str) -> None:
    """Prints the version of the best bundle; if it was not registered, raises the registry's error."""
    from agggen_platform.registry.address import CANDIDATE
    from agggen_platform.registry.client import registry_uri
    from agggen_platform.tracking.origin import masked

    registry_option = "" if report.registry == registry_uri() else f" --registry {shlex.quote(masked(report.registry))}"
    trial = f"Trial {report.best.number}"
    if report.refusal:
        command = f"agggen models register {shlex.quote(report.bundle)} --name {model}{registry_option}"
        console.note(f"{trial} is not registered; to retry: {command} (--to s3://... first copies it to a store)")
        raise report.refusal
    assert report.version is not None
    state = "registered as" if report.version.new else "already"
    alias = ", alias candidate" if CANDIDATE in report.version.aliases else ""
    command = f"agggen models show {report.version}{registry_option}"
    console.note(f"{trial} is {state} {report.version}{alias}; see: {command}")


def _note_trial(progress: Progress) -> None:
    trial, best = progress.trial, progress.best
    if reason := trial.user_attrs.get("reason"):
        result = f"failed: {reason}"
    elif trial.state.name == "PRUNED":
        result = f"stopped after {max(trial.intermediate_values, default=0)} epochs"
    else:
        result = f"{trial.value:.4f}"
    best_note = f"  (best {best.value:.4f}, trial {best.number})" if best else ""
    console.note(f"{progress.ended} of {progress.total}  trial {trial.number}: {result}{best_note}")
