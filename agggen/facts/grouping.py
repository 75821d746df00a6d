"""Argument grouping: each predicate with its own leaf arguments is a fact (paper, appendix B, step 2).

Words are read in text order, and a new fact starts where the frame that owns them changes. Words outside every argument
go with what follows, lone punctuation with what precedes, the end of a sentence or argument with what is before it.

At level ``paper`` that is all. ``full`` settles who gets an argument that holds a frame, as in the released facts:

- The rest of the argument travels with the frame inside, as its head or tail: "has | a runway named 18R".
- The antecedent of a relative clause (all before its ``R-`` argument) goes back to the governing fact: "Bolt was drawn
  by Cohn, | who lives in Rome". So does that of a reduced clause in an ``ARG2``, which is what a copula says of its
  subject and without which it would say nothing: "Dutch is the language | spoken there". A single labelled word
  between the two stays with the antecedent: "a series first | aired on television".
- If the clause would be left with its bare predicate, it is no fact of its own: "is the language spoken".
- A clause that opens the governing frame keeps its antecedent: "Bolt, who was drawn by Cohn, | is a comic character".
- An opening bracket or quote goes with what follows. No fact is only punctuation (it goes with what precedes) or only
  a conjunction (with what follows).
"""

from __future__ import annotations

from itertools import pairwise

from agggen.facts.frames import Sentence
from agggen.facts.tree import CONJUNCTIONS, Level, Node, build_tree

_OPENING = frozenset(("(", "[", "{", "-LRB-", "-LSB-", "-LCB-", "``", "\u201c", "\u2018", "\u00ab"))
RULES = "1"
"""Part of a segmenter's fingerprint; counts changes of this module's rules."""

Owners = list[Node | None]
"""The node that each word of a sentence belongs to; None for words outside every argument."""


def fact_starts(sentence: Sentence, level: Level = "full") -> list[int]:
    """The words at which the facts of a sentence begin, the first of them 0; none for a sentence without words."""
    return starts_of(sentence, build_tree(sentence, level), level)


def starts_of(sentence: Sentence, roots: list[Node], level: Level = "full") -> list[int]:
    """`fact_starts` of a sentence with this tree, built at the same level."""
    words = sentence.words.words
    if not words:
        return []
    owners: Owners = [None] * len(words)
    for root in roots:
        if level == "paper":
            _own_leaves(root, owners)
        else:
            _own(root, root.start, owners)
    _attach(words, owners, level)
    starts = [0, *(index for index in range(1, len(words)) if owners[index] is not owners[index - 1])]
    return _with_words(words, starts) if level == "full" else starts


def _own_leaves(node: Node, owners: Owners) -> None:
    """Gives a frame its phrases that no frame replaced."""
    for number, phrase in enumerate(node.phrases):
        if number in node.children:
            for child in node.children[number]:
                owners[child.end : phrase.end] = [child] * (phrase.end - child.end)
                _own_leaves(child, owners)
        else:
            owners[phrase.start : phrase.end] = [node] * (phrase.end - phrase.start)


def _own(node: Node, start: int, owners: Owners) -> None:
    """Gives a frame its phrases from `start` on (what is before was handed back), and then its children theirs."""
    for phrase in node.phrases:
        first = max(phrase.start, start)
        owners[first : phrase.end] = [node] * (phrase.end - first)
    for number, children in sorted(node.children.items()):
        phrase = node.phrases[number]
        if phrase.start < start:
            continue  # part of an antecedent that was handed back
        opens = number == 0 and not phrase.is_predicate
        for place, child in enumerate(children):
            begin = None if opens else _proper_start(child, phrase.role)
            if begin is None:
                begin = child.start if place else phrase.start
            if place and begin == child.start:  # what stands between the two is outside both
                between = children[place - 1].end
                owners[between:begin] = [None] * (begin - between)
            if phrase.end - begin > 1:
                owners[begin : phrase.end] = [child] * (phrase.end - begin)
                inside = max(begin, child.start)
                owners[inside : child.end] = [None] * (child.end - inside)
                _own(child, begin, owners)


def _proper_start(child: Node, role: str) -> int | None:
    """Where the clause `child` begins without its antecedent; None where the governing fact gets nothing back.

    Args:
        role: of the governing frame's argument that the clause is in.
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
    """Gives the words outside every argument an owner; they stay without one only if all are."""
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
    """Whether a word is an opening bracket or quote; straight quotes open and close by turns."""
    return words[index] in _OPENING or (words[index] == '"' and words[:index].count('"') % 2 == 0)


def _with_words(words: tuple[str, ...], starts: list[int]) -> list[int]:
    """The starts without those that would leave a fact of no words: marks join what precedes, "and" what follows."""
    kept: list[int] = []
    joins_next = True  # nothing precedes the first
    for start, end in pairwise((*starts, len(words))):
        said = [word.lower() for word in words[start:end] if _is_said(word)]
        if said and not joins_next:
            kept.append(start)
        joins_next = (joins_next and not said) or (bool(said) and all(word in CONJUNCTIONS for word in said))
    return [0, *kept]
