"""The report's page: well-formed, self-contained, escaped, readable in dark and light, usable without a mouse."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from agggen.evaluation.report.charts import draw, ticks
from agggen.evaluation.report.content import Chart, Series
from agggen.evaluation.report.markup import element, join, text
from agggen.evaluation.report.page import to_html
from agggen.evaluation.report.samples import chosen, worst
from agggen.evaluation.report.style import DARK, FACTS, LIGHT, style
from tests.unit.evaluation.report_examples import NASTY, report, row

ROWS = [row(number, 1 + number % 4, wrong=number % 3) for number in range(40)]
EMPTY = {"meta", "rect", "line", "path"}


class Page(HTMLParser):
    """Collects elements and text, and fails where the nesting is wrong."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in EMPTY, f"<{tag}> is never closed"
        assert len({name for name, _ in attrs}) == len(attrs)
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        for tag in set(self.open):
            self.inside.setdefault(tag, []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(to_html(report(ROWS, partial="Only 40 of 100 records.")))


def test_what_is_not_markup_is_text() -> None:
    assert element("p", "1 < 2 & 3", element("b", "<i>"), class_="a", aria_label='"x"') == (
        '<p class="a" aria-label="&quot;x&quot;">1 &lt; 2 &amp; 3<b>&lt;i&gt;</b></p>'
    )
    assert text("a\x00\ud800b") == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"
    assert join(["<", element("rect", x=1)]) == '&lt;<rect x="1"/>'


def test_text_cannot_break_out_of_the_page() -> None:
    nasty = row(1, 1, wrong=1, text=NASTY)
    found = Page(to_html(report([nasty], title=NASTY)))
    assert not found.all("script")
    assert len(found.all("style")) == 1
    assert 'alert("x")' in "".join(found.inside["mark"])
    to_html(report([nasty], title=NASTY)).encode("utf-8")  # no half surrogate pairs are left


def test_the_page_is_well_formed_and_asks_for_nothing(page: Page) -> None:
    assert not any(page.all(tag) for tag in ("script", "link", "img", "iframe", "object", "base", "form"))
    for _, attributes in page.elements:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "data")]
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in style()
    assert "@import" not in style()
    policies = [meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in (policies[0]["content"] or "")


def test_identifiers_are_unique_and_every_link_and_label_leads_somewhere(page: Page) -> None:
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    for _, attributes in page.elements:
        named = [*(attributes.get("aria-labelledby") or "").split(), (attributes.get("href") or "#")[1:]]
        assert {name for name in named if name} <= set(identifiers)
    fills = re.findall(r"url\(#([\w-]+)\)", "".join(str(attributes) for _, attributes in page.elements))
    assert fills
    assert set(fills) <= set(identifiers)


def test_tables_have_captions_and_headers_and_take_the_focus(page: Page) -> None:
    tables = page.all("table")
    assert len(page.all("caption")) == len(tables) >= 5
    assert {attributes.get("scope") for attributes in page.all("th")} == {"col", "row"}
    frames = [attributes for attributes in page.all("div") if attributes.get("class") == "scroll"]
    assert len(frames) == len(tables)
    assert all(frame.get("tabindex") == "0" and frame.get("aria-label") for frame in frames)


def test_headings_never_skip_a_level(page: Page) -> None:
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_charts_have_axis_labels_and_say_every_value_in_words(page: Page) -> None:
    assert len(page.all("svg")) == 3
    assert all(svg.get("role") == "img" and svg.get("aria-labelledby") for svg in page.all("svg"))
    words = " ".join(page.inside["desc"])
    assert "Bar chart of percent by triples of a record (number of records). BLEU: 1 (10)" in words
    labels = page.inside["text"]
    for label in ("triples of a record (number of records)", "percent", "triples in a group", "predicate"):
        assert label in labels


def test_a_partial_report_says_so_first(page: Page) -> None:
    banner = next(i for i, (_, attributes) in enumerate(page.elements) if attributes.get("class") == "partial")
    first_table = next(i for i, (name, _) in enumerate(page.elements) if name == "table")
    assert banner < first_table
    assert "Only 40 of 100 records." in page.texts
    assert not [a for _, a in Page(to_html(report(ROWS))).elements if a.get("class") == "partial"]


def test_what_was_not_computed_says_why(page: Page) -> None:
    assert "not computed: there is no Java here" in page.texts
    assert "undefined" in page.texts
    assert "40.00 to 42.50" in page.texts


def test_facts_are_told_apart_by_numbers_not_only_by_colours() -> None:
    long = row(3, 4, wrong=2, text="aaaabbbbccccdddd")
    found = Page(to_html(report([long], shown=1)))
    first = "".join(found.inside["mark"])
    assert first == "1aaaa2bbbb3cccc4dddd" * 2  # once as a sample, once among the worst
    keys = [attributes for attributes in found.all("li") if "key" in (attributes.get("class") or "")]
    assert len(keys) == 8
    assert "Mill | p0 | value 0" in " ".join(found.texts)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_marked_text_is_the_text_unchanged(size: int) -> None:
    written = "  Mill — a café,\tserves  日本 🍣 food & <b> .  "
    found = to_html(report([row(5, size, text=written)]))
    (shown,) = re.findall(r'<p class="written"[^>]*>(.*?)</p>', found, re.DOTALL)
    assert shown.count("<mark") == size
    assert unescape(re.sub(r"<b>\d</b>|<[^>]*>", "", shown)) == written


def test_pieces_that_overlap_are_not_marked_twice() -> None:
    one = row(5, 2, text="abcdef")
    (first, second) = one.facts
    overlapping = replace(one, facts=(replace(first, end=4), replace(second, start=2)))
    found = to_html(report([overlapping]))
    (shown,) = re.findall(r'<p class="written"[^>]*>(.*?)</p>', found, re.DOTALL)
    assert re.sub(r"<b>\d</b>|<[^>]*>", "", shown) == "abcdef"


def test_samples_are_drawn_by_the_seed_in_the_order_of_the_corpus() -> None:
    ids = [[r.record.id for r in chosen(report(ROWS, shown=10, seed=seed))] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert len(set(ids[0])) == 10
    assert ids[0] == sorted(ids[0], key=lambda name: int(name[1:]))
    assert len(chosen(report(ROWS, shown=100))) == 40


@pytest.mark.parametrize("slots", [False, True])
def test_the_worst_come_first_and_only_where_something_is_wrong(slots: bool) -> None:
    rows = [row(1, 3, 0, slots), row(2, 3, 1, slots), row(3, 4, 2, slots), row(4, 2, 2, slots)]
    assert [r.record.id for r in worst(report(rows))] == ["r4", "r3", "r2"]
    assert [r.record.id for r in worst(report(rows, shown=1))] == ["r4"]
    assert worst(report(rows[:1])) == []
    assert "No record has" in to_html(report(rows[:1]))


# --- colours ---------------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_bars_stand_out_in_both_schemes(scheme: dict[str, str]) -> None:
    assert set(LIGHT) == set(DARK)
    pairs = [("ink", "page"), ("ink", "panel"), ("faint", "page"), ("link", "page"), ("alarm-ink", "alarm")]
    pairs += [("alarm-ink", "page"), *(("ink", f"f{number}") for number in range(FACTS))]
    weak = {pair: contrast(scheme[pair[0]], scheme[pair[1]]) for pair in pairs}
    assert {pair: value for pair, value in weak.items() if value < 4.5} == {}
    for number in range(4):
        assert contrast(scheme[f"s{number}"], scheme["page"]) >= 3
    assert contrast(scheme["rule"], scheme["page"]) >= 3


def test_every_colour_that_the_style_uses_is_defined() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", style()))
    assert used <= set(LIGHT)
    assert {f"f{number}" for number in range(FACTS)} <= used


# --- charts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        (100, [0, 20, 40, 60, 80, 100]),
        (97.3, [0, 20, 40, 60, 80, 100]),
        (7, [0, 2, 4, 6, 8]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (0, [0, 1]),
        (float("nan"), [0, 1]),
    ],
)
def test_ticks_are_round_and_reach_the_highest_value(highest: float, expected: list[float]) -> None:
    assert ticks(highest) == pytest.approx(expected)


@pytest.mark.parametrize("horizontal", [False, True])
def test_bars_are_as_long_as_their_values(horizontal: bool) -> None:
    series = (Series("a", (10.0, 5.0, None)), Series("b", (0.0, float("nan"), 10.0)))
    drawn = draw(Chart("T", "place", "size", ("x", "y", "z"), series, horizontal), "t")
    bars = [bar for bar in Page(drawn).all("rect") if "class" in bar and bar["y"] != "6.0"]  # the legend's are at 6
    side = "width" if horizontal else "height"
    first, second = ([float(bar[side] or 0) for bar in bars if bar["class"] == f"bar s{n}"] for n in (0, 1))
    assert first[0] == pytest.approx(2 * first[1], abs=0.2)
    assert (second[0], second[1]) == (0, first[0])


def test_a_chart_without_anything_to_show_is_drawn() -> None:
    Page(draw(Chart("T", "predicate", "number", (), (Series("a", ()),), True), "t"))
