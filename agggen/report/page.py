"""The report for reading: an HTML page that needs nothing else (no script, font, image or network)."""

from __future__ import annotations

import random
import re

from jinja2 import Environment, PackageLoader, StrictUndefined

from agggen.generation.results import WrittenFact
from agggen.report.content import OURS, Report, Row, shown

FACT_COLOURS = 6
"""Colours for facts; a text with more facts starts over, and the numbers tell them apart."""

# Controls, halves of surrogate pairs and non-characters, which no HTML page may hold.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def to_html(report: Report) -> str:
    """The whole page; every text in it is escaped."""
    pages = Environment(
        loader=PackageLoader("agggen", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    pages.filters |= {"pieces": pieces, "shown": shown, "triples_of": triples_of}
    drawn, bad = chosen(report), worst(report)
    page = pages.get_template("page.html.jinja").render(
        report=report, chosen=drawn, worst=bad, ours=OURS, colours=FACT_COLOURS
    )
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", page)


def chosen(report: Report) -> list[Row]:
    """Rows drawn by the report's seed, in the order of the corpus."""
    number = min(report.shown, len(report.rows))
    places = random.Random(report.seed).sample(range(len(report.rows)), number)
    return [report.rows[place] for place in sorted(places)]


def worst(report: Report) -> list[Row]:
    """The rows with the most faults, those of fewer triples first among equals; rows without faults are left out."""
    faulty = [row for row in report.rows if row.check.faults]
    faulty.sort(key=lambda row: (-len(row.check.faults), len(row.record.triples), row.record.id))
    return faulty[: report.shown]


def pieces(row: Row) -> list[tuple[int, str]]:
    """The text in pieces, each with the number of its fact or 0; a fact that overlaps an earlier one has no piece."""
    parts: list[tuple[int, str]] = []
    position = 0
    for number, fact in enumerate(row.facts, start=1):
        piece = row.text[fact.start : fact.end]
        if fact.start < position or not piece.strip():
            continue
        start = fact.start + len(piece) - len(piece.lstrip())
        end = start + len(piece.strip())
        parts += [(0, row.text[position:start]), (number, row.text[start:end])]
        position = end
    return [*parts, (0, row.text[position:])]


def triples_of(row: Row, fact: WrittenFact) -> str:
    """The triples that a fact was written for."""
    triples = dict(zip(row.record.predicates, row.record.triples, strict=True))
    return "; ".join(str(triples.get(name, name)) for name in fact.predicates) or "no triple"
