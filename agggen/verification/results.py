"""What was found in a text: each value whole, in part or missing, and the faults in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agggen.errors import AggGenError
from agggen.records import Record, Triple
from agggen.verification.values import How

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """How a text says the object of a triple."""

    triple: Triple
    how: How | Literal["part", "missing"]
    """By what it is whole: ``literal``, ``rule``, ``lexicon`` or ``phrase``; else ``part`` or ``missing``."""
    span: Span | None = None
    """The characters of the text at which it stands first."""

    @property
    def whole(self) -> bool:
        """Whether all of the value is said."""
        return self.how not in ("part", "missing")

    def __str__(self) -> str:
        return f"{self.triple.predicate} {self.triple.object!r}: {self.how}"


@dataclass(frozen=True, slots=True)
class TextCheck:
    """What was found in a text."""

    values: tuple[ValueCheck, ...]
    """One a triple, in the record's order."""
    unnamed: tuple[str, ...] = ()
    """Subjects that are nowhere named whole."""
    invented: tuple[str, ...] = ()
    """Numbers, names and value words that no triple of the record has."""
    elsewhere: tuple[str, ...] = ()
    """Such words that only triples have which are not to be said here."""
    repeated: tuple[str, ...] = ()
    """Words said twice in a row; of a fact also values that it says twice."""
    swapped: tuple[tuple[str, str], ...] = ()
    """Pairs of predicates whose values stand under each other's wording."""
    misplaced: tuple[Triple, ...] = ()
    """Triples whose values stand only behind words that training texts never have before values of the predicate."""

    @property
    def whole(self) -> bool:
        """Whether every value is said whole."""
        return all(value.whole for value in self.values)

    @property
    def missing(self) -> tuple[Triple, ...]:
        """The triples whose values are not said whole."""
        return tuple(value.triple for value in self.values if not value.whole)

    @property
    def faults(self) -> tuple[str, ...]:
        """Every fault in words; empty for a text that is true as far as this reading goes."""
        return (
            *(
                f"{value.triple.object!r} ({value.triple.predicate}) is not said whole"
                for value in self.values
                if not value.whole
            ),
            *(f"the subject {subject!r} is not named whole" for subject in self.unnamed),
            *(f"{said!r} is in no triple" for said in self.invented),
            *(f"{said!r} belongs to another fact" for said in self.elsewhere),
            *(f"{said!r} is said twice" for said in self.repeated),
            *(f"the values of {one} and {other} are exchanged" for one, other in self.swapped),
            *(f"{triple.object!r} does not stand where texts have a {triple.predicate}" for triple in self.misplaced),
        )


def check_paired(records: Sequence[Record], texts: Sequence[str]) -> None:
    """Passes if there is one text a record, and some.

    Raises:
        AggGenError: there is not.
    """
    if len(records) != len(texts):
        raise AggGenError(f"{len(records)} records but {len(texts)} texts; there must be one text a record")
    if not records:
        raise AggGenError("there are no records to check the values of")
