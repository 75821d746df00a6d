"""Text -> tokens -> the same text.

A text is cut into pieces: numbers with inner points or commas (``16,000``, ``3.5``, ``5.2e3``), words, clitics
(``'s``, ``n't``) and every other visible character on its own. One space between two tokens is implied; where two
pieces touch, one of them carries the joiner ``￭`` (U+FFED) on the side that touches. Punctuation carries it whenever
there is any, so that words stay bare and a word of the source is the same token wherever the text says it::

    (Ohio's) 16,000-seat hall.    ->    (￭ Ohio ￭'s ￭) 16,000 ￭-￭ seat hall ￭.

White space other than one space between two pieces, and the joiner itself, become a *raw* token: ``▁`` and the code
points in hexadecimal (``▁20-20``); no space is implied beside it. So every string comes back exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

JOINER = "\uffed"
RAW = "\u2581"

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
_CODE = "(?:10[0-9a-f]{4}|[0-9a-f]{1,5})"
_RAW_TOKEN = re.compile(f"{RAW}({_CODE}(?:-{_CODE})*)")

_OPENING = frozenset("([{")
_CLOSING = frozenset(",.;:!?)]}%")
_SEPARATING = frozenset(",;")
_WORDS = frozenset(("word", "number"))


class Token(NamedTuple):
    """A token's written form (joiners included) and the characters ``[start, end)`` of the text it stands for."""

    text: str
    start: int
    end: int


class _Piece(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def tokenise(text: str, normalise: bool = False) -> list[Token]:
    """The tokens of `text`; ``detokenise(token.text for token in tokenise(text)) == text`` for every string.

    With `normalise` (what a model reads and writes) there are no raw tokens: any run of white space or joiners counts
    as one space, at the ends as nothing; the space before closing punctuation or a clitic (``Arion ,``, ``Roma 's``)
    and after an opening bracket is dropped, and a comma or semicolon that runs into a word (``Akita,Japan``) gets one.
    Offsets are those of the given text in both cases.
    """
    pieces: list[_Piece] = []
    for match in _PIECE.finditer(text):
        start, end = match.span()
        kind = match.lastgroup or "mark"
        if kind == "space":
            if normalise or (match.group() == " " and start > 0 and end < len(text)):
                continue
            pieces.append(_Piece("raw", RAW + "-".join(f"{ord(char):x}" for char in match.group()), start, end))
        else:
            pieces.append(_Piece(kind, match.group(), start, end))
    touching = [left.end == right.start for left, right in pairwise(pieces)]
    if normalise:
        touching = _mend_spacing(pieces, touching)

    joins_left, joins_right = [False] * len(pieces), [False] * len(pieces)
    for index, touches in enumerate(touching):
        left, right = pieces[index], pieces[index + 1]
        if not touches or "raw" in (left.kind, right.kind):
            continue
        if left.kind == "mark" and (right.kind in _WORDS or (right.kind == "mark" and left.text in _OPENING)):
            joins_right[index] = True
        else:
            joins_left[index + 1] = True
    return [
        Token(JOINER * joins_left[i] + piece.text + JOINER * joins_right[i], piece.start, piece.end)
        for i, piece in enumerate(pieces)
    ]


def _mend_spacing(pieces: list[_Piece], touching: list[bool]) -> list[bool]:
    """Which neighbours should touch, where the text's own spacing is plainly a slip."""
    mended = list(touching)
    for index, touches in enumerate(touching):
        left, right = pieces[index], pieces[index + 1]
        if touches:
            # "16,000" is one piece, so a comma that is a piece separates.
            mended[index] = not (left.text in _SEPARATING and right.kind == "word")
        elif left.text in _OPENING or (right.kind == "clitic" and left.kind in _WORDS):
            mended[index] = True
        elif right.text in _CLOSING:
            # What a mark runs into is its own: " .5" and " :smile" stay, " ,otherwise" is mended on both sides.
            runs_into = pieces[index + 2].kind if index + 1 < len(touching) and touching[index + 1] else None
            mended[index] = runs_into not in _WORDS or (runs_into == "word" and right.text in _SEPARATING)
    return mended


def detokenise(tokens: Iterable[str]) -> str:
    """The text that the tokens stand for; joiners with nothing to join to (at the ends) have no effect."""
    return detokenise_with_offsets(tokens)[0]


def detokenise_with_offsets(tokens: Iterable[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text and each token's span ``(start, end)`` in it; an implied space belongs to no token."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    position = 0
    glued = True  # nothing stands before the first token
    for token in tokens:
        if raw := _RAW_TOKEN.fullmatch(token):
            body = "".join(chr(int(code, 16)) for code in raw.group(1).split("-"))
            joins_left = joins_right = True
        else:
            body = token.strip(JOINER)
            joins_left, joins_right = token.startswith(JOINER), token.endswith(JOINER)
        if not glued and not joins_left:
            parts.append(" ")
            position += 1
        parts.append(body)
        spans.append((position, position + len(body)))
        position += len(body)
        glued = joins_right
    return "".join(parts), spans
