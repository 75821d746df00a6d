"""Tree construction: nests the frames of a sentence in the arguments that they elaborate (paper, appendix B, step 1).

Frames of fewer than three words ("baked Alaska", "is") are ignored; of frames with the same span, only the first is
used. The widest frame is the root. Each further frame, by descending width, is inserted into the argument (of a frame
in the tree) that contains its predicate, and trimmed to this argument. A frame separated from all trees by at least one
word or punctuation mark becomes another root. All other frames are dropped.

Level ``paper`` inserts at most one frame per argument. ``full`` also inserts:

- several frames side by side in an argument ("where Rome is the capital, the leader is Conte");
- coordinates: frames whose predicates have the same first argument and are joined by a conjunction ("Rome is big and
  was built early"). Only the first coordinate keeps the shared argument; the others keep the phrases after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from agggen.facts.frames import Frame, Phrase, Sentence

Level = Literal["paper", "full"]
MIN_WORDS = 3  # frames of fewer words are ignored
CONJUNCTIONS = frozenset(("and", "or", "but", "nor", "yet", "&"))
# Part of segmenters' fingerprints; increase the number when this module's rules change.
RULES = f"1 {MIN_WORDS} {sorted(CONJUNCTIONS)}"


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
