"""Tokenisation with character offsets; detokenising the tokens gives the text with normalised spacing.

A text is split into numbers with inner points or commas (``16,000``, ``3.5``, ``5.2e3``), words, clitics (``'s``,
``n't``) and other visible characters, each a separate token. A single space between tokens is implied. If two tokens
are adjacent in the text, one of them has the joiner ``￭`` (U+FFED) on that side. If one of them is a punctuation mark,
the mark has the joiner, so that all occurrences of a word are the same token::

    (Ohio's) 16,000-seat hall.    ->    (￭ Ohio ￭'s ￭) 16,000 ￭-￭ seat hall ￭.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

JOINER = "\uffed"

_PIECE = re.compile(
    rf"""
    (?P<space> [\s{JOINER}]+ )
  | (?P<number> \d+ (?:[.,]\d+)+ (?:[eE][+-]?\d+)? )
  | (?P<clitic> n['\u2019]t(?!\w) | ['\u2019](?:s|re|ve|ll|d|m)(?!\w) )
  | (?P<word> \w[\w\u0300-\u036f]*? (?=n['\u2019]t(?!\w)) | \w[\w\u0300-\u036f]* )
  | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_OPENING = frozenset("([{")
_CLOSING = frozenset(",.;:!?)]}%")
_SEPARATING = frozenset(",;")
_WORDS = frozenset(("word", "number"))

_Piece = re.Match[str]  # a match of `_PIECE`; the name of its group is its kind


class Token(NamedTuple):
    """A token with its joiners, and its characters ``[start, end)`` in the text."""

    text: str
    start: int
    end: int


def tokenise(text: str) -> list[Token]:
    """The tokens of `text`, with offsets in it.

    Each sequence of whitespace and joiners becomes one space, or is dropped at the ends of the text. The space before
    closing punctuation or a clitic (``Arion ,``, ``Roma 's``) and after an opening bracket is removed, and a space is
    added between a comma or semicolon and a word (``Akita,Japan``).
    """
    pieces = [piece for piece in _PIECE.finditer(text) if piece.lastgroup != "space"]
    joins_left, joins_right = [False] * len(pieces), [False] * len(pieces)
    for index, is_adjacent in enumerate(_adjacent(pieces)):
        left, right = pieces[index], pieces[index + 1]
        if not is_adjacent:
            continue
        kind = right.lastgroup
        if left.lastgroup == "mark" and (kind in _WORDS or (kind == "mark" and left[0] in _OPENING)):
            joins_right[index] = True
        else:
            joins_left[index + 1] = True
    return [
        Token(JOINER * joins_left[i] + piece[0] + JOINER * joins_right[i], *piece.span())
        for i, piece in enumerate(pieces)
    ]


def _adjacent(pieces: list[_Piece]) -> list[bool]:
    """Whether each piece touches the next, after correction of spacing errors."""
    adjacent = [left.end() == right.start() for left, right in pairwise(pieces)]
    corrected = list(adjacent)
    for index, is_adjacent in enumerate(adjacent):
        left, right = pieces[index], pieces[index + 1]
        if is_adjacent:
            # "16,000" is one piece, so a separate comma is punctuation.
            corrected[index] = not (left[0] in _SEPARATING and right.lastgroup == "word")
        elif left[0] in _OPENING or (right.lastgroup == "clitic" and left.lastgroup in _WORDS):
            corrected[index] = True
        elif right[0] in _CLOSING:
            # A mark directly before a word belongs to the word (" .5", " :smile"), but " ,otherwise" is corrected.
            next_kind = pieces[index + 2].lastgroup if index + 1 < len(adjacent) and adjacent[index + 1] else None
            corrected[index] = next_kind not in _WORDS or (next_kind == "word" and right[0] in _SEPARATING)
    return corrected


def detokenise(tokens: Iterable[str]) -> str:
    """The text of the tokens."""
    return detokenise_with_offsets(tokens)[0]


def detokenise_with_offsets(tokens: Iterable[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text of the tokens, and each token's characters ``[start, end)`` in the text, without implied spaces."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    position = 0
    joined = True  # no space before the first token
    for token in tokens:
        body = token.strip(JOINER)
        if not joined and not token.startswith(JOINER):
            parts.append(" ")
            position += 1
        parts.append(body)
        spans.append((position, position + len(body)))
        position += len(body)
        joined = token.endswith(JOINER)
    return "".join(parts), spans
