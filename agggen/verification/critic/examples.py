"""Training examples of the critic: a record, the words of a text, and the labels of triples and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agggen.verification.critic.critic import VERDICTS
from agggen.verification.critic.tokens import PUNCTUATION, TripleText, text_words, value_words

SAID, PART, WRONG, MISSING = range(len(VERDICTS))
UNKNOWN = -1  # the label of a triple for which the correct verdict is unknown; ignored in training
Words = tuple[str, ...]


@dataclass(slots=True)
class Example:
    """A training example; by default, the labels are those of a correct text."""

    triples: list[TripleText]
    words: list[str]
    labels: list[int] = field(default_factory=list)  # for each triple an index into `VERDICTS`, or `UNKNOWN`
    invented: list[int] = field(default_factory=list)  # for each word 1 if no triple supports it, else 0

    def __post_init__(self) -> None:
        self.labels = self.labels or [SAID] * len(self.triples)
        self.invented = self.invented or [0] * len(self.words)

    def copy(self) -> Example:
        return Example([*self.triples], [*self.words], [*self.labels], [*self.invented])

    @property
    def expressed(self) -> list[int]:
        return [index for index, label in enumerate(self.labels) if label == SAID]

    def splice(self, starts: Sequence[int], size: int, replacement: Words, invented: bool) -> None:
        """Replaces `size` words at each start; with `invented`, labels replacement words that no triple has."""
        record_words = self.value_words()
        labels = [int(invented and word not in record_words) for word in replacement]
        for start in reversed(starts):
            self.words[start : start + size] = replacement
            self.invented[start : start + size] = labels

    def mark_lost(self, before: Sequence[str], label: int) -> None:
        """Sets the label of expressed triples whose subject or object is in the words `before`, but not in the text."""
        for index in self.expressed:
            subject, _, value = self.triples[index]
            if any(locate(name, before)[1] and not locate(name, self.words)[1] for name in (subject, value)):
                self.labels[index] = label

    def mark_invented(self, words: Words, starts: Iterable[int]) -> None:
        """Labels as invented the words that no triple has, in the mentions of `words` that begin at `starts`."""
        record_words = self.value_words()
        for start in starts:
            for i in range(start, start + len(words)):
                self.invented[i] = int(self.words[i] not in record_words)

    def value_words(self) -> set[str]:
        return {word for subject, _, value in self.triples for name in (subject, value) for word in value_words(name)}


def locate(value: str, text: Sequence[str]) -> tuple[Words, list[int]]:
    """The words that mention a value, with or without its qualifier, and their start indices; empty if none do."""
    for words in (value_words(value), value_words(value, qualifier=False)):
        size = len(words)
        if starts := [i for i in range(len(text) - size + 1) if tuple(text[i : i + size]) == words]:
            return words, starts
    return (), []


def sentences(words: Sequence[str]) -> list[tuple[int, int]]:
    """The indices ``[start, end)`` of each sentence."""
    ends = [index for index, word in enumerate(words[:-1], start=1) if word == "."]
    return list(pairwise((0, *ends, len(words))))


def to_example(triples: Iterable[TripleText], text: str, label: int = SAID) -> Example | None:
    """The example of a text, with `label` for all triples; None without triples or words."""
    triple_texts, words = list(triples), text_words(text)[0]
    if not triple_texts or all(word in PUNCTUATION for word in words):
        return None
    return Example(triple_texts, words, [label] * len(triple_texts))
