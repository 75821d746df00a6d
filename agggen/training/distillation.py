"""Sequence-level distillation (Kim and Rush 2016): a student model is trained on texts that teacher models generated.

Teachers generate texts for the training records and for subsets of their triples. The reference of a record is the
consensus of its probable texts that pass `Generator.accepts`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from agggen.generation.consensus import MARGIN, by_consensus
from agggen.generation.results import Generation
from agggen.records import Fact, Record, Reference, Triple

_MAX_TRIES = 20  # random draws per requested subset


def subsets_of(records: Sequence[Record], count: int, seed: int = 1, excluded: Sequence[Record] = ()) -> list[Record]:
    """Up to `count` new records, without texts: connected subsets of the triples of random records.

    A subset has at least two triples, and differs from the other subsets and from the triples of each record in
    `records` and `excluded`. The same arguments give the same subsets.
    """
    rng = random.Random(seed)
    divisible = [record for record in records if len(record.triples) > 2]
    seen = {frozenset(record.triples) for record in (*records, *excluded)}
    subsets: list[Record] = []
    for _ in range(_MAX_TRIES * count if divisible else 0):
        if len(subsets) == count:
            break
        record = rng.choice(divisible)
        indices = sorted(rng.sample(range(len(record.triples)), rng.randint(2, len(record.triples) - 1)))
        triples = tuple(record.triples[index] for index in indices)
        if frozenset(triples) not in seen and _connected(triples):
            seen.add(frozenset(triples))
            subsets.append(Record(f"{record.id} subset {len(subsets) + 1}", triples, category=record.category))
    return subsets


def _connected(triples: Sequence[Triple]) -> bool:
    """Whether the triples, as edges between subjects and objects, form one connected graph."""
    names, remaining = {triples[0].subject, triples[0].object}, list(triples[1:])
    while adjacent := [triple for triple in remaining if triple.subject in names or triple.object in names]:
        names |= {name for triple in adjacent for name in (triple.subject, triple.object)}
        remaining = [triple for triple in remaining if triple not in adjacent]
    return not remaining


def with_consensus(
    record: Record, texts: Sequence[Generation], accepts: Callable[[Record, Generation], bool]
) -> Record | None:
    """The record with one reference, the consensus of its accepted texts, with facts and plan; None if there is none.

    The models of `texts` have comparable scores. Texts whose score is more than `MARGIN` below that of the best
    fulfilled text are ignored.
    """
    fulfilled = [text for text in texts if text.fulfilled]
    if not fulfilled:
        return None
    min_score = max(text.score for text in fulfilled) - MARGIN
    unfulfilled = [text for text in texts if not text.fulfilled and text.score >= min_score]
    ranked = by_consensus([text for text in fulfilled if text.score >= min_score], unfulfilled)
    best = next((text for text in ranked if accepts(record, text)), None)
    if best is None:
        return None
    facts = tuple(Fact(best.text[fact.start : fact.end], fact.predicates) for fact in best.facts)
    return replace(record, references=(Reference(best.text, facts, best.plan),))
