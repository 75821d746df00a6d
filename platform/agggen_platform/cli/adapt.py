"""`agggen adapt`: continues training of a bundle on new data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console, own_data
from agggen_platform.cli.options import Fresh, Overrides, Runs
from agggen_platform.cli.train import carry_out


@own_data.with_columns()
def adapt(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="A folder, s3://bucket/prefix, or models:/NAME@ALIAS.")
    ],
    source: Annotated[str, typer.Argument(metavar="DATA", help="A file, a folder, or a corpus of the catalogue.")],
    overrides: Overrides = None,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="CORPUS",
            help="The corpus of replayed texts. [default: the one BUNDLE was trained on, if it is on this machine]",
        ),
    ] = None,
    runs: Runs = Path("runs"),
    name: Annotated[str | None, typer.Option(help="The run's name. [default: adapt-DATA-HASH]")] = None,
    fresh: Fresh = False,
    columns: own_data.Chosen = own_data.NONE,
    division_seed: own_data.DivisionSeed = 1,
) -> None:
    """Continue training a model on new data and write a new bundle; BUNDLE is not changed.

    New words and predicates are added to the model; its sizes and inference settings stay. Texts of the old corpus are
    replayed, so that the model forgets less: as many as new texts, at least 100; training.replay=0.2 makes them a fifth
    of all texts, 0 turns replay off. The same command resumes an interrupted run.

    \b
        agggen adapt runs/elements-1f2e/bundle films.csv
        agggen adapt models:/agggen@champion films.csv --text plot --replay webnlg
        agggen adapt runs/elements-1f2e/bundle films training.joint.epochs=12
    """
    from agggen.datasets import load_dataset
    from agggen.training.adaptation import adaptation
    from agggen_platform.job_config import JobConfig

    data = load_dataset(source, seed=division_seed, **columns)
    config, records = adaptation(JobConfig, bundle, data, replay, overrides or (), say=console.note)
    carry_out(config, records, f"adapt-{Path(source).stem}", name, runs, fresh)
