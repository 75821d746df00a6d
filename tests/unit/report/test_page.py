"""The HTML page of a report: self-contained, escaped, with scores and samples."""

from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from agggen.report.content import Chart
from agggen.report.page import MAX_ROWS, most_faulty, pieces, sample_rows, to_html
from tests.unit.report.examples import NASTY, report, row

ROWS = [row(number, 1 + number % 4, wrong=number % 3) for number in range(40)]


class Page(HTMLParser):
    """Attributes of all elements, and the text of each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = defaultdict(str)
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.inside[tag] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_page_has_scores_samples_and_reasons_and_loads_nothing() -> None:
    page = Page(to_html(report(ROWS, partial="Only 40 of 100 records.")))
    for text in (
        *("Only 40 of 100 records.", "41.25", "40.00 to 42.50", "nrefs:var|tok:13a", "undefined", "None are on file."),
        *("not computed: there is no Java here", "Drawn at random with seed 0.", "Mill | p0 | value 0"),
        *("'value 0' (p0) is incomplete", "p0: no word of it", "References: 1"),
    ):
        assert text in page.inside["body"]
    assert len(page.all("svg")) == 3
    assert "10" in page.inside["svg"]
    assert not any(page.all(tag) for tag in ("script", "link", "img", "iframe", "object", "base", "form"))
    assert all((attributes.get("href") or "#").startswith("#") for _, attributes in page.elements)
    assert "url(" not in page.inside["style"] and "@import" not in page.inside["style"]


@pytest.mark.parametrize("slots", [False, True])
def test_all_texts_are_escaped(slots: bool) -> None:
    html = to_html(report([row(1, 1, wrong=1, slots=slots, text=NASTY)], title=NASTY))
    page = Page(html)
    assert not page.all("script") and len(page.all("style")) == 1
    assert 'alert("x")' in page.inside["mark"]
    assert ("missed: p0" in page.inside["body"]) == slots
    html.encode("utf-8")  # no lone surrogates


@pytest.mark.parametrize("size", [1, 3, 7])
def test_marked_pieces_concatenate_to_the_text(size: int) -> None:
    text = "  Mill — a café,\tserves  日本 🍣 food & <b> .  "
    parts = pieces(row(5, size, text=text))
    assert [number for number, _ in parts if number] == list(range(1, size + 1))
    assert "".join(piece for _, piece in parts) == text


def test_facts_that_overlap_are_not_marked_twice() -> None:
    base_row = row(5, 2, text="abcdef")
    first, second = base_row.facts
    overlapping = replace(base_row, facts=(replace(first, end=4), replace(second, start=2)))
    assert pieces(overlapping) == [(0, ""), (1, "abcd"), (0, "ef")]


def test_samples_are_drawn_by_the_seed_in_the_order_of_the_corpus() -> None:
    ids = [[r.record.id for r in sample_rows(report(ROWS, seed=seed))] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert len(set(ids[0])) == MAX_ROWS < len(ROWS)
    assert ids[0] == sorted(ids[0], key=lambda name: int(name[1:]))
    assert sample_rows(report(ROWS[:9])) == ROWS[:9]


def test_rows_with_the_most_faults_come_first() -> None:
    rows = [row(1, 3, 0), row(2, 3, 1), row(3, 4, 2), row(4, 2, 2)]
    assert [r.record.id for r in most_faulty(report(rows))] == ["r4", "r3", "r2"]
    assert len(most_faulty(report(rows * 20))) == MAX_ROWS
    assert "No text has a fault (strict)" in to_html(report(rows[:1]))


def test_bar_lengths_are_proportional_and_undefined_values_have_no_bar() -> None:
    bars = Chart("T", ("x", "y"), {"a": (10.0, 5.0), "b": (None, float("nan"))}).bars
    assert [(bar.label, bar.share, bar.text) for bar in bars] == [("x", 1, "10.0 a"), ("y", 0.5, "5.0 a")]
    assert Chart("T", (), {"a": ()}).bars == []
