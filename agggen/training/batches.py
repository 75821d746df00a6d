"""Which examples go together: bucketing by length under a budget, deterministic in (seed, epoch)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence

from agggen.model.batch import Example, allowed_sets, collate
from agggen.model.lattice import lattice

_SHUFFLE_WINDOW = 40  # batches' worth of examples that are sorted together: short enough to mix, long enough to fit


def joint_costs(examples: Sequence[Example], max_group_size: int, most_broken: int = 0) -> list[int]:
    """Positions that the joint objective decodes for each example: the history, and each fact once for every set that
    pruning leaves to it (`allowed_sets`). Costs do not depend on the other examples.
    """
    costs: list[int] = []
    for begin in range(0, len(examples), 512):
        batch = collate(examples[begin : begin + 512])
        sets = allowed_sets(batch, lattice(batch.predicates.shape[1], max_group_size), most_broken)
        costs += ((sets.sum(-1) * batch.fact_length).sum(-1) + batch.fact_length.sum(-1)).tolist()
    return costs


def text_costs(examples: Sequence[Example]) -> list[int]:
    """Positions that the plain Transformer decodes for each example: its tokens, and one end mark."""
    return [sum(map(len, example.facts)) + 1 for example in examples]


def fingerprint(examples: Iterable[Example]) -> str:
    """SHA-256 over all that the examples hold, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode())
    return digest.hexdigest()


def sizes(examples: Iterable[Example]) -> list[tuple[int, int]]:
    """By what batches are sorted: triples and scored positions of each example."""
    return [(len(example.predicates), example.n_target) for example in examples]


def epoch_batches(
    sizes: Sequence[tuple[int, int]], costs: Sequence[int], budget: int, max_records: int, seed: int, epoch: int
) -> list[list[int]]:
    """Indices of the examples in each batch of an epoch; every example occurs exactly once.

    Examples are shuffled, then sorted by size within windows, cut into batches whose costs sum to at most `budget`
    (an example above it makes a batch of its own) and that hold at most `max_records`, and the batches are shuffled.
    """
    rng = random.Random(f"{seed}-{epoch}")
    order = list(range(len(sizes)))
    rng.shuffle(order)
    mean_cost = max(sum(costs) / max(len(costs), 1), 1.0)
    window = max(int(_SHUFFLE_WINDOW * min(budget / mean_cost, max_records)), 1)
    batches: list[list[int]] = []
    for begin in range(0, len(order), window):
        # The sort is stable: equals stay shuffled, so that an epoch's batches differ even where one window holds all.
        bucket = order[begin : begin + window]
        bucket.sort(key=sizes.__getitem__)
        batch: list[int] = []
        total = 0
        for index in bucket:
            if batch and (total + costs[index] > budget or len(batch) == max_records):
                batches.append(batch)
                batch, total = [], 0
            batch.append(index)
            total += costs[index]
        batches.append(batch)
    rng.shuffle(batches)
    return batches
