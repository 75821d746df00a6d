"""Carries the facts of tokenised texts, as the AggGen paper's release has them, over to raw texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError, RecordError
from agggen.records import Fact, Reference

_MARKS = {
    '"': "\u201c\u201d\u201e",
    "'": "\u2018\u2019`",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
}  # quotes, dashes
_SIMILAR = 0.85  # minimum similarity of texts from which the segmenter dropped or moved words
_SAME = str.maketrans({mark: plain for plain, marks in _MARKS.items() for mark in marks})
_CLOSERS = ",.;:!?)]}%"


def attach_facts(text: str, facts: Sequence[str]) -> tuple[str, ...] | None:
    """Segments the raw `text` like the tokenised `facts`; the segments concatenate exactly to `text`.

    Whitespace at a boundary belongs to the segment before it; kinds of quotes and dashes are ignored. If other
    characters differ, boundaries are transferred by a character alignment and moved to the beginning of a word.

    Returns:
        The pieces, or None if the two are not the same text (less than 85 % of the characters alike).
    """
    raw = [position for position, character in enumerate(text) if not character.isspace()]
    # Only whole tokens are Penn Treebank quotes: in the raw text one character must stay one character.
    solid = ["".join('"' if token in ("``", "''") else token for token in fact.split()) for fact in facts]
    solid = [fact.translate(_SAME) for fact in solid if fact]
    if not raw or not solid:
        return None
    ends: list[int] = []
    for fact in solid[:-1]:
        ends.append(len(fact) + (ends[-1] if ends else 0))
    theirs, ours = "".join(solid), "".join(text[position] for position in raw).translate(_SAME)
    if theirs != ours:
        mapped = _carry(ends, theirs, ours, [later - earlier > 1 for earlier, later in pairwise(raw)])
        if mapped is None:
            return None
        ends = mapped
    cuts = [0, *(raw[end] for end in ends), len(text)]
    return tuple(text[start:end] for start, end in pairwise(cuts))


def _carry(ends: list[int], theirs: str, ours: str, space_after: list[bool]) -> list[int] | None:
    """The positions in `ours` of the boundaries in `theirs` (both without whitespace); None if too different."""
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    if matcher.ratio() < _SIMILAR:
        return None
    carried: list[int] = []
    for end in ends:
        # The last aligned character before the boundary; dropped closing punctuation belongs to it.
        block = max((b for b in matcher.get_matching_blocks() if b.a < end), key=lambda b: b.a, default=None)
        if block is None or not block.size:
            continue
        position = block.b + min(end - block.a, block.size)
        while position < len(ours) and ours[position] in _CLOSERS and theirs[end : end + 1] != ours[position]:
            position += 1
        while 0 < position < len(ours) and not space_after[position - 1] and ours[position - 1 :][:2].isalnum():
            position -= 1
        if (carried[-1] if carried else 0) < position < len(ours):
            carried.append(position)
    return carried


def letters(text: str) -> str:
    """The letters and digits of `text` in lower case, which tokenisers do not change."""
    return "".join(character for character in text.casefold() if character.isalnum())


def aligned_reference(columns: Sequence[str]) -> Reference:
    """The tokenised text of a row ``tree, plan, fact, fact, ...`` with its facts and their predicates.

    Raises:
        RecordError: a column is missing, or the numbers of groups and facts differ.
    """
    if len(columns) < 3:
        raise RecordError("needs a tree, a plan and at least one fact, separated by tabs")
    _, plan, *facts = columns
    slots = plan.split("|")
    if len(slots) != len(facts):
        raise RecordError(f"the plan has {len(slots)} groups for {len(facts)} facts")
    spaced = [fact.strip() + " " for fact in facts[:-1]] + [facts[-1].strip()]
    return Reference(
        "".join(spaced),
        tuple(
            Fact(text, tuple(name for name in slot.split("&&") if name))
            for text, slot in zip(spaced, slots, strict=True)
        ),
    )


def tab_separated(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number (from 1) and columns of each line of a file.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or a line cannot be read.
    """
    with open_source(path) as (stream, name):
        for item in read_lines(stream, name):
            if isinstance(item, Reject):
                raise CorpusError(str(item))
            number, text = item
            yield number, text.rstrip("\r\n").split("\t")
