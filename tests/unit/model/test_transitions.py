"""Transition distributions in float64 against the formulas of METHOD 2 (agggen/README.md) and of paper section 3.2."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

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
@given(records)
@quick
def test_rows_are_softmaxes_over_the_records_predicates(variant: Variant, batch: list[list[int]]) -> None:
    module = transitions(variant)
    scores, _ = score(module, batch)
    for row, ids in enumerate(batch):
        formulas, n = TransitionFormulas(module, ids), len(ids)

        def check(log_p: Tensor, expected: dict[int, float]) -> None:
            assert log_p.exp().tolist() == pytest.approx([expected.get(o, 0.0) for o in range(len(log_p))], abs=1e-12)

        for before in range(n):
            check(scores.out[row, before], formulas.p_out(before))
            if n > 1:  # a state contains no predicate twice, so p_in covers the others
                others = [o for o in range(n) if o != before]
                check(torch.log_softmax(scores.inside[row, before], -1), formulas.p_in(before, others))
        check(scores.inside_start[row], formulas.p_in(None, range(n)))
        if variant == "normalised":
            check(scores.start[row], formulas.p_out(None))


def test_records_larger_than_the_stop_table_are_normalised() -> None:
    scores, states = score(transitions(max_size=2), [[o % N_PREDICATES for o in range(20)], [3, 4]])
    total = (scores.start[:, states.first] + scores.within).exp().sum(1)
    assert total.tolist() == pytest.approx([1, 1], abs=1e-9)


@variants
@given(records, st.integers(1, 4))
@quick
def test_states_equal_the_formulas(variant: Variant, batch: list[list[int]], max_size: int) -> None:
    module = transitions(variant, max_size)
    scores, states = score(module, batch)
    for row, ids in enumerate(batch):
        formulas = TransitionFormulas(module, ids)
        own = set(ordered_states(len(ids), max_size))
        for state, value in zip(states.states, scores.within[row].tolist(), strict=True):
            if state in own:
                expected = formulas.p_rest(state) if variant == "normalised" else formulas.p_state(state)
                assert value == pytest.approx(math.log(expected), abs=1e-9)
            else:
                assert value <= IMPOSSIBLE


def test_the_papers_transition_includes_the_factor_of_the_previous_state() -> None:
    assert transitions("paper").within_exponents(torch.tensor([3, 1]), 3).tolist() == [[2, 2, 1], [1, 1, 1]]
    assert transitions("normalised").within_exponents(torch.tensor([3, 1]), 3).tolist() == [[1, 1, 1], [1, 1, 1]]


def test_padding_has_no_gradient() -> None:
    module, states = transitions(), build_lattice(3, 3)
    scores = module(torch.tensor([[2, 0, 0], [3, 4, 5]]), torch.tensor([1, 3]), states)
    kept = [value[value > IMPOSSIBLE / 2].sum() for value in (scores.start, scores.within)]
    torch.stack(kept).sum().backward()
    for parameter in (module.a_in, module.b_in, module.b_out, module.stop):
        assert parameter.grad is not None
        assert not parameter.grad[0].any()
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_parameters_give_full_precision_distributions(dtype: torch.dtype) -> None:
    """The mask value -1e9 exceeds the range of float16, so scores must be converted first."""
    scores, states = score(transitions().to(dtype), [[2, 7, 5], [4, 2]])
    assert scores.out.dtype == scores.within.dtype == torch.float32
    total = (scores.start[:, states.first] + scores.within).exp().sum(1)
    assert total.tolist() == pytest.approx([1, 1], abs=5e-3)
