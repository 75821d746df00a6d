"""Texts with the matches of their records' values and names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from agggen.records import Record, Triple
from agggen.verification.normal import Span, Word
from agggen.verification.values import MatchKind, TextIndex, value_wordings

Matches = Mapping[Span, MatchKind]
"""The spans of a text that mention a value, each with the kind of its wording."""


@dataclass(frozen=True)
class MatchedText:
    """A text with the matches of values and names."""

    record: Record
    triples: Sequence[Triple]
    """The triples of `record` that the text must express."""
    indexed: TextIndex
    values: Sequence[Matches]
    """The matches of each triple's value."""
    subjects: Mapping[str, Collection[Span]]
    """The spans that name each triple's subject."""

    @classmethod
    def by_rule(cls, record: Record, text: str) -> MatchedText:
        """The matches of all values and subjects in wordings by rule."""
        indexed = TextIndex(text)

        def find(name: str) -> Matches:
            return dict.fromkeys(indexed.find(*value_wordings(name)), "rule")

        triples = record.triples
        values = [find(triple.object) for triple in triples]
        return cls(record, triples, indexed, values, {triple.subject: find(triple.subject) for triple in triples})

    @property
    def words(self) -> tuple[Word, ...]:
        return self.indexed.whole.words

    @cached_property
    def spans(self) -> list[Span]:
        """The spans of all values and subjects."""
        return [*chain(*self.values), *chain(*self.subjects.values())]

    @cached_property
    def explained(self) -> list[bool]:
        """Whether each word is part of a value or of a subject's name."""
        return self.indexed.covered(self.spans)

    @cached_property
    def unexplained(self) -> list[Word]:
        """The words outside values and subjects."""
        return [word for word, explained in zip(self.words, self.explained, strict=True) if not explained]

    def matches(self) -> Iterator[tuple[Triple, Matches]]:
        """The triples with the matches of their values."""
        return zip(self.triples, self.values, strict=True)
