"""What a report holds, as plain data: measures, tables, charts, and one row a record. No markup here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agggen.evaluation import Score
from agggen.records import Plan, Record

Cell = str | int | float | None
"""A table's cell; None where there is no value."""

OURS = "this report"
"""The name of our row among published systems."""


class Span(Protocol):
    """A piece ``text[start:end]`` of a text and the predicates that it was written for (a `WrittenFact`)."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def predicates(self) -> tuple[str, ...]: ...
    @property
    def missing(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Measure:
    """A score with its 95 % interval, or the reason why there is none."""

    name: str
    score: Score | None
    interval: tuple[float, float] | None = None
    reason: str = ""
    """Why it was not computed; empty where it was."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form; what is undefined is null."""
        if self.score is None:
            return {"name": self.name, "value": None, "not_computed": self.reason}
        interval = None if self.interval is None else [finite(bound) for bound in self.interval]
        return {
            "name": self.name,
            "value": finite(self.score.value),
            "interval_95": interval,
            "signature": self.score.signature,
        }


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names its rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    mixed: bool = False
    """Whether the numbers of a column are of different kinds, so that each has its own number of digits."""

    def shown(self) -> list[tuple[str, ...]]:
        """The rows as people read them."""
        wide = [
            any(isinstance(cell, float) and abs(cell) >= 10 for cell in column)
            for column in zip(*self.rows, strict=True)
        ]
        return [
            tuple(shown(cell, None if self.mixed else 2 if w else 4) for cell, w in zip(row, wide, strict=True))
            for row in self.rows
        ]

    def as_dicts(self) -> list[dict[str, Any]]:
        """One object a row; a number that is not finite is null."""
        return [dict(zip(self.columns, map(finite, row), strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Section:
    """Measures that belong together; `key` names the section in the JSON and before a measure in the run log."""

    key: str
    title: str
    measures: tuple[Measure, ...]
    note: str = ""

    def table(self) -> Table:
        """The measures with their intervals and signatures."""
        rows: list[tuple[Cell, ...]] = []
        for measure in self.measures:
            if measure.score is None:
                rows.append((measure.name, None, None, f"not computed: {measure.reason}"))
                continue
            interval = None if measure.interval is None else " to ".join(shown(bound) for bound in measure.interval)
            rows.append((measure.name, measure.score.value, interval, measure.score.signature))
        return Table(self.title, ("score", "value", "95 % interval", "signature"), tuple(rows), self.note, mixed=True)


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one kind, one for each of a chart's categories."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars: groups of them by category, one bar a series in each."""

    title: str
    category_label: str
    value_label: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    horizontal: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What a text says of a slot that it should not, or does not say that it should."""

    kind: str
    """``added``, ``missed`` or ``wrong``."""
    slot: str
    value: str | None
    """The record's value; None for what the text added."""
    why: str = ""

    def as_dict(self) -> dict[str, str | None]:
        """The JSON form."""
        return {"kind": self.kind, "slot": self.slot, "value": self.value, "why": self.why}


@dataclass(frozen=True, slots=True)
class Row:
    """A record, what was written about it, and how that is judged."""

    record: Record
    text: str
    plan: Plan | None = None
    facts: Sequence[Span] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    unmentioned: Mapping[str, str] = field(default_factory=dict)
    """Predicates whose objects the text does not mention, and why so (by words: `agggen.verification.lenient`)."""
    mistakes: tuple[Mistake, ...] | None = None
    """Slot errors; None where the corpus has no slots to check."""
    slots: int = 0
    """How many slots were checked."""

    @property
    def errors(self) -> int:
        """How many slot errors there are or, without slots, how many triples are not mentioned."""
        return len(self.unmentioned if self.mistakes is None else self.mistakes)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: a line of records.jsonl."""
        facts = [
            {
                "start": fact.start,
                "end": fact.end,
                "text": self.text[fact.start : fact.end],
                "predicates": list(fact.predicates),
                **({"missing": list(fact.missing)} if fact.missing else {}),
            }
            for fact in self.facts
        ]
        return {
            "id": self.record.id,
            "text": self.text,
            "plan": None if self.plan is None else str(self.plan),
            "facts": facts,
            "scores": {name: finite(value) for name, value in self.scores.items()},
            "unmentioned": dict(self.unmentioned),
            **({} if self.mistakes is None else {"slot_errors": [mistake.as_dict() for mistake in self.mistakes]}),
        }


@dataclass(frozen=True)
class Report:
    """All that one evaluation says."""

    title: str
    identity: Mapping[str, str | int]
    """What makes this evaluation what it is: run again, it may replace its own report and no other."""
    run: Mapping[str, Cell]
    """What was evaluated, with what and how, in the order in which it is shown."""
    sections: Sequence[Section]
    rows: Sequence[Row]
    published: Table | None = None
    published_note: str = ""
    """How the comparison was made, or why there is none."""
    by_triples: Table | None = None
    by_category: Table | None = None
    groups: Table | None = None
    by_predicate: Table | None = None
    charts: Sequence[tuple[str, Chart]] = ()
    """Charts, each with the name of the table it belongs to (``by_triples``, ``groups``, ``by_predicate``)."""
    partial: str = ""
    """Where not the whole split was looked at: how much of it."""
    seed: int = 0
    shown: int = 30

    def run_table(self) -> Table:
        """`run` as a table."""
        return Table("What was evaluated, with what and how", ("what", "value"), tuple(self.run.items()), mixed=True)

    def measures(self) -> dict[str, float]:
        """Every computed number by ``section/name``, for a run log."""
        return {
            f"{section.key}/{measure.name}": measure.score.value
            for section in self.sections
            for measure in section.measures
            if measure.score is not None
        }


def finite(value: Any) -> Any:
    """`value`, or None for a number that JSON does not know (NaN, infinity)."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(cell: Cell, digits: int | None = None) -> str:
    """A cell as people read it, with so many digits behind the point (2 from ten on, else 4); a hyphen for None."""
    match cell:
        case None:
            return "-"
        case bool() | str():
            return str(cell)
        case int():
            return f"{cell:,}"
        case float() if math.isnan(cell):
            return "undefined"
        case float():
            return f"{cell:.{(2 if abs(cell) >= 10 else 4) if digits is None else digits}f}"
    raise TypeError(f"no cell: {cell!r}")
