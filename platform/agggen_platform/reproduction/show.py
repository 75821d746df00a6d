"""A table for people, for a README and for programs.

The JSON has one shape; keys are added, never renamed or removed, while ``schema`` is ``agggen.reproduce/1``::

    {"schema": "agggen.reproduce/1", "table": "webnlg", "title": "...", "corpus": "webnlg", "split": "test-seen",
     "columns": ["bleu", ...], "published": "how they were computed", "signatures": {"webnlg-2017/bleu": "..."},
     "missing": ["..."],
     "rows": [{"system": "AggGen", "ours": false, "source": "...", "scores": {"bleu": 58.74}},
              {"system": "AggGen", "ours": true, "n": 3, "scores": {"bleu": {"mean": 58.9, "min": 58.5, "max": 59.2,
               "deviation": 0.4}}, "runs": [{"seed": 1, "bundle": "...", "finished": "...", "commands": ["..."],
               "scores": {"bleu": {"value": 58.9, "interval_95": [57.1, 60.6]}}}]}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agggen_platform.reproduction.comparison import Cell, Comparison, Row
from agggen_platform.reproduction.tables import Column, Table

SCHEMA = "agggen.reproduce/1"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The table in the shape of the module's docstring."""
    table = comparison.table
    return {
        "schema": SCHEMA,
        "table": table.name,
        "title": table.title,
        "corpus": table.corpus,
        "split": table.split,
        "columns": [column.name for column in table.columns],
        "published": table.how,
        "signatures": dict(comparison.signatures),
        "missing": list(comparison.missing),
        "rows": [_row(table, row) for row in comparison.rows],
    }


def _row(table: Table, row: Row) -> dict[str, Any]:
    cells = {column.name: row.cells.get(column.name, Cell()) for column in table.columns}
    if not row.ours:
        scores = {name: cell.mean for name, cell in cells.items()}
        return {"system": row.system, "ours": False, "source": row.source, "scores": scores}
    line = next(line for line in table.lines if line.name == row.system)
    return {
        "system": row.system,
        "ours": True,
        "n": len(row.records),
        "scores": {
            name: {
                "mean": cell.mean,
                "min": min(cell.values, default=None),
                "max": max(cell.values, default=None),
                "deviation": cell.deviation,
            }
            for name, cell in cells.items()
        },
        "runs": [
            {
                "seed": record.seed,
                "bundle": record.bundle,
                "finished": record.finished,
                "commands": list(record.commands),
                "scores": {
                    column: {"value": found.value, "interval_95": found.interval}
                    for column, score in line.scores.items()
                    if (found := record.scores.get(score))
                },
            }
            for record in row.records
        ],
    }


def columns_of(comparison: Comparison) -> list[str]:
    """The heads of the columns."""
    return ["system", *(column.name for column in comparison.table.columns), "from"]


def rows_of(comparison: Comparison) -> list[list[str]]:
    """The rows as people read them; the last column says whose numbers they are."""
    sources = _sources(comparison)
    return [
        [
            row.system,
            *(_cell(row.cells.get(column.name, Cell()), column) for column in comparison.table.columns),
            f"ours, n={len(row.records)}" if row.ours else f"[{sources.index(row.source) + 1}]",
        ]
        for row in comparison.rows
    ]


def notes_of(comparison: Comparison, where: str) -> list[str]:
    """What stands below the table: sources, how both sides were computed, and what is missing.

    Args:
        where: the records of ours are.
    """
    return list(_notes(comparison, where))


def _notes(comparison: Comparison, where: str) -> Iterator[str]:
    table = comparison.table
    for number, source in enumerate(_sources(comparison), start=1):
        yield f"[{number}] {source}."
    if table.how:
        yield f"Published: {table.how}."
    if not comparison.ours:
        yield (
            f"None of ours is among the records {where}. To train and evaluate them: "
            f"agggen reproduce {table.name} --runs runs --seeds 1,2,3"
        )
        return
    record = comparison.ours[0].records[0]
    yield (
        f"Ours: from the records {where}, of {table.corpus} {table.split} ({record.inputs:,} records), trained by "
        f"{' '.join(record.recipe)}. Means over n seeds: n=2 with both values, from n=3 on with ± the standard "
        "deviation."
    )
    yield from (f"{score}: {signature}" for score, signature in comparison.signatures.items())
    yield from comparison.missing


def to_markdown(comparison: Comparison, where: str) -> str:
    """The table and its notes for a README."""
    names = columns_of(comparison)
    lines = [_line(names), "|---" * len(names) + "|", *map(_line, rows_of(comparison)), ""]
    return "\n".join([*lines, *(f"- {note}" for note in map(_escaped, notes_of(comparison, where)))])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in r"\|*_`<>[]" else sign for sign in text)


def _sources(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(row.source for row in comparison.rows if row.source))


def _cell(cell: Cell, column: Column) -> str:
    """``58.74``, ``58.74 (58.50 to 58.98)`` of two runs, ``58.74 ± 0.24`` of three or more; ``-`` for no number."""
    if cell.mean is None:
        return "-"
    digits = column.digits
    mean = f"{cell.mean:.{digits}f}"
    if len(cell.values) == 2:
        return f"{mean} ({min(cell.values):.{digits}f} to {max(cell.values):.{digits}f})"
    return mean if cell.deviation is None else f"{mean} ± {cell.deviation:.{digits}f}"
