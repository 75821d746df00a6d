"""Short ways to ask a checker."""

from __future__ import annotations

from agggen.records import Record, Reference, Triple
from agggen.verification.check import Checker
from agggen.verification.results import ValueCheck

PLAIN = Checker()
CITIES = ("Oslo", "Rome", "Bern", "Kyiv", "Lima", "Baku", "Cork", "Graz")


def value_check(value: str, text: str, checker: Checker = PLAIN, predicate: str = "value") -> ValueCheck:
    """How `text` says a value of a subject that has nothing else."""
    return checker.check(Record("r", (Triple("Zyx", predicate, value),)), text).values[0]


def whole(value: str, text: str, checker: Checker = PLAIN, predicate: str = "value") -> bool:
    """Whether `text` says it whole."""
    return value_check(value, text, checker, predicate).whole


def record(*triples: str, subject: str = "Zyx") -> Record:
    """A record of triples like ``period = 7``, of one subject, or ``Ada | period = 7``."""
    made = []
    for item in triples:
        named, _, rest = item.rpartition(" | ")
        predicate, _, value = rest.partition(" = ")
        made.append(Triple(named or subject, predicate, value))
    return Record("r", tuple(made))


def missed(given: Record, text: str, checker: Checker = PLAIN) -> list[str]:
    """The predicates whose values `text` does not say whole."""
    return [value.triple.predicate for value in checker.check(given, text).values if not value.whole]


def told(subject: str, predicate: str, value: str, text: str, **others: str) -> Record:
    """A record of one subject, with one text."""
    triples = [
        Triple(subject, predicate, value),
        *(Triple(subject, name, expected) for name, expected in others.items()),
    ]
    return Record(f"{subject} {text[:20]}", tuple(triples), (Reference(text),))
