"""Users' own data: the options that name columns, and `agggen prepare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from typer import Argument, Option

from agggen.errors import ConfigError
from agggen_platform.cli import console

_SHOWN = 30  # predicates


def _column(option: str, help_text: str, kind: Any = str, metavar: str = "COLUMN") -> Any:
    return Annotated[kind | None, Option(option, metavar=metavar, help=help_text)]


_COLUMNS = {
    "id": _column("--id", "The record's id. [default: id]"),
    "subject": _column("--subject", "The subject of the row's triples. [default: name, title]"),
    "text": _column("--text", "A reference text; can be repeated. [default: text, text2, ...]", list[str]),
    "split": _column("--split-column", "The split: train, dev or test. [default: split]"),
    "category": _column("--category", "The record's category. [default: category]"),
    "ignore": _column("--ignore", "A column to ignore; can be repeated.", list[str]),
    "rename": _column("--rename", "The predicate of a column; can be repeated.", list[str], "COLUMN=PREDICATE"),
}
TABLE = ("id", "subject", "text", "ignore", "rename")
"""The column options of commands that read records; commands that read a corpus have all column options."""
_DIVISION = "Seed of the 80/10/10 division of data without splits."
DivisionSeed = Annotated[int, Option("--division-seed", help=_DIVISION)]
Command = Callable[..., None]
Chosen = Mapping[str, Any]
NONE: Chosen = MappingProxyType({})


def with_columns(*names: str) -> Callable[[Command], Command]:
    """Replaces the parameter `columns` of a command by the options `names` of `_COLUMNS`; without names, by all.

    The command gets their values as a mapping of arguments for `Columns` or `load_dataset`. ConfigError is raised if
    --rename is not COLUMN=PREDICATE.
    """
    options = {f"{name}_column": _COLUMNS[name] for name in names or _COLUMNS}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**arguments: Any) -> None:
            columns = {name.removesuffix("_column"): arguments.pop(name) for name in options}
            columns |= {name: tuple(columns[name] or ()) for name in ("text", "ignore")}
            command(**arguments, columns=columns | {"rename": _renamed(columns["rename"])})

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


def _renamed(rename: list[str] | None) -> dict[str, str]:
    renamed = dict(pair.split("=", 1) for pair in rename or () if "=" in pair)
    if len(renamed) != len(rename or ()):
        raise ConfigError("--rename takes COLUMN=PREDICATE, each column once")
    return renamed


@with_columns()
def prepare(
    source: Annotated[str, Argument(metavar="DATA", help="File (.csv .tsv .jsonl .json .parquet), folder or corpus.")],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The folder of the corpus, one file per split.")],
    split: Annotated[list[str] | None, Option(help="Only this split; can be repeated.")] = None,
    columns: Chosen = NONE,
    seed: Annotated[int, Option(help=_DIVISION)] = 1,
) -> None:
    """Read your own data, check it, write it as a corpus.

    A CSV has one triple per row (columns subject, predicate, object) or one record per row (every other column is a
    predicate). Data without splits are divided 80/10/10 by record. Rows that cannot be read go to DIR/rejects.jsonl
    with line and reason.

    \b
        agggen prepare films.csv --out films
        agggen prepare films.csv --out films --subject film --text plot --ignore url
        agggen prepare 'my/{train,dev,test}.jsonl' --out films
        agggen prepare webnlg --split test-seen --out prepared
    """
    from agggen.corpora.examine import examine
    from agggen.datasets import load_dataset
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
    usage = [
        (name, use.texts, len(use.values), f"{len(use.missing) / use.checked:.0%}" if use.checked else "-")
        for name, use in list(statistics.predicates.items())[:_SHOWN]
    ]
    console.print_table(("predicate", "training texts", "values", "not mentioned"), usage)
    if len(statistics.predicates) > _SHOWN:
        console.say(f"and {len(statistics.predicates) - _SHOWN:,} more predicates")
    for finding in statistics.findings:
        console.say(f"- {finding}")
    console.note(
        f"{statistics.checked:,} training texts were checked; not mentioned: texts without a word of the value"
    )
    low, high = minutes_for(data)
    console.note(
        f"Training with the preset {preset_for(data)} takes about {low:.0f} to {max(high, 1):.0f} minutes of a CPU core"
    )
    console.note(f"Written to {out}; train with: agggen train {out}")
