"""Tree construction: nests the frames of a sentence in the arguments that they elaborate (paper, appendix B, step 1).

Frames of fewer than three words ("baked Alaska", "is") state nothing and are ignored, as are all but the first of
frames with the same extent. The widest frame is the root. Each further frame, by descending width, is inserted into the
argument of a placed frame that contains its predicate, and trimmed to it. A frame outside all placed ones, with at
least one word or mark between, becomes another root. All others are dropped.

Level ``paper`` inserts one frame per argument. ``full`` adds:

- Several frames side by side in an argument ("where Rome is the capital, the leader is Conte").
- Coordinates, whose predicates share their first argument and are joined by a conjunction ("Rome is big and was built
  early"): the shared argument stays with the first, and the others begin where they are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agggen.facts.frames import Frame, Phrase, Sentence

Level = Literal["paper", "full"]
LEAST_WORDS = 3
"""The extent of a frame that states a fact."""
CONJUNCTIONS = frozenset(("and", "or", "but", "nor", "yet", "&"))
RULES = f"1 {LEAST_WORDS} {sorted(CONJUNCTIONS)}"
"""Part of a segmenter's fingerprint; the number counts changes of this module's rules."""


@dataclass(slots=True, eq=False)
class Node:
    """A placed frame, trimmed to its argument; it extends over the words [start, end)."""

    predicate: int
    phrases: tuple[Phrase, ...]
    """The frame's phrases after trimming: the predicate and, unless it is a coordinate, an argument."""
    children: dict[int, list[Node]] = field(default_factory=dict)
    """The frames inside a phrase, by the phrase's number, in text order."""
    is_coordinate: bool = False
    """Whether it shares its first argument with the node before it, which has that argument."""

    @property
    def start(self) -> int:
        return self.phrases[0].start

    @property
    def end(self) -> int:
        return self.phrases[-1].end

    def holding(self, word: int) -> int | None:
        """The number of the phrase that contains a word; None if none does."""
        return next((k for k, phrase in enumerate(self.phrases) if phrase.start <= word < phrase.end), None)

    def walk(self) -> Iterator[Node]:
        """The node and all below it, each before its children."""
        yield self
        for number in sorted(self.children):
            for child in self.children[number]:
                yield from child.walk()


def build_tree(sentence: Sentence, level: Level = "full") -> list[Node]:
    """The roots of a sentence's frames, in text order; none without frames that state a fact."""
    widest = sorted(
        (frame for frame in sentence.frames if frame.has_arguments and frame.end - frame.start >= LEAST_WORDS),
        key=lambda frame: (frame.start - frame.end, frame.predicate, frame.phrases),
    )
    seen: set[tuple[int, int]] = set()
    roots: list[Node] = []
    words = sentence.words.words
    for frame in widest:
        if (frame.start, frame.end) not in seen:
            seen.add((frame.start, frame.end))
            _place(frame, roots, 0, len(words), words, level)
    return roots


def _place(frame: Frame, nodes: list[Node], start: int, end: int, words: Sequence[str], level: Level) -> None:
    """Puts a frame among `nodes`, which stand side by side in the words [start, end), or somewhere below them."""
    home = next((node for node in nodes if node.start <= frame.predicate < node.end), None)
    if home is None:
        node = _trim(frame, start, end)
        if node and all(node.end < placed.start or placed.end < node.start for placed in nodes):
            nodes.append(node)
            nodes.sort(key=lambda node: node.start)
        return
    number = home.holding(frame.predicate)
    if number is None:
        if level == "full":
            _coordinate(frame, home, nodes, words)
        return
    phrase = home.phrases[number]
    if phrase.is_predicate:
        return
    inside = home.children.get(number, [])
    if inside and level == "paper" and not any(node.start <= frame.predicate < node.end for node in inside):
        return  # the argument already has a frame
    _place(frame, inside, phrase.start, phrase.end, words, level)
    if inside:
        home.children[number] = inside


def _trim(frame: Frame, start: int, end: int) -> Node | None:
    """The part of a frame in the words [start, end), which contain its predicate; None without arguments there."""
    cut = (Phrase(role, max(first, start), min(last, end)) for role, first, last in frame.phrases)
    phrases = tuple(phrase for phrase in cut if phrase.start < phrase.end)
    if all(phrase.is_predicate for phrase in phrases):
        return None
    return Node(frame.predicate, phrases)


def _coordinate(frame: Frame, home: Node, nodes: list[Node], words: Sequence[str]) -> None:
    """Inserts a frame whose predicate is between the arguments of `home` before it, if the two are coordinates."""
    after = next(k for k, phrase in enumerate(home.phrases) if phrase.start > frame.predicate)
    shared, remaining = home.phrases[:after], home.phrases[after:]
    first_predicate = next(phrase.start for phrase in home.phrases if phrase.is_predicate)
    if first_predicate < frame.predicate or not any(phrase.start < shared[-1].end for phrase in frame.phrases):
        return
    node = _trim(frame, shared[-1].end, remaining[0].start) or Node(
        frame.predicate, (Phrase("V", frame.predicate, frame.predicate + 1),)
    )
    place = nodes.index(home)
    joined = any(word.lower() in CONJUNCTIONS for word in words[node.end : first_predicate])
    joined = joined or any(other.is_coordinate for other in nodes[place + 1 : place + 2])  # "has A, is B and was C"
    if not joined or any(number < after for number in home.children):
        return
    node.phrases = (*shared, *node.phrases)
    home.children = {number - after: children for number, children in home.children.items()}
    home.phrases, home.is_coordinate = remaining, True
    nodes.insert(place, node)
