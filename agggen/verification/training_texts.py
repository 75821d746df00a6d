"""Training texts with the matches of their records' values and names, from which the lexicon is learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from agggen.records import Record
from agggen.verification.normal import Span, Word
from agggen.verification.values import FUNCTION_WORDS, TextIndex, value_wordings

Gram = tuple[str, ...]
"""The normal forms of adjacent words."""

MAX_WORDS = 4
"""Maximum number of words of a learned wording."""
NEARLY_ALL = 0.985
"""Minimum share of the occurrences of words in training texts for which a rule about these words must hold."""
MAX_COVER = 10
"""Maximum number of predicates of a word, or of roles of the names after it, that are needed for `NEARLY_ALL`."""


@dataclass(frozen=True)
class TrainingText:
    """A text with the matches of its record's values and subjects."""

    record: Record
    indexed: TextIndex
    values: tuple[set[Span], ...]
    """The spans that match each triple's value by rule."""
    subjects: set[Span]
    """The spans that match a subject."""
    explained: list[bool]
    """Whether each word is part of a value or of a subject's name."""

    @classmethod
    def of(cls, record: Record, text: str) -> TrainingText:
        indexed = TextIndex(text)
        values = tuple(indexed.find(*value_wordings(triple.object)) for triple in record.triples)
        subjects = {span for triple in record.triples for span in indexed.find(*value_wordings(triple.subject))}
        return cls(record, indexed, values, subjects, indexed.covered([*chain(*values), *subjects]))

    @property
    def words(self) -> tuple[Word, ...]:
        return self.indexed.whole.words


def possible_wordings(text: TrainingText) -> Iterator[tuple[int, Gram]]:
    """Sequences of unexplained words without a function word at either end, each with its start index."""
    tokens, explained = text.words, text.explained
    for start, first in enumerate(tokens):
        if explained[start] or first.form in FUNCTION_WORDS or first.optional:
            continue
        for end in range(start + 1, min(len(tokens), start + MAX_WORDS) + 1):
            last = tokens[end - 1]
            if explained[end - 1]:
                break
            if last.form not in FUNCTION_WORDS and not last.optional and last.kind != "number":
                yield start, tuple(word.form for word in tokens[start:end])
