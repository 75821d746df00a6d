"""Sequence-level distillation (Kim and Rush 2016): a model learns from texts that trained models write.

Several models write texts for the training records and for subsets of their triples. Of each record's probable texts
that the constrained search would accept, the consensus is kept. A model that is trained on these texts needs fewer
plans for texts of the same quality, and seldom writes a text with a fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from agggen.generation.consensus import MARGIN, by_consensus
from agggen.generation.results import Generation
from agggen.records import Fact, Record, Reference, Triple

_TRIES = 20
"""Subsets are drawn until there are enough, at most this many times their number."""


def subsets_of(records: Sequence[Record], count: int, seed: int = 1, known: Sequence[Record] = ()) -> list[Record]:
    """Up to `count` new records, without texts: connected subsets of the triples of random records.

    A subset has at least two triples. They are not all triples of one of `records`, of `known`, or of another subset.

    Args:
        seed: of the random choice; the same arguments give the same subsets.
    """
    rng = random.Random(seed)
    large = [record for record in records if len(record.triples) > 2]
    seen = {frozenset(record.triples) for record in (*records, *known)}
    subsets: list[Record] = []
    for _ in range(_TRIES * count if large else 0):
        if len(subsets) == count:
            break
        record = rng.choice(large)
        numbers = sorted(rng.sample(range(len(record.triples)), rng.randint(2, len(record.triples) - 1)))
        triples = tuple(record.triples[number] for number in numbers)
        if frozenset(triples) not in seen and _connected(triples):
            seen.add(frozenset(triples))
            subsets.append(Record(f"{record.id} subset {len(subsets) + 1}", triples, category=record.category))
    return subsets


def _connected(triples: Sequence[Triple]) -> bool:
    """Whether the triples, as edges between subjects and objects, form one connected graph."""
    names, remaining = {triples[0].subject, triples[0].object}, list(triples[1:])
    while near := [triple for triple in remaining if triple.subject in names or triple.object in names]:
        names |= {name for triple in near for name in (triple.subject, triple.object)}
        remaining = [triple for triple in remaining if triple not in near]
    return not remaining


def with_consensus(
    record: Record, texts: Sequence[Generation], accepts: Callable[[Record, Generation], bool]
) -> Record | None:
    """The record with one reference: the consensus among its accepted texts, with its facts and plan.

    Args:
        texts: of one or several models with comparable scores; the probable ones are samples
            (`agggen.generation.consensus`). A text that several models wrote counts several times.
        accepts: whether a text may be the reference (`Generator.accepts`); called until it accepts one.

    Returns:
        None if none is accepted, apart from texts with a score below the best one without faults by more than `MARGIN`.
    """
    passed = [text for text in texts if text.fulfilled]
    if not passed:
        return None
    lowest = max(text.score for text in passed) - MARGIN
    others = [text for text in texts if not text.fulfilled and text.score >= lowest]
    ranked = by_consensus([text for text in passed if text.score >= lowest], others)
    best = next((text for text in ranked if accepts(record, text)), None)
    if best is None:
        return None
    facts = tuple(Fact(best.text[fact.start : fact.end], fact.predicates) for fact in best.facts)
    return replace(record, references=(Reference(best.text, facts, best.plan),))
