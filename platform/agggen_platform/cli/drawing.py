"""The tree and the facts of a text to look at: brackets in plain text, or an SVG."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from agggen.facts.frames import Sentence
from agggen.facts.grouping import starts_of
from agggen.facts.tree import Level, Node, build_tree

_COLUMN, _ROW, _MARGIN, _FONT = 7.3, 24, 12, 12  # pixels: a character, a line, around the drawing, letters
_FACTS = ("#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3", "#ede9fe", "#ffedd5")
_PREDICATE, _ARGUMENT, _INK = "#c7d2fe", "#f3f4f6", "#111827"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def bracketed(sentence: Sentence, level: Level = "full") -> str:
    """The tree of a sentence on one line: ``(S (is (ARG1 Bolt) (V is) (ARG2 a comic (by (V by) (ARG1 Cohn)))) .)``.

    A frame is named by its predicate; a frame inside an argument stands where it stands in the text. Brackets of the
    text are written ``-LRB-`` and ``-RRB-``.
    """
    words = sentence.words.words
    roots = build_tree(sentence, level)
    return f"(S {' '.join(_between(words, roots, 0, len(words)))})"


def draw_svg(text: str, sentences: Sequence[Sentence], level: Level = "full") -> str:
    """An SVG of a text's trees over its facts, one sentence below the other.

    Each frame is a row of boxes, one a phrase, above the words it is made of, and below the argument it elaborates; the
    words are coloured by the fact that they belong to, with its number in the text below.
    """
    parts: list[str] = []
    top, width, fact = float(_MARGIN), 0.0, 0
    for sentence in sentences:
        words = sentence.words.words
        if not words:
            continue
        lefts = _lefts(words)
        roots = build_tree(sentence, level)
        rows = 0
        for node, depth in _with_depths(roots, 0):
            rows = max(rows, depth + 1)
            parts.extend(_frame_boxes(node, words, lefts, top + depth * _ROW))
        top += rows * _ROW
        for start, end in pairwise((*starts_of(sentence, roots, level), len(words))):
            colour = _FACTS[fact % len(_FACTS)]
            fact += 1
            parts.append(_box(lefts[start], lefts[end], top, colour))
            parts.append(_letters(lefts[start], top + _ROW, str(fact), 9))
            parts.extend(_letters(lefts[index], top, words[index]) for index in range(start, end))
        top += 2.5 * _ROW
        width = max(width, lefts[-1])
    size = f"{width + _MARGIN:.0f}", f"{max(top - _ROW, 2 * _MARGIN):.0f}"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
            f'viewBox="0 0 {size[0]} {size[1]}" font-family="monospace" font-size="{_FONT}" fill="{_INK}" role="img">',
            f"<title>{_xml(text)}</title>",
            *parts,
            "</svg>\n",
        )
    )


def _between(words: Sequence[str], nodes: Sequence[Node], start: int, end: int) -> Iterator[str]:
    """The words [start, end) with the frames that stand among them."""
    for node in nodes:
        yield from _plain(words[start : node.start])
        yield f"({' '.join(_inside(words, node))})"
        start = node.end
    yield from _plain(words[start:end])


def _inside(words: Sequence[str], node: Node) -> Iterator[str]:
    yield from _plain(words[node.predicate : node.predicate + 1])
    reached = node.start
    for number, phrase in enumerate(node.phrases):
        yield from _plain(words[reached : phrase.start])
        inside = _between(words, node.children.get(number, ()), phrase.start, phrase.end)
        yield f"({phrase.role} {' '.join(inside)})"
        reached = phrase.end


def _plain(words: Sequence[str]) -> Iterator[str]:
    return (word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words)


def _with_depths(nodes: Sequence[Node], depth: int) -> Iterator[tuple[Node, int]]:
    for node in nodes:
        yield node, depth
        for children in node.children.values():
            yield from _with_depths(children, depth + 1)


def _lefts(words: Sequence[str]) -> list[float]:
    """Where each word begins, in pixels, and as the last one where a further word would."""
    lefts = [float(_MARGIN)]
    for word in words:
        columns = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in word)
        lefts.append(lefts[-1] + _COLUMN * (columns + 1))
    return lefts


def _frame_boxes(node: Node, words: Sequence[str], lefts: Sequence[float], top: float) -> Iterator[str]:
    for phrase in node.phrases:
        left, right = lefts[phrase.start], lefts[phrase.end]
        yield _box(left, right, top, _PREDICATE if phrase.is_predicate else _ARGUMENT)
        name = " ".join(words[phrase.start : phrase.end]) if phrase.is_predicate else phrase.role
        yield _letters(left, top, name, min(9.0, 1.6 * (right - left - 4) / max(1, len(name))))


def _box(left: float, right: float, top: float, colour: str) -> str:
    return (
        f'<rect x="{left - 2:.1f}" y="{top:.1f}" width="{right - left - 3:.1f}" height="{_ROW - 4}" rx="3" '
        f'fill="{colour}" stroke="#9ca3af" stroke-width="0.5"/>'
    )


def _letters(left: float, top: float, letters: str, size: float = _FONT) -> str:
    """Text whose line begins at `top`."""
    return f'<text x="{left:.1f}" y="{top + 14:.1f}" font-size="{size:.1f}">{_xml(letters)}</text>'


def _xml(letters: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", letters))
