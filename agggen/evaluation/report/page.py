"""The report as one HTML page that needs nothing else: no script, no font, no image, no network.

It can be read with a keyboard alone (links, collapsed parts and wide tables take the focus), without colours, in light
and dark, on paper, and by a screen reader (captions, headers, text alternatives of charts).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agggen.evaluation.report.charts import draw
from agggen.evaluation.report.content import OURS, Chart, Report, Row, Table
from agggen.evaluation.report.markup import Html, element, join
from agggen.evaluation.report.samples import chosen, sample, worst
from agggen.evaluation.report.style import style

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def to_html(report: Report) -> str:
    """The whole page."""
    parts = list(_parts(report))
    links = [element("li", element("a", title, href=f"#{key}")) for key, title, _ in parts]
    body = [
        element("a", "Skip to the scores", href="#scores", class_="skip"),
        element("h1", report.title, dir="auto"),
        *([element("p", element("b", "Partial. "), report.partial, class_="partial")] if report.partial else []),
        element("nav", element("ul", *links), aria_label="Parts of this report"),
        element("main", *(_part(key, title, content) for key, title, content in parts)),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", report.title),
        element("style", Html(style())),
    ]
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def _parts(report: Report) -> Iterator[tuple[str, str, list[Html]]]:
    """Identifier, title and content of each part."""
    charts = {name: _figure(name, chart) for name, chart in report.charts}

    def with_chart(name: str, *tables: Table | None) -> list[Html]:
        return [*([charts[name]] if name in charts else []), *(_table(table) for table in tables if table is not None)]

    yield "scores", "Scores", [_table(section.table()) for section in report.sections]
    published = [] if report.published is None else [_table(report.published, mark=OURS)]
    yield "published", "Beside published systems", [*published, *_note(report.published_note)]
    yield "breakdown", "By triples and category", with_chart("by_triples", report.by_triples, report.by_category)
    if report.groups is not None:
        yield "groups", "Groups of plans", with_chart("groups", report.groups)
    yield "predicates", "Errors by predicate", with_chart("by_predicate", report.by_predicate)
    drawn, bad = chosen(report), worst(report)
    yield "samples", f"{len(drawn)} samples", _samples(drawn, f"Drawn by chance with seed {report.seed}.")
    what = "slot errors" if any(row.mistakes is not None for row in report.rows) else "triples that are not mentioned"
    by = f"The records with the most {what}, shorter ones first." if bad else f"No record has {what}."
    yield "worst", f"The worst {len(bad)}" if bad else "The worst", _samples(bad, by)
    yield "run", "The run", [_table(report.run_table(), code=True)]


def _part(key: str, title: str, content: Sequence[Html]) -> Html:
    return element("section", element("h2", title, id=f"{key}-title"), *content, id=key, aria_labelledby=f"{key}-title")


def _figure(name: str, chart: Chart) -> Html:
    caption = [element("figcaption", chart.note, class_="note")] if chart.note else []
    return element("figure", draw(chart, f"chart-{name}"), *caption)


def _samples(rows: Sequence[Row], note: str) -> list[Html]:
    return [*_note(note), *(sample(row) for row in rows)]


def _note(note: str) -> list[Html]:
    return [element("p", note, class_="note")] if note else []


def _table(table: Table, mark: str = "", code: bool = False) -> Html:
    """A table in a frame that scrolls; `mark` names the row that stands out, `code` sets the values as code."""
    numbers = [_is_number(table, column) for column in range(len(table.columns))]
    kinds = [
        "number" if number else "signature" if name == "signature" else None
        for number, name in zip(numbers, table.columns, strict=True)
    ]
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(table.columns, kinds, strict=True)]
    body = []
    for row in table.shown():
        cells = [
            element("td", element("code", cell) if code else cell, class_=kind, dir="auto")
            for cell, kind in zip(row[1:], kinds[1:], strict=True)
        ]
        first = element("th", row[0], scope="row", dir="auto")
        body.append(element("tr", first, *cells, class_="ours" if mark and row[0] == mark else None))
    whole = element(
        "table",
        element("caption", table.caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    frame = element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=table.caption)
    return join([frame, *_note(table.note)])


def _is_number(table: Table, column: int) -> bool:
    cells = [row[column] for row in table.rows]
    return column > 0 and all(cell is None or isinstance(cell, int | float) for cell in cells)
