"""Where a system is good and where it is not: by the number of triples, by category, by predicate, by size of groups.

Rows in, tables and charts out. BLEU and chrF of a part are corpus scores of that part; they do not average to the
score of the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from agggen.evaluation.report.content import Cell, Chart, Row, Series, Table
from agggen.evaluation.segments import SegmentStatistics
from agggen.records import Plan

CHARTED = 20
"""Predicates that the chart shows at most, the worst first; the table holds all."""

_MENTIONED = "triples mentioned, %"
_SLOTS = "slot errors, % of slots"


Statistics = Mapping[str, SegmentStatistics]
"""What plain sacreBLEU counted in the text of each row, by metric; empty where there are no references."""


def by_triples(rows: Sequence[Row], statistics: Statistics) -> tuple[Table, Chart]:
    """Scores by the number of triples of a record."""
    table = _parts(
        rows, statistics, lambda row: len(row.record.triples), "triples", "By the number of triples of a record"
    )
    shown = [name for name in ("BLEU", "chrF", _MENTIONED) if name in table.columns]
    place = {name: table.columns.index(name) for name in table.columns}
    chart = Chart(
        "Scores by the number of triples of a record",
        "triples of a record (number of records)",
        "percent",
        tuple(f"{row[0]} ({row[place['records']]})" for row in table.rows),
        tuple(Series(name, tuple(_number(row[place[name]]) for row in table.rows)) for name in shown),
    )
    return table, chart


def by_category(rows: Sequence[Row], statistics: Statistics) -> Table | None:
    """Scores by the category (domain) of a record; None where no record has one."""
    if all(row.record.category is None for row in rows):
        return None
    return _parts(rows, statistics, lambda row: row.record.category or "(none)", "category", "By category")


def _parts(
    rows: Sequence[Row], statistics: Statistics, key: Callable[[Row], int | str], name: str, caption: str
) -> Table:
    parts: dict[int | str, list[int]] = {}
    for place, row in enumerate(rows):
        parts.setdefault(key(row), []).append(place)
    ordered = sorted(parts, key=lambda value: (isinstance(value, str), value))
    found = {part: _scores(rows, parts[part], statistics) for part in ordered}
    columns = list(dict.fromkeys(column for scores in found.values() for column in scores))
    body = tuple((part, *(scores.get(column) for column in columns)) for part, scores in found.items())
    note = "BLEU and chrF: plain sacreBLEU of each part as a corpus. Triples mentioned: by the words of their objects."
    return Table(caption, (name, *columns), body, note)


def _scores(all_rows: Sequence[Row], places: Sequence[int], statistics: Statistics) -> dict[str, Cell]:
    rows = [all_rows[place] for place in places]
    scores: dict[str, Cell] = {"records": len(rows)}
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF")):
        if metric in statistics:
            scores[name] = statistics[metric].corpus(places).value
    triples = sum(len(row.record.triples) for row in rows)
    scores[_MENTIONED] = 100 * (1 - sum(len(row.unmentioned) for row in rows) / triples)
    checked = [row for row in rows if row.mistakes is not None]
    if checked:
        mistakes = sum(len(row.mistakes or ()) for row in checked)
        scores[_SLOTS] = 100 * mistakes / sum(row.slots for row in checked)
    plans = [row.plan for row in rows if row.plan is not None]
    if plans:
        scores["groups a plan"] = sum(len(plan.states) for plan in plans) / len(plans)
    return scores


def group_sizes(plans: Iterable[Plan], references: Iterable[int], whose: str) -> tuple[Table, Chart] | None:
    """How many triples share a group, in plans and in references; None without plans.

    Args:
        references: the sizes of all groups of the references.
        whose: where the references' groups come from, for the note.
    """
    ours = Counter(len(state) for plan in plans for state in plan.states)
    theirs = Counter(references)
    if not ours:
        return None
    sizes = sorted(ours | theirs)
    shares = {"plans": _shares(ours, sizes)} | ({"references": _shares(theirs, sizes)} if theirs else {})
    columns = ["triples in a group"]
    columns += [column for name in shares for column in (f"groups of {name}", f"{name}, %")]
    counts = [ours, theirs][: len(shares)]
    rows = tuple(
        (
            size,
            *(cell for count, share in zip(counts, shares.values(), strict=True) for cell in (count[size], share[i])),
        )
        for i, size in enumerate(sizes)
    )
    note = whose if theirs else "The references have no plans to compare with."
    chart = Chart(
        "Sizes of the groups of plans",
        "triples in a group",
        "percent of groups",
        tuple(map(str, sizes)),
        tuple(Series(name, tuple(share)) for name, share in shares.items()),
    )
    return Table("How many triples share a group", tuple(columns), rows, note), chart


def _shares(counts: Counter[int], sizes: Sequence[int]) -> list[float]:
    return [100 * counts[size] / counts.total() for size in sizes]


def by_predicate(rows: Sequence[Row]) -> tuple[Table, Chart]:
    """What goes wrong with each predicate: not mentioned and, where slots are checked, added, missed or wrong."""
    slots = any(row.mistakes is not None for row in rows)
    triples: Counter[str] = Counter()
    unmentioned: Counter[str] = Counter()
    mistakes: dict[str, Counter[str]] = {kind: Counter() for kind in (("missed", "wrong", "added") if slots else ())}
    for row in rows:
        named = dict(zip(row.record.predicates, row.record.triples, strict=True))
        triples.update(triple.predicate for triple in row.record.triples)
        unmentioned.update(named[name].predicate for name in row.unmentioned)
        for mistake in row.mistakes or ():
            mistakes[mistake.kind][mistake.slot] += 1
    counted: Mapping[str, Counter[str]] = mistakes if slots else {"not mentioned": unmentioned}
    names = set(triples).union(*mistakes.values())
    worst = sorted(names, key=lambda name: (-sum(count[name] for count in counted.values()), name))
    columns = ("predicate", "triples", "not mentioned", "not mentioned, %", *mistakes)
    body = tuple(
        (
            name,
            triples[name],
            unmentioned[name],
            100 * unmentioned[name] / triples[name] if triples[name] else None,
            *(mistakes[kind][name] for kind in mistakes),
        )
        for name in worst
    )
    charted = [name for name in worst if any(count[name] for count in counted.values())][:CHARTED]
    more = f" Only the {CHARTED} predicates with the most." if len(charted) == CHARTED else ""
    chart = Chart(
        "Slot errors by predicate" if slots else "Triples that are not mentioned, by predicate",
        "predicate",
        "number of errors" if slots else "number of triples",
        tuple(charted),
        tuple(Series(kind, tuple(float(count[name]) for name in charted)) for kind, count in counted.items()),
        horizontal=True,
        note=f"The worst first.{more}",
    )
    how = "Not mentioned: by the words of the object, which misses paraphrases"
    how += "; missed, wrong, added: slot errors." if slots else "."
    return Table("By predicate", columns, body, how), chart


def _number(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else None
