"""`agggen adapt`: a bundle and new data in, a bundle of both out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console, own_data
from agggen_platform.cli.train import Runs, carry_out


def adapt(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="A folder, s3://bucket/prefix, or models:/NAME@ALIAS.")
    ],
    source: Annotated[str, typer.Argument(metavar="DATA", help="A file, a folder, or a corpus of the catalogue.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, say training.joint.epochs=12")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(metavar="CORPUS", help="Old texts. [default: those that BUNDLE names, if they are here]"),
    ] = None,
    runs: Runs = Path("runs"),
    name: Annotated[str | None, typer.Option(help="The run's name. [default: adapt-DATA-HASH]")] = None,
    fresh: Annotated[bool, typer.Option(help="Start over, whatever lies under the run's name.")] = False,
    id_: own_data.IdColumn = None,
    subject: own_data.SubjectColumn = None,
    text: own_data.TextColumns = None,
    split_column: own_data.SplitColumn = None,
    category: own_data.CategoryColumn = None,
    ignore: own_data.Ignored = None,
    rename: own_data.Renamed = None,
    division_seed: own_data.DivisionSeed = 1,
) -> None:
    """Continue a trained model on new data, and write another bundle; BUNDLE stays as it is.

    Words and predicates that the model lacks are added to those it has. Its sizes and its settings of search stay.
    Old texts are mixed in (replay), so that it forgets less: as many as new ones, or 100 if these are fewer;
    training.replay=0.2 makes them a fifth of all, 0 leaves them out. The same command continues a run that was cut
    off, and finds a finished one.

    \b
        agggen adapt runs/elements-1f2e/bundle films.csv
        agggen adapt models:/agggen@champion films.csv --text plot --replay webnlg
        agggen adapt runs/elements-1f2e/bundle films training.joint.epochs=12
    """
    from agggen.datasets import load_dataset
    from agggen.training.adaptation import adaptation
    from agggen_platform.job_config import JobConfig

    columns = own_data.reading(id_, subject, text, split_column, category, ignore, rename, division_seed)
    data = load_dataset(source, **columns)
    config, records = adaptation(JobConfig, bundle, data, replay, overrides or (), say=console.note)
    carry_out(config, records, f"adapt-{Path(source).stem}", name, runs, fresh)
