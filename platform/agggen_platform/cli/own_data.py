"""Data of users: the options that name columns, and `agggen prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agggen.corpora.tables import Columns
from agggen.errors import ConfigError
from agggen_platform.cli import console

_SHOWN = 30  # predicates

IdColumn = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="The record's id. [default: id]")]
SubjectColumn = Annotated[
    str | None,
    typer.Option("--subject", metavar="COLUMN", help="The subject of the row's triples. [default: name, title]"),
]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="A reference text; can be repeated. [default: text, text2, ...]"),
]
SplitColumn = Annotated[
    str | None, typer.Option("--split-column", metavar="COLUMN", help="The split: train, dev or test. [default: split]")
]
CategoryColumn = Annotated[
    str | None, typer.Option("--category", metavar="COLUMN", help="The record's category. [default: category]")
]
Ignored = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COLUMN", help="A column to ignore; can be repeated.")
]
Renamed = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="COLUMN=PREDICATE", help="The predicate of a column; can be repeated."),
]
DivisionSeed = Annotated[int, typer.Option(help="Seed of the 80/10/10 division of data without splits.")]


def columns(
    id_: str | None,
    subject: str | None,
    text: list[str] | None,
    ignore: list[str] | None,
    rename: list[str] | None,
) -> Columns:
    """The column options of a command; raises ConfigError if `rename` is not COLUMN=PREDICATE."""
    return Columns(id=id_, subject=subject, text=tuple(text or ()), ignore=tuple(ignore or ()), rename=_renamed(rename))


def _renamed(rename: list[str] | None) -> dict[str, str]:
    renamed = dict(pair.split("=", 1) for pair in rename or () if "=" in pair)
    if len(renamed) != len(rename or ()):
        raise ConfigError("--rename takes COLUMN=PREDICATE, each column once")
    return renamed


def reading(
    id_: str | None,
    subject: str | None,
    text: list[str] | None,
    split_column: str | None,
    category: str | None,
    ignore: list[str] | None,
    rename: list[str] | None,
    seed: int,
) -> dict[str, Any]:
    """The column options as arguments of `load_dataset`.

    Raises:
        ConfigError: `rename` is not COLUMN=PREDICATE.
    """
    return {
        "seed": seed,
        "id": id_,
        "subject": subject,
        "text": tuple(text or ()),
        "split": split_column,
        "category": category,
        "ignore": tuple(ignore or ()),
        "rename": _renamed(rename),
    }


def prepare(
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="A file (.csv .tsv .jsonl .json .parquet), or a folder of them.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="The folder of the corpus, with one file per split.")
    ],
    id_: IdColumn = None,
    subject: SubjectColumn = None,
    text: TextColumns = None,
    split_column: SplitColumn = None,
    category: CategoryColumn = None,
    ignore: Ignored = None,
    rename: Renamed = None,
    seed: DivisionSeed = 1,
) -> None:
    """Read your own data, report what matters for training, and write it as a corpus.

    A CSV has one triple per row (columns subject, predicate, object) or one record per row (every other column is a
    predicate). Data without splits are divided 80/10/10 by record. Rows that cannot be read go to DIR/rejects.jsonl
    with line and reason.

    \b
        agggen prepare films.csv --out films
        agggen prepare films.csv --out films --subject film --text plot --ignore url
        agggen prepare 'my/{train,dev,test}.jsonl' --out films
    """
    from agggen.corpora.examine import examine
    from agggen.datasets import load_dataset
    from agggen.training.choice import minutes_for, preset_for

    data = load_dataset(source, **reading(id_, subject, text, split_column, category, ignore, rename, seed))
    statistics = examine(data)
    data.save(out)
    rows = [
        (split, len(records), sum(len(r.references) for r in records), sum(len(r.triples) for r in records))
        for split, records in data.splits.items()
    ]
    console.print_table(("split", "records", "texts", "triples"), rows)
    usage = [
        (name, use.texts, len(use.values), f"{use.missing / use.checked:.0%}" if use.checked else "-")
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
