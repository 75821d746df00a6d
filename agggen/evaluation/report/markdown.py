"""The report as Markdown: the same tables as the page, without charts and samples."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agggen.evaluation.report.content import Report, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_BREAK = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")


def to_markdown(report: Report) -> str:
    """The tables of the report under headings."""
    return "\n".join(_lines(report)) + "\n"


def escaped(text: str) -> str:
    """`text` on one line, with every sign that Markdown would read as markup made plain."""
    return _SPECIAL.sub(r"\\\1", _BREAK.sub(" ", text).strip()).replace("&", "&amp;")


def _lines(report: Report) -> Iterator[str]:
    yield f"# {escaped(report.title)}"
    yield ""
    if report.partial:
        yield f"**Partial.** {escaped(report.partial)}"
        yield ""
    yield "## Scores"
    yield ""
    for section in report.sections:
        yield from _table(section.table())
    yield "## Beside published systems"
    yield ""
    if report.published is not None:
        yield from _table(report.published)
    if report.published_note:
        yield escaped(report.published_note)
        yield ""
    yield "## Parts"
    yield ""
    for table in (report.by_triples, report.by_category, report.groups, report.by_predicate):
        if table is not None:
            yield from _table(table)
    yield "## The run"
    yield ""
    yield from _table(report.run_table())


def _table(table: Table) -> Iterator[str]:
    yield f"**{escaped(table.caption)}**"
    yield ""
    yield _row(table.columns)
    yield "|" + " --- |" * len(table.columns)
    yield from (_row(row) for row in table.shown())
    yield ""
    if table.note:
        yield escaped(table.note)
        yield ""


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
