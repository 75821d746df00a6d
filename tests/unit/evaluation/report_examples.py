"""Small reports for the tests of `agggen.evaluation.report`, with text that tries to break out of every format."""

from __future__ import annotations

from dataclasses import dataclass

from agggen.evaluation import Score
from agggen.evaluation.protocols import measure
from agggen.evaluation.report import Measure, Mistake, Report, Row, Section
from agggen.evaluation.report.breakdowns import by_category, by_predicate, by_triples, group_sizes
from agggen.records import Plan, Record

NASTY = '</style></mark><script>alert("x")</script> & <b>\x07 \ud800 | `a` \u202eright'


@dataclass(frozen=True, slots=True)
class Piece:
    start: int
    end: int
    predicates: tuple[str, ...]
    missing: tuple[str, ...] = ()


def record(number: int, size: int, category: str | None = "Food", text: str = "A reference.") -> Record:
    triples = [["Mill", f"p{i}", f"value {i}"] for i in range(size)]
    return Record.of({"id": f"r{number}", "triples": triples, "references": [text], "category": category})


def row(number: int, size: int, wrong: int = 0, slots: bool = False, text: str = "One two three.") -> Row:
    """A row with one fact a triple, the first `wrong` of which go wrong."""
    made = record(number, size, "Food" if number % 2 else "City", text)
    names = made.predicates
    width = len(text) // size
    ends = [width * (i + 1) for i in range(size - 1)] + [len(text)]
    pieces = [Piece(width * i, end, (names[i],), names[i : i + 1] if i < wrong else ()) for i, end in enumerate(ends)]
    mistakes = tuple(Mistake("missed", name, "x", f"{name} is missing") for name in names[:wrong])
    return Row(
        made,
        text,
        Plan(tuple((name,) for name in names)),
        pieces,
        {"bleu": 12.5},
        dict.fromkeys(names[:wrong], "no word of it"),
        mistakes if slots else None,
        size if slots else 0,
    )


def report(rows: list[Row], title: str = "Toy", shown: int = 30, seed: int = 0, partial: str = "") -> Report:
    references = [[reference.text for reference in row.record.references] for row in rows]
    statistics = measure("plain", [row.text for row in rows], references)
    triples, triples_chart = by_triples(rows, statistics)
    predicates, predicates_chart = by_predicate(rows)
    plans = [row.plan for row in rows if row.plan is not None]
    sizes = group_sizes(plans, [1, 1, 2], "By rules.")
    assert sizes is not None
    section = Section(
        "text",
        "Texts",
        (
            Measure("bleu", Score(41.25, "nrefs:var|tok:13a"), (40.0, 42.5)),
            Measure("tau", Score(float("nan"), "kendall")),
            Measure("meteor", None, None, "there is no Java here"),
        ),
    )
    return Report(
        title=title,
        identity={"bundle": "ab12", "limit": 0},
        run={"bundle": title, "records": len(rows)},
        sections=[section],
        rows=rows,
        published_note="None are on file.",
        by_triples=triples,
        by_category=by_category(rows, statistics),
        groups=sizes[0],
        by_predicate=predicates,
        charts=[("by_triples", triples_chart), ("groups", sizes[1]), ("by_predicate", predicates_chart)],
        partial=partial,
        seed=seed,
        shown=shown,
    )
