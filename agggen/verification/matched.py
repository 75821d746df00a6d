"""Matches of a record's values and names in a text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from agggen.records import Record, Triple
from agggen.verification.normal import Span, Word
from agggen.verification.values import MatchKind, TextIndex, value_wordings

Matches = Mapping[Span, MatchKind]
"""By span of a text that mentions a value: the kind of wording."""


@dataclass(frozen=True)
class MatchedText:
    """A text with the matches of its record's values and names."""

    record: Record
    triples: Sequence[Triple]
    """The triples of `record` that the text must express."""
    indexed: TextIndex
    values: Sequence[Matches]
    """The matches of the value of each of `triples`."""
    subjects: Mapping[str, Collection[Span]]
    """The spans that name each subject of `triples`."""

    @classmethod
    def by_rule(cls, record: Record, text: str) -> MatchedText:
        """Matches all values and subjects of `record` by rule."""
        indexed = TextIndex(text)

        def find(name: str) -> Matches:
            return dict.fromkeys(indexed.find(*value_wordings(name)), "rule")

        triples = record.triples
        values = [find(triple.object) for triple in triples]
        return cls(record, triples, indexed, values, {triple.subject: find(triple.subject) for triple in triples})

    @property
    def words(self) -> tuple[Word, ...]:
        return self.indexed.dates_joined.words

    @cached_property
    def spans(self) -> list[Span]:
        """The spans of all values and subjects, in no particular order."""
        return [*chain(*self.values), *chain(*self.subjects.values())]

    @cached_property
    def covered(self) -> list[bool]:
        """Whether each word is part of a value or of a subject's name."""
        return self.indexed.covered(self.spans)

    @cached_property
    def uncovered(self) -> list[Word]:
        """The words that are not covered."""
        return [word for word, covered in zip(self.words, self.covered, strict=True) if not covered]

    def matches(self) -> Iterator[tuple[Triple, Matches]]:
        """Yields (triple, matches of its value)."""
        return zip(self.triples, self.values, strict=True)
