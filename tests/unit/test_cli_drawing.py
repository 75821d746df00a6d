"""Drawings say what the tree and the facts are, and are valid whatever the words."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from agggen.facts.frames import Frame, Phrase, Sentence
from agggen.facts.grouping import fact_starts
from agggen_platform.cli.drawing import bracketed, draw_svg
from tests.unit.facts.role_notation import joined, sentence

TEXT = "Ann ( 30 ) lives in Oslo , which lies in Norway ."
ONE = sentence(
    TEXT,
    "[ARG0: Ann ( 30 )] [V: lives] [ARGM-LOC: in Oslo , which lies in Norway] .",
    "Ann ( 30 ) lives in [ARG1: Oslo] , [R-ARG1: which] [V: lies] [ARGM-LOC: in Norway] .",
)
SVG = "{http://www.w3.org/2000/svg}"


def test_brackets() -> None:
    inner = "(lies (ARG1 Oslo) , (R-ARG1 which) (V lies) (ARGM-LOC in Norway))"
    assert bracketed(ONE) == f"(S (lives (ARG0 Ann -LRB- 30 -RRB-) (V lives) (ARGM-LOC in {inner})) .)"
    assert bracketed(sentence("No verb .")) == "(S No verb .)"


@given(
    words=st.lists(st.text(min_size=1).filter(lambda word: not any(c.isspace() for c in word)), max_size=8),
    text=st.text(),
)
def test_drawings_are_valid_xml_that_holds_all_boxes(words: list[str], text: str) -> None:
    phrases = (Phrase("ARG0", 0, 1), Phrase("V", 1, 2), Phrase("ARG1", 2, len(words)))
    frames = (Frame(1, phrases),) if len(words) > 2 else ()
    one = Sentence(joined(words), frames)
    root = ElementTree.fromstring(draw_svg(text, [one]))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = list(root.iter(f"{SVG}rect"))
    assert len(boxes) == (3 if frames else 0) + len(fact_starts(one))
    for box in boxes:
        left, top, right, bottom = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert left >= 0 and top >= 0 and right > 0
        assert left + right <= width and top + bottom <= height
