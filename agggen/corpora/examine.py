"""What a person should know of data before training on it: sizes, predicates, and what looks wrong, with examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agggen.datasets import Dataset
from agggen.records import Record
from agggen.verification.check import Checker

FEW = 20
"""A predicate with fewer training texts than this is learned badly."""
CHECKED_TEXTS = 2_000
"""Training texts that are read at most, spread over the split."""
_EXAMPLES = 3


@dataclass
class PredicateUse:
    """How a predicate is used in the training records."""

    texts: int = 0
    """Texts of records that have it."""
    values: set[str] = field(default_factory=set)
    checked: int = 0
    """Texts that were read for its values."""
    unsaid: int = 0
    """Texts of these that have no word of the value."""
    examples: list[str] = field(default_factory=list)
    """``value (record id)``, of texts that do not say it."""


@dataclass(frozen=True)
class Finding:
    """Something that may be wrong: how often, and the first examples."""

    what: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what}: {self.count:,}" + (f", such as {'; '.join(self.examples)}" if self.examples else "")


@dataclass(frozen=True)
class Examination:
    """What `examine` found."""

    predicates: dict[str, PredicateUse]
    """Of the training records, by falling number of texts."""
    findings: tuple[Finding, ...]
    checked: int
    """Training texts that were read."""


def examine(data: Dataset) -> Examination:
    """Reads the records of all splits and up to `CHECKED_TEXTS` texts of train.

    A value counts as unsaid where none of its words is in the text, and a number or name of a text as the text's own
    where the strict check finds it in no triple (`agggen.verification.check`).
    """
    uses: dict[str, PredicateUse] = defaultdict(PredicateUse)
    pairs: list[tuple[Record, str]] = []
    for record in data.train:
        for triple in record.triples:
            uses[triple.predicate].values.add(triple.object)
        for predicate in {triple.predicate for triple in record.triples}:
            uses[predicate].texts += len(record.references)
        pairs += [(record, reference.text) for reference in record.references]
    checked = pairs[:: -(-len(pairs) // CHECKED_TEXTS) or 1]
    own: list[str] = []
    checker = Checker()
    for record, text in checked:
        result = checker.check(record, text)
        for value in result.values:
            use = uses[value.triple.predicate]
            use.checked += 1
            if value.how == "missing":
                use.unsaid += 1
                use.examples.append(f"{value.triple.object!r} (record {record.id})")
        own += [f"{said!r} (record {record.id})" for said in result.invented]
    return Examination(
        dict(sorted(uses.items(), key=lambda item: (-item[1].texts, item[0]))),
        tuple(_findings(data, uses, own)),
        len(checked),
    )


def _findings(data: Dataset, uses: dict[str, PredicateUse], own: Sequence[str]) -> Iterable[Finding]:
    rejects = [str(reject) for found in data.rejects.values() for reject in found]
    unsaid = [f"{predicate} {example}" for predicate, use in uses.items() for example in use.examples]
    rare = [f"{name} ({use.texts})" for name, use in sorted(uses.items(), key=lambda item: item[1].texts)]
    everywhere = [(split, record) for split, records in data.splits.items() for record in records]
    new = sorted({triple.predicate for _, record in everywhere for triple in record.triples} - uses.keys())
    found = [
        ("rows that could not be read", rejects),
        ("records without a text", [record.id for _, record in everywhere if not record.references]),
        ("values of which a text says no word", unsaid),
        ("numbers and names in texts that the record lacks", own),
        (f"predicates with fewer than {FEW} training texts", rare[: sum(use.texts < FEW for use in uses.values())]),
        ("predicates that training never sees", new),
        ("records with the same triples in several splits", _shared((*one, one[1].triples) for one in everywhere)),
        (
            "texts in several splits",
            _shared((*one, reference.text) for one in everywhere for reference in one[1].references),
        ),
    ]
    return [Finding(what, len(examples), tuple(examples[:_EXAMPLES])) for what, examples in found if examples]


def _shared(items: Iterable[tuple[str, Record, object]]) -> list[str]:
    """What several splits have: the splits and the ids of its first records there."""
    where: dict[object, dict[str, str]] = defaultdict(dict)
    for split, record, content in items:
        where[content].setdefault(split, record.id)
    return [
        ", ".join(f"{split} {identifier}" for split, identifier in of_splits.items())
        for of_splits in where.values()
        if len(of_splits) > 1
    ]
