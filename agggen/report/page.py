"""Self-contained HTML pages of `agggen evaluate` and `agggen check`."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from agggen.checks import CheckedText
from agggen.display import split_at_spans
from agggen.generation.results import WrittenFact
from agggen.report.content import OUR_NAME, Report, Row, format_cell

MAX_ROWS = 30  # maximum number of sampled rows; maximum number of rows with the most faults
FACT_COLOURS = 6  # number of colours for facts, which are used in turn

# Control characters, lone surrogates and non-characters, which HTML does not allow.
_INVALID_IN_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def environment() -> Environment:
    """The Jinja environment of this package's templates, which escapes all texts."""
    loader = PackageLoader("agggen", "report")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)


def to_html(report: Report) -> str:
    templates = environment()
    templates.filters |= {"pieces": pieces, "format_cell": format_cell, "triples_of": triples_of}
    page = templates.get_template("page.html.jinja").render(
        report=report, samples=sample_rows(report), worst=most_faulty(report), ours=OUR_NAME, colours=FACT_COLOURS
    )
    return _INVALID_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", page)


def write_checks_page(path: Path, checked: Sequence[CheckedText], name: str) -> None:
    """Writes the page of `agggen check`: texts with marked spans and verdicts, in descending order of risk."""
    by_risk = sorted(checked, key=lambda entry: -entry.risk)
    template = environment().get_template("checks.html.jinja")
    path.write_text(template.render(name=name, checked=by_risk, pieces=split_at_spans), encoding="utf-8")


def sample_rows(report: Report) -> list[Row]:
    """At most MAX_ROWS random rows (with the report's seed), in the order of the corpus."""
    indices = random.Random(report.seed).sample(range(len(report.rows)), min(MAX_ROWS, len(report.rows)))
    return [report.rows[index] for index in sorted(indices)]


def most_faulty(report: Report) -> list[Row]:
    """At most MAX_ROWS rows with faults, by descending number of faults, then by number of triples."""
    faulty = [row for row in report.rows if row.check.faults]
    faulty.sort(key=lambda row: (-len(row.check.faults), len(row.record.triples), row.record.id))
    return faulty[:MAX_ROWS]


def pieces(row: Row) -> list[tuple[int, str]]:
    """The text as (fact number from 1, or 0 outside facts; substring); ignores facts that overlap an earlier fact."""
    spans = []
    for fact in row.facts:
        piece = row.text[fact.start : fact.end]
        start = fact.start + len(piece) - len(piece.lstrip())
        spans.append((start, start + len(piece.strip())))
    return split_at_spans(row.text, spans)


def triples_of(row: Row, fact: WrittenFact) -> str:
    """A fact's triples as one line, or ``no triple``."""
    triple_of = dict(zip(row.record.predicates, row.record.triples, strict=True))
    return "; ".join(str(triple_of.get(name, name)) for name in fact.predicates) or "no triple"
