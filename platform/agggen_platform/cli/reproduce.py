"""`agggen reproduce`: the paper's tables, with the scores of agggen beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agggen.errors import ConfigError
from agggen_platform.cli import console
from agggen_platform.cli.options import Overrides, check_local


def reproduce(
    table: Annotated[str | None, Argument(metavar="TABLE", help="A table's name. [default: list all tables]")] = None,
    overrides: Overrides = None,
    runs: Annotated[
        Path | None,
        Option(metavar="DIR", callback=check_local, help="Folder of runs and records. [default: the shipped records]"),
    ] = None,
    seeds: Annotated[str | None, Option(metavar="SEED,...", help="Create missing records of these seeds.")] = None,
    fresh: Annotated[bool, Option(help="Evaluate again and replace the records; trained models are kept.")] = False,
) -> None:
    """Show the paper's tables with agggen's scores.

    The scores are in run records that ship with agggen. With --runs and --seeds, new records are created: a Transformer
    and AggGen are trained for each seed, and each system is evaluated once on the table's test split. The same command
    resumes after a kill, and repeats no finished work.

    \b
        agggen reproduce
        agggen reproduce webnlg
        agggen reproduce webnlg --runs runs --seeds 1,2,3 training.threads=1
    """
    from agggen_platform.reproduction import comparison, work
    from agggen_platform.reproduction.records import records_of
    from agggen_platform.reproduction.tables import find_table

    if table is None:
        _list_tables(runs)
        return
    selected_table = find_table(table)
    if seeds is not None and runs is not None:
        work.reproduce(selected_table, runs, _parse_seeds(seeds), overrides or (), fresh, console.note)
    elif seeds is not None:
        raise ConfigError("--seeds needs --runs DIR, the folder for runs and records")
    elif fresh or overrides:
        raise ConfigError("--fresh and settings need --runs DIR and --seeds SEED,..., which train and evaluate")
    result = comparison.compare(selected_table, records_of(selected_table, runs))
    header, *rows = comparison.rows_of(result)
    console.print_table(header, rows, selected_table.title)
    for note in comparison.notes_of(result, _records_location(runs)):
        console.echo(note)


def _list_tables(runs: Path | None) -> None:
    from agggen_platform.reproduction.records import records_of
    from agggen_platform.reproduction.tables import TABLES

    rows = []
    for table in TABLES.values():
        seeds: dict[str, list[str]] = {}
        for record in records_of(table, runs):
            seeds.setdefault(record.system, []).append(str(record.seed))
        records = "; ".join(f"{system} {', '.join(numbers)}" for system, numbers in seeds.items()) or "none"
        corpora = ", ".join(dict.fromkeys((table.recipe.corpus, table.corpus)))
        requirements = f"corpora {corpora}; a Transformer and AggGen for each seed, trained by {table.recipe.preset}"
        rows.append((table.name, table.title, requirements, records))
    console.print_table(("table", "title", "requirements", "records"), rows)
    console.note(f"Records {_records_location(runs)}; agggen reproduce TABLE shows a table")


def _records_location(runs: Path | None) -> str:
    return "that ship with agggen" if runs is None else f"in {runs / 'records'}"


def _parse_seeds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise ConfigError(f"--seeds takes different whole numbers, such as 1,2,3, not {text!r}")
    return [int(part) for part in parts]
