"""Data for the other commands: options that name columns, `agggen prepare`, and `agggen corpora`."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer import Argument, Option

from agggen.corpora.catalogue import data_home, list_corpora
from agggen.datasets import load_dataset
from agggen.errors import ConfigError
from agggen_platform.cli import console

corpora_app = typer.Typer(name="corpora", no_args_is_help=True, help="List and fetch corpora.")

_MAX_PREDICATES = 30  # in the table of predicates


def _column_option(option: str, help_text: str, kind: Any = str, metavar: str = "COLUMN") -> Any:
    return Annotated[kind | None, Option(option, metavar=metavar, help=help_text)]


_COLUMN_OPTIONS = {
    "id": _column_option("--id", "The record's id. [default: id]"),
    "subject": _column_option("--subject", "The subject of a row's triples. [default: name, title]"),
    "text": _column_option("--text", "A reference text; can be repeated. [default: text, text2, ...]", list[str]),
    "split": _column_option("--split-column", "The split: train, dev or test. [default: split]"),
    "category": _column_option("--category", "The record's category. [default: category]"),
    "ignore": _column_option("--ignore", "A column to ignore; can be repeated.", list[str]),
    "rename": _column_option("--rename", "The predicate of a column; can be repeated.", list[str], "COLUMN=PREDICATE"),
}
RECORD_COLUMNS = ("id", "subject", "text", "ignore", "rename")
"""The column options of commands that read records; commands that read a corpus have all column options."""
_SEED_HELP = "Seed of the random 80/10/10 split of data without splits."
DivisionSeed = Annotated[int, Option("--division-seed", help=_SEED_HELP)]
ColumnValues = Mapping[str, Any]
NO_COLUMNS: ColumnValues = MappingProxyType({})


def with_column_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces the parameter `columns` of a command by the options `names` (default: all) of `_COLUMN_OPTIONS`.

    The command gets their values as a mapping: arguments of `Columns` or `load_dataset`.
    """
    options = {f"{name}_column": _COLUMN_OPTIONS[name] for name in names or _COLUMN_OPTIONS}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            columns = {name.removesuffix("_column"): arguments.pop(name) for name in options}
            columns |= {name: tuple(columns[name] or ()) for name in ("text", "ignore")}
            command(**arguments, columns=columns | {"rename": _parse_renames(columns["rename"])})

        parameters = dict(signature(command, eval_str=True).parameters)
        del parameters["columns"]
        parameters |= {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for name, option in options.items()
        }
        run.__signature__ = Signature([p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters.values()])  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return run

    return decorate


def _parse_renames(pairs: list[str] | None) -> dict[str, str]:
    predicates = dict(pair.split("=", 1) for pair in pairs or () if "=" in pair)
    if len(predicates) != len(pairs or ()):
        raise ConfigError("--rename takes COLUMN=PREDICATE, each column once")
    return predicates


@with_column_options()
def prepare(
    source: Annotated[str, Argument(metavar="DATA", help="File (.csv .tsv .jsonl .json .parquet), folder or corpus.")],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The output folder, one file per split.")],
    split: Annotated[list[str] | None, Option(help="Only this split; can be repeated.")] = None,
    columns: ColumnValues = NO_COLUMNS,
    seed: Annotated[int, Option(help=_SEED_HELP)] = 1,
) -> None:
    """Read your own data, check it, write it as a corpus.

    A CSV has one triple per row (columns subject, predicate, object) or one record per row (other columns are
    predicates). Data without splits are split 80/10/10 by record. Invalid rows go to DIR/rejects.jsonl, with line and
    reason.

    \b
        agggen prepare films.csv --out films
        agggen prepare films.csv --out films --subject film --text plot --ignore url
        agggen prepare 'my/{train,dev,test}.jsonl' --out films
        agggen prepare webnlg --split test-seen --out prepared
    """
    from agggen.corpora.examine import examine
    from agggen.training.choice import minutes_for, preset_for

    data = load_dataset(source, splits=split, seed=seed, **columns)
    data.save(out)
    rows = [
        (split, len(records), sum(len(r.references) for r in records), sum(len(r.triples) for r in records))
        for split, records in data.splits.items()
    ]
    console.print_table(("split", "records", "texts", "triples"), rows)
    if "train" not in data.splits:
        console.note(f"Written to {out}")
        return
    statistics = examine(data)
    predicate_rows = []
    for name, usage in list(statistics.predicates.items())[:_MAX_PREDICATES]:
        missing = f"{len(usage.missing) / usage.n_checked:.0%}" if usage.n_checked else "-"
        predicate_rows.append((name, usage.n_texts, len(usage.values), missing))
    console.print_table(("predicate", "training texts", "values", "not mentioned"), predicate_rows)
    if len(statistics.predicates) > _MAX_PREDICATES:
        console.echo(f"and {len(statistics.predicates) - _MAX_PREDICATES:,} more predicates")
    for finding in statistics.findings:
        console.echo(f"- {finding}")
    checked = f"{statistics.n_checked_texts:,} training texts were checked"
    console.note(f"{checked}; not mentioned: the text has no word of the value")
    low, high = minutes_for(data)
    minutes = f"{low:.0f} to {max(high, 1):.0f} minutes of a CPU core"
    console.note(f"Training with the preset {preset_for(data)} takes about {minutes}")
    console.note(f"Written to {out}; train with: agggen train {out}")


@corpora_app.command("list")
def list_() -> None:
    """List the corpora and whether they are on this machine."""
    home = data_home()
    rows = []
    for corpus in list_corpora():
        present = "shipped" if corpus.folder is None else "yes" if (home / corpus.folder).is_dir() else "no"
        rows.append((corpus.name, present, ", ".join(corpus.splits), corpus.licence, corpus.title))
    console.print_table(("name", "present", "splits", "licence", "title"), rows)
    console.note(f"The data home is {home} (AGGGEN_DATA_HOME)")


@corpora_app.command()
def fetch(name: Annotated[str, Argument(metavar="NAME", help="A corpus of `agggen corpora list`.")]) -> None:
    """Download a corpus into the data home (AGGGEN_DATA_HOME), and check each file's SHA-256.

    The same command continues an interrupted download.

    \b
        agggen corpora fetch webnlg
    """
    from agggen.corpora.fetch import fetch as fetch_corpus

    report = fetch_corpus(name, progress=console.byte_progress())
    console.note(f"{report.n_downloaded} files downloaded, {report.n_present} already present")
    console.echo(str(report.folder))
