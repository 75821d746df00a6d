"""`agggen reproduce`: the paper's tables with our numbers beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console
from agggen_platform.cli.folders import on_this_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agggen_platform.reproduction.records import RunRecord
    from agggen_platform.reproduction.tables import Table


def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A table. [default: say which there are]")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings of all trainings, say training.threads=1"),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            callback=on_this_machine,
            help="Take the records made here instead of those that ship, and make them here.",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="SEED,...", help="Train and evaluate what is missing of these seeds first.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option(help="Evaluate again and replace the records; finished trainings stay.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a README.")] = False,
) -> None:
    """Make a table of the paper again, with our numbers beside the published ones.

    The numbers are those of run records, which ship with agggen. With --runs and --seeds they are made: a Transformer
    and AggGen are trained for each seed, and each system is evaluated on the table's test split, once. The same
    command continues what was cut off, and does nothing twice.

    \b
        agggen reproduce
        agggen reproduce webnlg
        agggen reproduce webnlg --runs runs --seeds 1,2,3 training.threads=1
        agggen reproduce webnlg --markdown
    """
    import json

    from agggen.errors import ConfigError
    from agggen_platform.cli.progress import training_progress, writing_progress
    from agggen_platform.reproduction import show, work
    from agggen_platform.reproduction.comparison import compare
    from agggen_platform.reproduction.records import records_of
    from agggen_platform.reproduction.tables import table_called

    if as_json and markdown:
        raise ConfigError("--json and --markdown exclude each other")
    if table is None:
        _overview(runs, as_json, markdown)
        return
    chosen = table_called(table)
    if seeds is not None and runs is not None:
        watch = work.Watch(console.note, training_progress, writing_progress)
        work.reproduce(chosen, runs, _seeds(seeds), overrides or (), fresh, watch)
    elif seeds is not None:
        raise ConfigError("--seeds trains and evaluates; say where runs and records go with --runs DIR")
    elif fresh or overrides:
        raise ConfigError("nothing is trained or evaluated without --runs DIR and --seeds SEED,...")
    comparison = compare(chosen, records_of(chosen, runs))
    where = _where(runs)
    if as_json:
        console.say(json.dumps(show.to_json(comparison), indent=2, ensure_ascii=False))
    elif markdown:
        console.say(show.to_markdown(comparison, where))
    else:
        console.print_table(show.columns_of(comparison), show.rows_of(comparison), chosen.title)
        for note in show.notes_of(comparison, where):
            console.say(note)


def _overview(runs: Path | None, as_json: bool, markdown: bool) -> None:
    """Which tables there are, what each needs, and which runs of each are on record."""
    import json

    from agggen.errors import ConfigError
    from agggen_platform.reproduction.records import records_of
    from agggen_platform.reproduction.tables import TABLES

    if markdown:
        raise ConfigError("--markdown needs the name of a table")
    found = [(table, records_of(table, runs)) for table in TABLES.values()]
    if as_json:
        tables = [
            {
                "table": table.name,
                "title": table.title,
                "trained_on": table.recipe.corpus,
                "tested_on": f"{table.corpus} {table.split}",
                "records": [{"system": record.system, "seed": record.seed} for record in records],
            }
            for table, records in found
        ]
        console.say(json.dumps({"schema": "agggen.reproduce.tables/1", "tables": tables}, indent=2))
        return
    rows = [(table.name, table.title, _needs(table), _on_record(table, records)) for table, records in found]
    console.print_table(("table", "what", "needs, to be made", "on record"), rows)
    console.note(f"Records {_where(runs)}; agggen reproduce TABLE shows a table")


def _needs(table: Table) -> str:
    corpora = dict.fromkeys((table.recipe.corpus, table.corpus))
    return f"corpora {', '.join(corpora)}; a Transformer and AggGen a seed, trained by {table.recipe.preset}"


def _on_record(table: Table, records: Sequence[RunRecord]) -> str:
    seeds: dict[str, list[str]] = {}
    for record in records:
        seeds.setdefault(record.system, []).append(str(record.seed))
    return "; ".join(f"{system} {', '.join(of)}" for system, of in seeds.items()) or "none"


def _where(runs: Path | None) -> str:
    return "that ship with agggen" if runs is None else f"in {runs / 'records'}"


def _seeds(given: str) -> list[int]:
    """The seeds of ``1,2,3``."""
    from agggen.errors import ConfigError

    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise ConfigError(f"--seeds takes different whole numbers, say 1,2,3, not {given!r}")
    return [int(part) for part in parts]
