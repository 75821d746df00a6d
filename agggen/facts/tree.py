"""Facts from semantic role frames (paper, appendix B).

Step 1, tree construction, nests the frames of a sentence in the arguments that they elaborate. Frames of fewer than
three words ("baked Alaska", "is") are ignored; of frames with the same span, only the first is used. The widest frame
is the root. Each further frame, by descending width, is inserted into the argument (of a frame in the tree) that
contains its predicate, and trimmed to this argument. A frame separated from all trees by at least one word or
punctuation mark becomes another root. All other frames are dropped.

Level ``paper`` inserts at most one frame per argument. ``full`` also inserts:

- several frames side by side in an argument ("where Rome is the capital, the leader is Conte");
- coordinates: frames whose predicates have the same first argument and are joined by a conjunction ("Rome is big and
  was built early"). Only the first coordinate keeps the shared argument; the others keep the phrases after it.

Step 2, argument grouping: each predicate forms a fact with its leaf arguments. Each word is assigned to a frame of the
tree, and a new fact starts where the frame changes. Words outside all arguments belong to the following fact;
punctuation and words at the end of a sentence or argument belong to the preceding fact.

Level ``full`` adds rules for an argument that contains an embedded frame. As in the released facts, the words of the
argument belong to the fact of the embedded frame ("has | a runway named 18R"), with these exceptions:

- The antecedent of a relative clause (the words before its ``R-`` argument) belongs to the governing fact: "Bolt was
  drawn by Cohn, | who lives in Rome". The same applies to the antecedent of a reduced clause in an ``ARG2``, the
  complement of a copula, which would otherwise be empty: "Dutch is the language | spoken there". A single labelled word
  between antecedent and clause belongs to the antecedent: "a series first | aired on television".
- A clause reduced to its predicate is not a separate fact: "is the language spoken".
- At the beginning of the governing frame, the antecedent belongs to the fact of the clause: "Bolt, who was drawn by
  Cohn, | is a comic character".

An opening bracket or quote also belongs to the following fact; a fact that consists of punctuation is merged with the
preceding fact, one that consists of conjunctions with the following fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from agggen.facts.frames import Frame, Phrase, Sentence

Level = Literal["paper", "full"]
MIN_WORDS = 3  # frames of fewer words are ignored
CONJUNCTIONS = frozenset(("and", "or", "but", "nor", "yet", "&"))
_OPENING_MARKS = frozenset(("(", "[", "{", "-LRB-", "-LSB-", "-LCB-", "``", "\u201c", "\u2018", "\u00ab"))
# Parts of segmenters' fingerprints; increase the numbers when the rules of trees or of grouping change.
RULES = (f"1 {MIN_WORDS} {sorted(CONJUNCTIONS)}", "1")


@dataclass(slots=True, eq=False)
class Node:
    """A frame in the tree, trimmed to the words [start, end) of the argument that contains the frame."""

    predicate: int
    phrases: tuple[Phrase, ...]  # trimmed: the predicate and at least one argument (a coordinate may have none)
    children: dict[int, list[Node]] = field(default_factory=dict)  # embedded frames in text order, by phrase index
    is_coordinate: bool = False  # whether the first argument is shared with the preceding node, which keeps it

    @property
    def start(self) -> int:
        return self.phrases[0].start

    @property
    def end(self) -> int:
        return self.phrases[-1].end


def build_tree(sentence: Sentence, level: Level = "full") -> list[Node]:
    """The roots of a sentence's trees, in text order; empty if all frames are ignored."""
    by_width = sorted(sentence.frames, key=lambda frame: (frame.start - frame.end, frame.predicate, frame.phrases))
    frame_of_span: dict[tuple[int, int], Frame] = {}
    for frame in by_width:
        has_arguments = not all(phrase.is_predicate for phrase in frame.phrases)  # auxiliary verbs have none
        if has_arguments and frame.end - frame.start >= MIN_WORDS:
            frame_of_span.setdefault((frame.start, frame.end), frame)
    roots: list[Node] = []
    words = sentence.tokens.words
    for frame in frame_of_span.values():
        _insert(frame, roots, 0, len(words), words, level)
    return roots


def _insert(frame: Frame, nodes: list[Node], start: int, end: int, words: Sequence[str], level: Level) -> None:
    """Inserts a frame among or below the sibling `nodes` in the words [start, end), or drops it."""
    parent = next((node for node in nodes if node.start <= frame.predicate < node.end), None)
    if parent is None:
        node = _trim(frame, start, end)
        if node and all(node.end < sibling.start or sibling.end < node.start for sibling in nodes):
            nodes.append(node)
            nodes.sort(key=lambda node: node.start)
        return
    phrases = enumerate(parent.phrases)
    number = next((index for index, phrase in phrases if phrase.start <= frame.predicate < phrase.end), None)
    if number is None:
        if level == "full":
            _insert_coordinate(frame, parent, nodes, words)
        return
    phrase = parent.phrases[number]
    if phrase.is_predicate:
        return
    children = parent.children.get(number, [])
    if children and level == "paper" and not any(node.start <= frame.predicate < node.end for node in children):
        return  # the argument already has a frame
    _insert(frame, children, phrase.start, phrase.end, words, level)
    if children:
        parent.children[number] = children


def _trim(frame: Frame, start: int, end: int) -> Node | None:
    """The frame without words outside [start, end); None if no argument is left. The predicate must be inside."""
    trimmed = (Phrase(role, max(first, start), min(last, end)) for role, first, last in frame.phrases)
    phrases = tuple(phrase for phrase in trimmed if phrase.start < phrase.end)
    if all(phrase.is_predicate for phrase in phrases):
        return None
    return Node(frame.predicate, phrases)


def _insert_coordinate(frame: Frame, outer: Node, nodes: list[Node], words: Sequence[str]) -> None:
    """Inserts a frame whose predicate is between two phrases of `outer` before `outer`, if both are coordinates."""
    n_shared = next(number for number, phrase in enumerate(outer.phrases) if phrase.start > frame.predicate)
    shared, remaining = outer.phrases[:n_shared], outer.phrases[n_shared:]
    first_predicate = next(phrase.start for phrase in outer.phrases if phrase.is_predicate)
    if first_predicate < frame.predicate or not any(phrase.start < shared[-1].end for phrase in frame.phrases):
        return
    node = _trim(frame, shared[-1].end, remaining[0].start) or Node(
        frame.predicate, (Phrase("V", frame.predicate, frame.predicate + 1),)
    )
    position = nodes.index(outer)
    is_joined = any(word.lower() in CONJUNCTIONS for word in words[node.end : first_predicate])
    # "has A, is B and was C": the coordinate after `outer` is joined by the conjunction.
    is_joined = is_joined or any(following.is_coordinate for following in nodes[position + 1 : position + 2])
    if not is_joined or any(number < n_shared for number in outer.children):
        return
    node.phrases = (*shared, *node.phrases)
    outer.children = {number - n_shared: children for number, children in outer.children.items()}
    outer.phrases, outer.is_coordinate = remaining, True
    nodes.insert(position, node)


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
