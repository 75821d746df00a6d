"""Argument grouping: each predicate forms a fact with its leaf arguments (paper, appendix B, step 2).

Each word is assigned to a frame of the tree, and a new fact starts where the frame changes. Words outside all arguments
belong to the following fact; punctuation and words at the end of a sentence or argument belong to the preceding fact.

These are the rules of level ``paper``. Level ``full`` adds rules for an argument that contains an embedded frame. As in
the released facts, the words of the argument belong to the fact of the embedded frame ("has | a runway named 18R"),
with these exceptions:

- The antecedent of a relative clause (the words before its ``R-`` argument) belongs to the governing fact: "Bolt was
  drawn by Cohn, | who lives in Rome". The same applies to the antecedent of a reduced clause in an ``ARG2``, the
  complement of a copula, which would otherwise be empty: "Dutch is the language | spoken there". A single labelled word
  between antecedent and clause belongs to the antecedent: "a series first | aired on television".
- A clause reduced to its predicate is not a separate fact: "is the language spoken".
- At the beginning of the governing frame, the antecedent belongs to the fact of the clause: "Bolt, who was drawn by
  Cohn, | is a comic character".

In level ``full``, an opening bracket or quote belongs to the following fact; a fact that consists of punctuation is
merged with the preceding fact, one that consists of conjunctions with the following fact.
"""

from itertools import pairwise

from agggen.facts.frames import Sentence
from agggen.facts.tree import CONJUNCTIONS, Level, Node, build_tree

_OPENING_MARKS = frozenset(("(", "[", "{", "-LRB-", "-LSB-", "-LCB-", "``", "\u201c", "\u2018", "\u00ab"))
RULES = "1"  # part of segmenters' fingerprints; increase it when this module's rules change

Owners = list[Node | None]  # the node to which each word of a sentence is assigned; None: outside all arguments


def fact_starts(sentence: Sentence, level: Level = "full") -> list[int]:
    """The indices of the words at which a sentence's facts begin: 0, ...; empty for a sentence without words."""
    words = sentence.tokens.words
    if not words:
        return []
    owners: Owners = [None] * len(words)
    for root in build_tree(sentence, level):
        if level == "paper":
            _assign_leaves(root, owners)
        else:
            _assign(root, root.start, owners)
    _assign_remaining(words, owners, level)
    starts = [0, *(index for index in range(1, len(words)) if owners[index] is not owners[index - 1])]
    return _merge_function_words(words, starts) if level == "full" else starts


def _assign_leaves(node: Node, owners: Owners) -> None:
    """Assigns phrases without embedded frames to `node` and the nodes below it (level ``paper``)."""
    for number, phrase in enumerate(node.phrases):
        if number in node.children:
            for child in node.children[number]:
                owners[child.end : phrase.end] = [child] * (phrase.end - child.end)
                _assign_leaves(child, owners)
        else:
            owners[phrase.start : phrase.end] = [node] * (phrase.end - phrase.start)


def _assign(node: Node, start: int, owners: Owners) -> None:
    """Assigns the words of `node` from `start` on to `node` and the nodes below it (level ``full``)."""
    for phrase in node.phrases:
        first = max(phrase.start, start)
        owners[first : phrase.end] = [node] * (phrase.end - first)
    for number, children in sorted(node.children.items()):
        phrase = node.phrases[number]
        if phrase.start < start:
            continue  # in an antecedent, which belongs to the governing fact
        is_at_beginning = number == 0 and not phrase.is_predicate
        for index, child in enumerate(children):
            begin = None if is_at_beginning else _start_after_antecedent(child, phrase.role)
            if begin is None:
                begin = child.start if index else phrase.start
            if index and begin == child.start:  # words between two children are assigned by `_assign_remaining`
                previous_end = children[index - 1].end
                owners[previous_end:begin] = [None] * (begin - previous_end)
            if phrase.end - begin > 1:
                owners[begin : phrase.end] = [child] * (phrase.end - begin)
                inner_start = max(begin, child.start)
                owners[inner_start : child.end] = [None] * (child.end - inner_start)
                _assign(child, begin, owners)


def _start_after_antecedent(child: Node, role: str) -> int | None:
    """The first word after the antecedent of the clause in an argument `role`; None if that belongs to its fact."""
    n_before_predicate = next(number for number, phrase in enumerate(child.phrases) if phrase.is_predicate)
    relative = (number for number in range(n_before_predicate) if child.phrases[number].role.startswith("R-"))
    n_antecedent = next(relative, None)  # number of phrases of the antecedent
    if n_antecedent is None:
        if role != "ARG2":
            return None
        first_role = child.phrases[0].role
        n_antecedent = int(first_role.startswith("ARG") and not first_role.startswith("ARGM"))
        if n_before_predicate == 2 and n_antecedent and child.phrases[1].end - child.phrases[1].start == 1:
            n_antecedent = 2
    return child.phrases[n_antecedent - 1].end if n_antecedent else child.start


def _assign_remaining(words: tuple[str, ...], owners: Owners, level: Level) -> None:
    """Assigns words outside all arguments to the node of the following or preceding word, if there is one."""
    following: Node | None = None
    for index in range(len(words) - 1, -1, -1):
        if owners[index] is None and (_is_word(words[index]) or (level == "full" and _is_opening(words, index))):
            owners[index] = following
        following = owners[index] or following
    preceding = next((owner for owner in owners if owner), None)
    for index, owner in enumerate(owners):
        preceding = owners[index] = owner or preceding


def _is_word(word: str) -> bool:
    """Whether a token contains a letter or digit, so that it is not punctuation."""
    return any(character.isalnum() for character in word)


def _is_opening(words: tuple[str, ...], index: int) -> bool:
    """Whether a word is an opening bracket or quote; of straight quotes, the first, third, ... are opening."""
    return words[index] in _OPENING_MARKS or (words[index] == '"' and words[:index].count('"') % 2 == 0)


def _merge_function_words(words: tuple[str, ...], starts: list[int]) -> list[int]:
    """`starts` after merging punctuation with the preceding fact and conjunctions with the following fact."""
    merged: list[int] = []
    joins_previous = True  # the first fact begins at 0 in any case
    for start, end in pairwise((*starts, len(words))):
        fact_words = [word.lower() for word in words[start:end] if _is_word(word)]
        if fact_words and not joins_previous:
            merged.append(start)
        only_conjunctions = bool(fact_words) and all(word in CONJUNCTIONS for word in fact_words)
        joins_previous = only_conjunctions or (joins_previous and not fact_words)
    return [0, *merged]
