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
    kind: MatchKind | Literal["part", "missing"]
    """The kind of wording that matched; ``part`` if only some words of the value occur, ``missing`` if none."""
    span: Span | None = None
    """The characters ``[start, end)`` of a mention of the value; None if the value is not whole."""

    @property
    def whole(self) -> bool:
        """Whether the text expresses the value completely."""
        return self.kind not in _FAULTS

    def __str__(self) -> str:
        return f"{self.triple.predicate} {self.triple.object!r}: {self.kind}"


@dataclass(frozen=True, slots=True)
class TextCheck:
    """The result of checking one text against its record."""

    values: tuple[ValueCheck, ...]
    """One per triple, in the record's order."""
    unnamed: tuple[str, ...] = ()
    """Subjects that no sentence names, in full or in parts (`find_name_parts`)."""
    invented: tuple[str, ...] = ()
    """Hallucinated numbers, names and value words, which are in no triple of the record."""
    unsupported: tuple[str, ...] = ()
    """Words that imply a predicate or word that no triple has: "five star" in a record without a rating."""
    elsewhere: tuple[str, ...] = ()
    """Numbers, names and value words that belong only to triples that the text need not express."""
    repeated: tuple[str, ...] = ()
    """Words that directly follow themselves ("the the"), and values that a fact mentions too often."""
    swapped: tuple[tuple[str, str], ...] = ()
    """Pairs of predicates with swapped values; "predicate of subject" if both predicates are equal."""
    misplaced: tuple[Triple, ...] = ()
    """Triples whose values occur only in contexts that training texts do not have for their predicate."""

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
                if value.kind in _FAULTS
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
        raise AggGenError("there are no records to check; at least one is needed")
