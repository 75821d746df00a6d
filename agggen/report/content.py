"""The content of a report: measures, tables, and a row per record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agggen.evaluation import Score
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.verification.e2e import SlotError, SlotErrors
from agggen.verification.results import TextCheck

if TYPE_CHECKING:
    import pandas

Cell = str | int | float | None  # the content of a table's cell; None if it is empty

OUR_NAME = "this report"  # the name of the evaluated model in the table of published systems


@dataclass(frozen=True, slots=True)
class Measure:
    """A score with its 95 % interval, or the reason why it was not computed."""

    name: str
    score: Score | None
    interval: tuple[float, float] | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form; undefined numbers are null."""
        if self.score is None:
            return {"name": self.name, "value": None, "not_computed": self.reason}
        interval = list(map(finite_or_none, self.interval)) if self.interval else None
        value, signature = finite_or_none(self.score.value), self.score.signature
        return {"name": self.name, "value": value, "interval_95": interval, "signature": signature}


@dataclass(frozen=True, slots=True)
class Table:
    """A table with rows as mappings from column to cell; the first column has the names of the rows."""

    caption: str
    rows: Sequence[Mapping[str, Cell]]
    note: str = ""
    has_mixed_units: bool = False  # in a column; the number of digits is then chosen per cell

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns; rows may lack some."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def _cells(self) -> list[list[Cell]]:  # by column
        return [[row.get(name) for row in self.rows] for name in self.columns]

    @property
    def is_numeric(self) -> tuple[bool, ...]:
        """Whether each column, except the first, contains only numbers."""
        return (False, *(all(isinstance(cell, int | float | None) for cell in cells) for cells in self._cells[1:]))

    def formatted(self) -> list[tuple[str, ...]]:
        columns = []
        for cells in self._cells:
            is_large = any(isinstance(cell, float) and abs(cell) >= 10 for cell in cells)
            digits = None if self.has_mixed_units else 2 if is_large else 4
            columns.append([format_cell(cell, digits) for cell in cells])
        return list(zip(*columns, strict=True))

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows with all columns; numbers that are not finite are None."""
        return [{name: finite_or_none(row.get(name)) for name in self.columns} for row in self.rows]


@dataclass(frozen=True, slots=True)
class Section:
    """A group of measures."""

    key: str  # in report.json, and as a prefix in the run log
    title: str
    measures: Sequence[Measure]
    note: str = ""

    def table(self) -> Table:
        """The measures with their intervals and signatures."""
        rows: list[dict[str, Cell]] = []
        for measure in self.measures:
            interval = " to ".join(map(format_cell, measure.interval)) if measure.interval else None
            value = measure.score.value if measure.score else None
            signature = measure.score.signature if measure.score else f"not computed: {measure.reason}"
            rows.append({"score": measure.name, "value": value, "95 % interval": interval, "signature": signature})
        return Table(self.title, rows, self.note, has_mixed_units=True)


@dataclass(frozen=True, slots=True)
class Row:
    """A record with its generated text."""

    record: Record
    text: str
    check: TextCheck  # the result of the strict check
    plan: Plan | None = None
    facts: Sequence[WrittenFact] = ()
    scores: Mapping[str, float] = field(default_factory=dict)  # the scores of the text, by ``protocol/metric``
    unmentioned: Mapping[str, str] = field(default_factory=dict)  # reasons by predicate (lenient check)
    slot_errors: SlotErrors | None = None  # None unless all predicates of the corpus are slots of E2E

    @property
    def labelled_errors(self) -> list[tuple[str, SlotError]]:
        """The slot errors with their kind: ``added``, ``missed`` or ``wrong``."""
        kinds = ("added", "missed", "wrong") if self.slot_errors else ()
        return [(kind, error) for kind in kinds for error in getattr(self.slot_errors, kind)]

    @property
    def incomplete_values(self) -> dict[str, str]:
        """Predicates whose values are not whole in the text (strict check), each with ``part`` or ``missing``."""
        checks = zip(self.record.predicates, self.check.values, strict=True)
        return {name: check.kind for name, check in checks if not check.whole}

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: a line of records.jsonl."""
        line: dict[str, Any] = {
            "id": self.record.id,
            "text": self.text,
            "plan": None if self.plan is None else str(self.plan),
            "facts": [fact.as_dict(self.text) for fact in self.facts],
            "scores": {name: finite_or_none(value) for name, value in self.scores.items()},
            "not_whole": self.incomplete_values,
            "invented": list(self.check.invented),
            "faults": list(self.check.faults),
            "not_mentioned_lenient": dict(self.unmentioned),
        }
        if self.slot_errors is not None:
            line["slot_errors"] = [
                {"kind": kind, "slot": error.slot, "value": error.value, "why": str(error)}
                for kind, error in self.labelled_errors
            ]
        return line


@dataclass(frozen=True, repr=False)
class Report:
    """The result of an evaluation; its `repr` has a line per score."""

    title: str
    identity: Mapping[str, str | int]  # of the evaluation: a report can only replace one with the same identity
    run: Mapping[str, Cell]  # bundle, data, settings and machine of the evaluation, by name
    sections: Sequence[Section]
    rows: Sequence[Row]
    tables: Mapping[str, Table | None]  # by name in report.json: the published systems and breakdowns
    published_note: str = ""  # how the published and our scores were computed, or why they are not comparable
    partial: str = ""  # a note on the evaluated part of the split; empty for the complete split
    seed: int = 0

    def run_table(self) -> Table:
        rows = [{"name": name, "value": value} for name, value in self.run.items()]
        return Table("Bundle, data, settings and machine of this evaluation", rows, has_mixed_units=True)

    def __repr__(self) -> str:
        lines = [f"{name} = {format_cell(score.value)} ({score.signature})" for name, score in self._scores().items()]
        return "\n".join([self.title, *([self.partial] if self.partial else []), *lines])

    def _repr_html_(self) -> str:
        rows = [(section.key, *cells) for section in self.sections for cells in section.table().formatted()]
        lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
        return f"<p>{escape(self.title)}</p><table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    def to_frame(self) -> pandas.DataFrame:
        """A DataFrame with a row per score: section, score, value, 95 % interval, signature; needs pandas."""
        import pandas

        rows = [{"section": section.key, **row} for section in self.sections for row in section.table().rows]
        return pandas.DataFrame(rows)

    def report(self, folder: Path | str) -> Path:
        """Writes the report (report.html, report.json, records.jsonl) to `folder` and returns the page.

        Raises ConfigError if `folder` contains other files than a report of the same evaluation.
        """
        from agggen.report.folder import write_report

        write_report(Path(folder), self)
        return Path(folder) / "report.html"

    def measures(self) -> dict[str, float]:
        """All computed scores by ``section/name``, for a run log."""
        return {name: score.value for name, score in self._scores().items()}

    def _scores(self) -> dict[str, Score]:
        return {
            f"{section.key}/{measure.name}": measure.score
            for section in self.sections
            for measure in section.measures
            if measure.score is not None
        }


def finite_or_none(value: Any) -> Any:
    """`value`, or None for NaN and infinity, which JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_cell(cell: Cell, digits: int | None = None) -> str:
    """A cell as text, with `digits` decimals (default: 2 from 10 on, else 4); a hyphen for None."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        digits = (2 if abs(cell) >= 10 else 4) if digits is None else digits
        return "undefined" if math.isnan(cell) else f"{cell:.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
