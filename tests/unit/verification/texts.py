"""Short forms of records and checks."""

from collections.abc import Iterable, Iterator

from agggen.records import Record, Reference, Triple
from agggen.verification.check import Checker
from agggen.verification.results import ValueCheck

PLAIN = Checker()
"""Without a lexicon."""
CITIES = ("Oslo", "Rome", "Bern", "Kyiv", "Lima", "Baku", "Cork", "Graz")


def value_check(value: str, text: str, checker: Checker = PLAIN, predicate: str = "value") -> ValueCheck:
    return checker.check(Record("r", (Triple("Zyx", predicate, value),)), text).values[0]


def whole(value: str, text: str, checker: Checker = PLAIN, predicate: str = "value") -> bool:
    return value_check(value, text, checker, predicate).whole


def record(*triples: str, subject: str = "Zyx") -> Record:
    """A record of triples like ``period = 7`` of `subject`, or ``Ada | period = 7``."""
    parts = [(name or subject, *rest.split(" = ")) for name, _, rest in (item.rpartition(" | ") for item in triples)]
    return Record("r", tuple(Triple(*part) for part in parts))


def example(subject: str, predicate: str, value: str, text: str, **others: str) -> Record:
    """A record of one subject, with one reference; `others` are further predicates and values."""
    triples = tuple(Triple(subject, *pair) for pair in ((predicate, value), *others.items()))
    return Record(f"{subject} {text[:20]}", triples, (Reference(text),))


def texts_of(records: Iterable[Record]) -> Iterator[tuple[Record, str]]:
    """(record, reference text) of all references."""
    return ((record, reference.text) for record in records for reference in record.references)
