"""Argument grouping: each predicate forms a fact with its leaf arguments (paper, appendix B, step 2).

A new fact starts where the frame that owns the words changes. Words outside all arguments belong to the following fact,
punctuation to the preceding one, as do words at the end of a sentence or argument.

That is level ``paper``. Level ``full`` decides, as in the released facts, to which fact an argument with an embedded
frame belongs:

- The rest of the argument belongs to the embedded frame, as its head or tail: "has | a runway named 18R".
- The antecedent of a relative clause (all before its ``R-`` argument) belongs to the governing fact: "Bolt was drawn by
  Cohn, | who lives in Rome". So does that of a reduced clause in an ``ARG2``, the complement of a copula, which would
  otherwise be empty: "Dutch is the language | spoken there". A single labelled word between the two belongs to the
  antecedent: "a series first | aired on television".
- If only the predicate of the clause is left, it is not a fact: "is the language spoken".
- A clause at the beginning of the governing frame keeps its antecedent: "Bolt, who was drawn by Cohn, | is a comic
  character".
- An opening bracket or quote belongs to the following fact. A fact of punctuation only is joined with the preceding
  one, a fact of conjunctions only with the following one.
"""

from __future__ import annotations

from itertools import pairwise

from agggen.facts.frames import Sentence
from agggen.facts.tree import CONJUNCTIONS, Level, Node, build_tree

_OPENING = frozenset(("(", "[", "{", "-LRB-", "-LSB-", "-LCB-", "``", "\u201c", "\u2018", "\u00ab"))
RULES = "1"
"""Part of a segmenter's fingerprint; to be increased when this module's rules change."""

Owners = list[Node | None]
"""The node of each word of a sentence; None for words outside all arguments."""


def fact_starts(sentence: Sentence, level: Level = "full") -> list[int]:
    """The words at which the facts of a sentence begin, starting with 0; none for a sentence without words."""
    words = sentence.words.words
    if not words:
        return []
    owners: Owners = [None] * len(words)
    for root in build_tree(sentence, level):
        if level == "paper":
            _own_leaves(root, owners)
        else:
            _own(root, root.start, owners)
    _attach(words, owners, level)
    starts = [0, *(index for index in range(1, len(words)) if owners[index] is not owners[index - 1])]
    return _with_words(words, starts) if level == "full" else starts


def _own_leaves(node: Node, owners: Owners) -> None:
    """Assigns to each frame its phrases without embedded frames."""
    for number, phrase in enumerate(node.phrases):
        if number in node.children:
            for child in node.children[number]:
                owners[child.end : phrase.end] = [child] * (phrase.end - child.end)
                _own_leaves(child, owners)
        else:
            owners[phrase.start : phrase.end] = [node] * (phrase.end - phrase.start)


def _own(node: Node, start: int, owners: Owners) -> None:
    """Assigns to a frame its phrases from `start` on, and to its children theirs."""
    for phrase in node.phrases:
        first = max(phrase.start, start)
        owners[first : phrase.end] = [node] * (phrase.end - first)
    for number, children in sorted(node.children.items()):
        phrase = node.phrases[number]
        if phrase.start < start:
            continue  # part of an antecedent that belongs to the governing fact
        opens = number == 0 and not phrase.is_predicate
        for place, child in enumerate(children):
            begin = None if opens else _proper_start(child, phrase.role)
            if begin is None:
                begin = child.start if place else phrase.start
            if place and begin == child.start:  # words between two children belong to neither
                between = children[place - 1].end
                owners[between:begin] = [None] * (begin - between)
            if phrase.end - begin > 1:
                owners[begin : phrase.end] = [child] * (phrase.end - begin)
                inside = max(begin, child.start)
                owners[inside : child.end] = [None] * (child.end - inside)
                _own(child, begin, owners)


def _proper_start(child: Node, role: str) -> int | None:
    """The start of the clause `child` without its antecedent; None if the antecedent stays with the clause.

    Args:
        role: of the governing frame's argument that contains the clause.
    """
    before = next(number for number, phrase in enumerate(child.phrases) if phrase.is_predicate)
    relative = next((number for number in range(before) if child.phrases[number].role.startswith("R-")), None)
    if relative is None:
        if role != "ARG2":
            return None
        relative = int(child.phrases[0].is_core)
        if before == 2 and relative and child.phrases[1].end - child.phrases[1].start == 1:
            relative = 2
    return child.phrases[relative - 1].end if relative else child.start


def _attach(words: tuple[str, ...], owners: Owners, level: Level) -> None:
    """Assigns an owner to the words outside all arguments, unless no word has one."""
    following: Node | None = None
    for index in range(len(words) - 1, -1, -1):
        if owners[index] is None and (_is_said(words[index]) or (level == "full" and _opens(words, index))):
            owners[index] = following
        following = owners[index] or following
    preceding = next((owner for owner in owners if owner), None)
    for index, owner in enumerate(owners):
        preceding = owners[index] = owner or preceding


def _is_said(word: str) -> bool:
    return any(character.isalnum() for character in word)


def _opens(words: tuple[str, ...], index: int) -> bool:
    """Whether a word is an opening bracket or quote; straight quotes alternate."""
    return words[index] in _OPENING or (words[index] == '"' and words[:index].count('"') % 2 == 0)


def _with_words(words: tuple[str, ...], starts: list[int]) -> list[int]:
    """Merges facts without words: punctuation with the preceding fact, conjunctions with the following one."""
    merged: list[int] = []
    joins_next = True  # the first fact
    for start, end in pairwise((*starts, len(words))):
        forms = [word.lower() for word in words[start:end] if _is_said(word)]
        if forms and not joins_next:
            merged.append(start)
        joins_next = (joins_next and not forms) or (bool(forms) and all(word in CONJUNCTIONS for word in forms))
    return [0, *merged]
