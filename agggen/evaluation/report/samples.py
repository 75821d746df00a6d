"""Which records a report shows, and how one looks: the text with its facts marked, the plan, what is wrong, references.

A fact is marked by a colour and by a number; the list below the text says which triples each number stands for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from agggen.evaluation.report.content import Report, Row, shown
from agggen.evaluation.report.markup import Html, element, join
from agggen.evaluation.report.style import FACTS


def chosen(report: Report) -> list[Row]:
    """Rows drawn by the report's seed, in the order of the corpus."""
    number = min(report.shown, len(report.rows))
    places = random.Random(report.seed).sample(range(len(report.rows)), number)
    return [report.rows[place] for place in sorted(places)]


def worst(report: Report) -> list[Row]:
    """The rows with the most errors, those of fewer triples first among equals; rows without errors are left out."""
    wrong = [row for row in report.rows if row.errors]
    return sorted(wrong, key=lambda row: (-row.errors, len(row.record.triples), row.record.id))[: report.shown]


def sample(row: Row, level: str = "h3") -> Html:
    """A record as an article."""
    category = f" · {row.record.category}" if row.record.category else ""
    return element(
        "article",
        element(level, f"{row.record.id}{category}", dir="auto"),
        element("p", _marked(row), class_="written", dir="auto"),
        _key(row) if row.facts else _triples(row),
        *([] if row.plan is None else [_line("Plan", element("span", str(row.plan), class_="plan"))]),
        *_errors(row),
        *([_line("Scores", _scores(row))] if row.scores else []),
        *_references(row),
        class_="sample",
    )


def _marked(row: Row) -> Html:
    """The text with each fact's piece marked and numbered; pieces that overlap an earlier one are not marked."""
    parts: list[str] = []
    position = 0
    for number, fact in enumerate(row.facts, start=1):
        piece = row.text[fact.start : fact.end]
        if fact.start < position or not piece.strip():
            continue
        start = fact.start + len(piece) - len(piece.lstrip())
        end = start + len(piece.strip())
        label = element("b", str(number))
        parts += [row.text[position:start], element("mark", label, row.text[start:end], class_=_colour(number))]
        position = end
    return join([*parts, row.text[position:]])


def _colour(number: int) -> str:
    return f"f{(number - 1) % FACTS}"


def _key(row: Row) -> Html:
    """The facts by number: their triples, and what their piece of the text does not mention."""
    triples = dict(zip(row.record.predicates, row.record.triples, strict=True))
    lines = []
    for number, fact in enumerate(row.facts, start=1):
        said = "; ".join(str(triples[name]) if name in triples else name for name in fact.predicates) or "no triple"
        label = element("b", str(number))
        missing = (
            [element("span", f" — not mentioned: {', '.join(fact.missing)}", class_="wrong")] if fact.missing else []
        )
        lines.append(element("li", label, f" {said}", *missing, class_=f"key {_colour(number)}", dir="auto"))
    return element("ul", *lines, class_="facts")


def _triples(row: Row) -> Html:
    return element("ul", *(element("li", str(triple), dir="auto") for triple in row.record.triples), class_="facts")


def _line(title: str, what: str) -> Html:
    return element("p", element("b", f"{title}: "), what)


def _errors(row: Row) -> Iterator[Html]:
    if row.unmentioned:
        items = [f"{name} ({why})" for name, why in row.unmentioned.items()]
        yield _line("Not mentioned", element("span", "; ".join(items), class_="wrong"))
    if row.mistakes:
        items = [f"{mistake.kind}: {mistake.why or mistake.slot}" for mistake in row.mistakes]
        yield _line("Slot errors", element("span", "; ".join(items), class_="wrong"))


def _scores(row: Row) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in row.scores.items())


def _references(row: Row) -> Iterator[Html]:
    references = row.record.references
    if references:
        count = "1 reference" if len(references) == 1 else f"{len(references)} references"
        items = [
            element(
                "li", reference.text, *([] if reference.plan is None else _plan_of(str(reference.plan))), dir="auto"
            )
            for reference in references
        ]
        yield element("details", element("summary", count), element("ul", *items))


def _plan_of(plan: str) -> Sequence[str]:
    return (" ", element("span", plan, class_="plan"))
