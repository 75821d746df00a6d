"""Results of the strict check: the wording that expresses each value, and the faults as messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agggen.errors import AggGenError
from agggen.records import Record, Triple
from agggen.verification.normal import Span
from agggen.verification.values import MatchKind

_FAULTS = {"part": "incomplete", "missing": "missing"}  # by kind of `ValueCheck`: the fault in messages


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """How a text expresses the object of a triple."""

    triple: Triple
    kind: MatchKind | Literal["part", "missing"]  # the matching wording; ``part`` if only some words of the value occur
    span: Span | None = None  # the characters ``[start, end)`` of a mention of the value; None if it is not whole

    @property
    def whole(self) -> bool:
        """Whether the text expresses the value completely."""
        return self.kind not in _FAULTS

    def __str__(self) -> str:
        return f"{self.triple.predicate} {self.triple.object!r}: {self.kind}"


@dataclass(frozen=True, slots=True)
class TextCheck:
    """The result of checking one text against its record."""

    values: tuple[ValueCheck, ...]  # one per triple, in the record's order
    unnamed: tuple[str, ...] = ()  # subjects that no sentence names, in full or in parts (`find_name_parts`)
    invented: tuple[str, ...] = ()  # hallucinated numbers, names and value words, which are in no triple of the record
    unsupported: tuple[str, ...] = ()  # words that imply a predicate or word that no triple has: "five star", "popular"
    elsewhere: tuple[str, ...] = ()  # numbers, names and value words of only those triples that need not be expressed
    repeated: tuple[str, ...] = ()  # words that directly follow themselves, and values that a fact mentions too often
    swapped: tuple[tuple[str, str], ...] = ()  # predicates with swapped values; if equal, "predicate of subject"

    misplaced: tuple[Triple, ...] = ()  # triples whose values only occur in contexts unknown from training

    @property
    def whole(self) -> bool:
        """Whether every value is whole."""
        return all(value.whole for value in self.values)

    @property
    def missing(self) -> tuple[Triple, ...]:
        """The triples whose values are not whole."""
        return tuple(value.triple for value in self.values if not value.whole)

    @property
    def faults(self) -> tuple[str, ...]:
        """A message for each fault; empty if this check finds none."""
        return (
            *(
                f"{value.triple.object!r} ({value.triple.predicate}) is {_FAULTS[value.kind]}"
                for value in self.values
                if not value.whole
            ),
            *(f"the subject {subject!r} is not named" for subject in self.unnamed),
            *(f"{words!r} is in no triple" for words in self.invented),
            *(f"{words!r} is not supported by any triple" for words in self.unsupported),
            *(f"{words!r} belongs to another fact" for words in self.elsewhere),
            *(f"{words!r} is repeated" for words in self.repeated),
            *(f"the values of {first} and {second} are swapped" for first, second in self.swapped),
            *(f"{triple.object!r} is not in a context of {triple.predicate}" for triple in self.misplaced),
        )


def check_paired(records: Sequence[Record], texts: Sequence[str]) -> None:
    """Raises `AggGenError` unless there are as many texts as records, and at least one."""
    if len(records) != len(texts):
        raise AggGenError(f"{len(records)} records but {len(texts)} texts; there must be one text per record")
    if not records:
        raise AggGenError("no records to check; at least one is needed")
