"""`agggen train`: a preset and overrides in, a bundle out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console

Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs and the run log live.")]


def train(
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="A preset's name, or the path of a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, say model.width=128")
    ] = None,
    runs: Runs = Path("runs"),
    name: Annotated[str | None, typer.Option(help="The run's name. [default: the preset's]")] = None,
    print_config: Annotated[bool, typer.Option(help="Print the resolved configuration and stop.")] = False,
    fresh: Annotated[bool, typer.Option(help="Start over where an earlier run of this configuration lies.")] = False,
) -> None:
    """Train the plain Transformer, then the joint model, and write a bundle.

    The run's folder follows from its name and configuration: the same command continues a run that was cut off, and
    finds a finished one. A key that does not exist is refused, with the nearest that does.

    \b
        agggen train elements
        agggen train webnlg-quick training.seed=2 model.predicate_dim=64
    """
    import json
    import shutil

    from agggen.run import RunConfig
    from agggen_platform.cli.progress import training_progress
    from agggen_platform.config import load_config, resolved
    from agggen_platform.local import finished, run_folder, train_here
    from agggen_platform.tracking import Tracker

    config = load_config(RunConfig, preset, overrides or ())
    if print_config:
        console.say(json.dumps(resolved(config), indent=2))
        return
    folder = run_folder(config, name or Path(preset).stem, runs)
    if fresh and folder.exists():
        shutil.rmtree(folder)
    console.note(f"Run {folder.name}")
    done = finished(folder)
    if done:
        console.note("This run is finished already; --fresh trains it anew")
    else:
        with Tracker(run_name=folder.name, runs_dir=runs) as tracker, training_progress() as show:
            done = train_here(config, folder, tracker, show)
        console.note(f"Trained in {done.seconds / 60:.1f} minutes; compare runs with: {tracker.ui_command()}")
    console.say(str(done.path))
