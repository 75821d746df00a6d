"""Batches of examples, their costs, and learning-rate schedules."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.model.batch import Example
from agggen.training.batches import epoch_batches, fingerprint, joint_costs, sort_keys, text_costs
from agggen.training.loop import ScheduleName, schedule
from tests.unit.model.enumeration import fitting_sets, members, random_example


@st.composite
def corpora(draw: st.DrawFn) -> list[Example]:
    """Examples with random constraints, which may exclude all sets of a fact."""
    examples = []
    for seed in range(draw(st.integers(1, 12))):
        n = draw(st.integers(1, 4))
        lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
        masks = st.lists(st.integers(0, 2**n - 1), min_size=len(lengths), max_size=len(lengths)).map(tuple)
        example = random_example(seed, n, lengths)
        if draw(st.booleans()):
            cap = draw(st.integers(1, 4))
            example = replace(example, required=draw(masks), forbidden=draw(masks), max_size=cap)
        examples.append(example)
    return examples


def enumerated_cost(example: Example, max_group_size: int, max_violations: int) -> int:
    total = 0
    for fact, tokens in enumerate(example.facts):
        required = members(example.required[fact]) if example.required else frozenset()
        forbidden = members(example.forbidden[fact]) if example.forbidden else frozenset()
        sets = fitting_sets(
            len(example.predicates), max_group_size, example.max_size, required, forbidden, max_violations
        )
        total += (len(sets) + 1) * (len(tokens) + 1)
    return total


@given(corpora(), st.integers(1, 3), st.integers(0, 1))
@settings(max_examples=40)
def test_joint_costs_equal_enumeration_in_any_batch(
    examples: list[Example], max_group_size: int, max_violations: int
) -> None:
    costs = joint_costs(examples, max_group_size, max_violations)
    assert costs == [enumerated_cost(example, max_group_size, max_violations) for example in examples]
    alone = [joint_costs([example], max_group_size, max_violations) for example in examples]
    assert [cost for (cost,) in alone] == costs


def test_joint_costs_of_several_blocks() -> None:
    examples = [random_example(seed, 1 + seed % 4, [2, 3]) for seed in range(40)] * 20
    assert joint_costs(examples, 2) == [enumerated_cost(example, 2, 0) for example in examples[:40]] * 20


def test_the_plain_transformer_decodes_a_text_and_one_end_mark() -> None:
    assert text_costs([random_example(0, 2, [3, 4]), random_example(1, 2, [5])]) == [8, 6]


@given(corpora(), st.integers(1, 60), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_has_every_example_once_within_the_budget(
    examples: list[Example], budget: int, max_records: int, seed: int, epoch: int
) -> None:
    costs = text_costs(examples)
    batches = epoch_batches(sort_keys(examples), costs, budget, max_records, seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(examples)))
    for batch in batches:
        assert 1 <= len(batch) <= max_records
        assert len(batch) == 1 or sum(costs[index] for index in batch) <= budget


MANY = [random_example(seed, 1 + seed % 3, [1 + seed % 5, 2]) for seed in range(60)]


def test_batches_are_determined_by_seed_and_epoch() -> None:
    def batches(seed: int, epoch: int) -> list[list[int]]:
        return epoch_batches(sort_keys(MANY), text_costs(MANY), 30, 8, seed, epoch)

    keys = list(product(range(3), range(3)))
    assert all(batches(*key) == batches(*key) for key in keys)
    assert len({frozenset(map(frozenset, batches(*key))) for key in keys}) == len(keys), "also within one window"


def test_batches_of_selected_examples() -> None:
    selected = list(range(3, 60, 2))
    batches = epoch_batches(sort_keys(MANY), text_costs(MANY), 30, 8, 1, 0, selected)
    assert sorted(index for batch in batches for index in batch) == selected


def test_examples_of_similar_length_are_batched_together() -> None:
    batches = epoch_batches(sort_keys(MANY), text_costs(MANY), 1000, 6, 1, 0)

    def spread(groups: Sequence[Sequence[int]]) -> float:
        triples = [[len(MANY[i].predicates) for i in group] for group in groups]
        return sum(max(group) - min(group) for group in triples)

    in_order = [list(range(begin, begin + 6)) for begin in range(0, 60, 6)]
    assert spread(batches) < spread(in_order) / 4


def test_a_fingerprint_depends_on_texts_and_their_order() -> None:
    others = MANY[::-1], [replace(MANY[0], max_size=1), *MANY[1:]]
    assert fingerprint(MANY) == fingerprint(list(MANY)) not in map(fingerprint, others)


# --- schedules ---


@pytest.mark.parametrize(
    ("name", "first", "peak", "middle", "end"),
    [
        ("noam", 50**-1.5, 50**-0.5, 125**-0.5, 200**-0.5),
        ("linear", 1 / 50, 1.0, 0.5, 0.01),
    ],
)
def test_values_of_the_schedules(name: ScheduleName, first: float, peak: float, middle: float, end: float) -> None:
    rate = schedule(name, warmup=50, total=200)
    assert [rate(step) for step in (1, 50, 125, 200)] == pytest.approx([first, peak, middle, end])
    rates = [rate(step) for step in range(1, 201)]
    assert max(rates) == pytest.approx(peak)
    assert all(0 < later <= peak for later in rates)
    assert rates[:50] == sorted(rates[:50]), "the warm-up must rise"
    assert rates[49:] == sorted(rates[49:], reverse=True), "the decay must fall"


@pytest.mark.parametrize("name", ["noam", "linear"])
@given(warmup=st.integers(0, 40), total=st.integers(0, 40))
def test_a_rate_is_positive_and_finite_even_beyond_the_end(name: ScheduleName, warmup: int, total: int) -> None:
    rate = schedule(name, warmup, total)
    assert all(0 < rate(step) <= 1 and math.isfinite(rate(step)) for step in range(1, 100))
