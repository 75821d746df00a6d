"""Batches of examples of similar size under a cost budget, determined by seed and epoch.

Replay mixes old texts into those of a new domain, against catastrophic forgetting; with the same few old texts in all
epochs, a model would overfit them and forget the rest.
"""

import hashlib
import random
from collections.abc import Iterable, Sequence

from agggen.model.batch import Example, allowed_sets, collate
from agggen.model.lattice import build_lattice

_SHUFFLE_WINDOW = 40  # batches per sorting window: a compromise between randomness and padding
_MIN_REPLAYED = 200  # texts per epoch; with fewer, a model forgets more


def joint_costs(examples: Sequence[Example], max_group_size: int, max_violations: int = 0) -> list[int]:
    """Decoded positions of the joint model per example: its text, and each fact once per set of `allowed_sets`."""
    costs: list[int] = []
    for begin in range(0, len(examples), 512):
        batch = collate(examples[begin : begin + 512])
        sets = allowed_sets(batch, build_lattice(batch.predicates.shape[1], max_group_size), max_violations)
        costs += ((sets.sum(-1) * batch.fact_length).sum(-1) + batch.fact_length.sum(-1)).tolist()
    return costs


def text_costs(examples: Sequence[Example]) -> list[int]:
    """Decoded positions of the plain Transformer per example: its tokens and END."""
    return [sum(map(len, example.facts)) + 1 for example in examples]


def fingerprint(examples: Iterable[Example]) -> str:
    """SHA-256 of the examples, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode())
    return digest.hexdigest()


def sort_keys(examples: Iterable[Example]) -> list[tuple[int, int]]:
    """The sort key of each example: (number of triples, number of scored positions)."""
    return [(len(example.predicates), example.n_target) for example in examples]


def epoch_batches(
    sort_keys: Sequence[tuple[int, int]],
    costs: Sequence[int],
    budget: int,
    max_records: int,
    seed: int,
    epoch: int,
    indices: Sequence[int] | None = None,
) -> list[list[int]]:
    """The example indices of each batch of an epoch; every example of `indices` [default: all] occurs exactly once.

    Examples are shuffled, sorted by size within windows, and split into batches of at most `max_records` examples whose
    costs sum to at most `budget` (an example that costs more is a batch of its own); the batches are shuffled.
    """
    rng = random.Random(f"{seed}-{epoch}")
    order = list(range(len(sort_keys)) if indices is None else indices)
    rng.shuffle(order)
    mean_cost = max(sum(costs[index] for index in order) / max(len(order), 1), 1.0)
    window = max(int(_SHUFFLE_WINDOW * min(budget / mean_cost, max_records)), 1)
    batches: list[list[int]] = []
    for begin in range(0, len(order), window):
        # The sort is stable: examples of equal size stay shuffled, so batches differ between epochs.
        bucket = order[begin : begin + window]
        bucket.sort(key=sort_keys.__getitem__)
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


def replayed_per_epoch(n_new: int, share: float) -> int:
    """The number of old texts in an epoch: the fraction `share` of all texts, at least 200, but 0 if `share` is 0."""
    return max(round(n_new * share / (1 - share)), _MIN_REPLAYED) if share else 0


def epoch_examples(n_examples: int, n_replayed: int, share: float, epoch: int) -> list[int]:
    """The indices of an epoch's examples: all new ones and, of the last `n_replayed` (old texts), the next
    `replayed_per_epoch`, starting again from the first after the last; at most all.
    """
    n_new = n_examples - n_replayed
    n_old = replayed_per_epoch(n_new, share)
    old = (n_new + (epoch * n_old + number) % n_replayed for number in range(min(n_old, n_replayed)))
    return [*range(n_new), *old]
