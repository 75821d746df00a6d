"""Transition distributions in float64 against the formulas of METHOD 2 (agggen/README.md) and of paper section 3.2."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.model.lattice import IMPOSSIBLE, Lattice, build_lattice
from agggen.model.transitions import Transitions, TransitionScores, Variant
from tests.unit.model.enumeration import TransitionFormulas, ordered_states

variants = pytest.mark.parametrize("variant", get_args(Variant))
N_PREDICATES = 9


def transitions(variant: Variant = "normalised", max_size: int = 3, seed: int = 0) -> Transitions:
    """A module with random parameters, stop logits included (initially zero)."""
    generator = torch.Generator().manual_seed(seed)
    module = Transitions(N_PREDICATES, 4, max_size, variant).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(1.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def score(module: Transitions, records: list[list[int]]) -> tuple[TransitionScores, Lattice]:
    """The scores of records (lists of predicate ids), padded with a valid predicate id."""
    width = max(map(len, records))
    padded = torch.tensor([ids + [1] * (width - len(ids)) for ids in records])
    states = build_lattice(width, module.max_group_size)
    with torch.no_grad():
        return module(padded, torch.tensor([len(ids) for ids in records]), states), states


records = st.lists(st.lists(st.integers(0, N_PREDICATES - 1), min_size=1, max_size=5), min_size=1, max_size=3)
quick = settings(deadline=None, max_examples=40)


@variants
@given(records, st.integers(1, 4))
@quick
def test_distributions_equal_the_formulas(variant: Variant, batch: list[list[int]], max_size: int) -> None:
    module = transitions(variant, max_size)
    scores, states = score(module, batch)
    for row, ids in enumerate(batch):
        formulas = TransitionFormulas(module, ids)
        own, padding = set(ordered_states(len(ids), max_size)), [0.0] * (scores.out.shape[1] - len(ids))
        for before in range(len(ids)):
            assert scores.out[row, before].exp().tolist() == pytest.approx([*formulas.p_out(before).values(), *padding])
        if variant == "normalised":
            assert scores.start[row].exp().tolist() == pytest.approx([*formulas.p_out(None).values(), *padding])
        for state, value in zip(states.states, scores.within[row].tolist(), strict=True):
            if state in own:
                expected = formulas.p_rest(state) if variant == "normalised" else formulas.p_state(state)
                assert value == pytest.approx(math.log(expected), abs=1e-9)
            else:
                assert value <= IMPOSSIBLE


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_distributions_of_parameters_of_any_precision_are_normalised(dtype: torch.dtype) -> None:
    """The mask value -1e9 exceeds the range of float16, so scores must be converted first. The first record is larger
    than the table of stop logits.
    """
    batch = [[o % N_PREDICATES for o in range(20)], [3, 4]]
    scores, states = score(transitions(max_size=2).to(dtype), batch)
    assert scores.out.dtype == scores.within.dtype == (dtype if dtype == torch.float64 else torch.float32)
    total = (scores.start[:, states.first] + scores.within).exp().sum(1)
    assert total.tolist() == pytest.approx([1, 1], abs=1e-9 if dtype == torch.float64 else 5e-3)
