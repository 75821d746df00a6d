"""The states of a record and their pruning by hard alignment, compared with enumeration."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.model.batch import Example, allowed_sets, collate
from agggen.model.hmm import Potentials, log_likelihood
from agggen.model.lattice import build_lattice
from tests.unit.model.enumeration import distinct_sets, fitting_sets, members, ordered_states, random_example


def test_numbers_of_states_equal_the_papers() -> None:
    built = [build_lattice(n_predicates, 3) for n_predicates in (1, 3, 5, 7)]
    assert [(len(states.states), len(states.set_bits)) for states in built] == [(1, 1), (15, 7), (85, 25), (259, 63)]


@given(st.integers(1, 6), st.integers(1, 4))
@settings(deadline=None, max_examples=24)
def test_the_lattice_has_every_state_and_set_once(n_predicates: int, max_size: int) -> None:
    built = build_lattice(n_predicates, max_size)
    assert sorted(built.states) == sorted(ordered_states(n_predicates, max_size))
    sets = [frozenset(o for o, is_member in enumerate(row) if is_member) for row in built.set_members.tolist()]
    assert len(sets) == len(set(sets))
    assert set(sets) == distinct_sets(n_predicates, max_size)
    assert built.set_bits.tolist() == [sum(2**o for o in group) for group in sets]
    assert built.set_size.tolist() == [len(group) for group in sets]
    for index, state in enumerate(built.states):
        assert (int(built.first[index]), int(built.last[index])) == (state[0], state[-1])
        assert int(built.size[index]) == len(state)
        assert built.members[index].nonzero().flatten().tolist() == sorted(state)
        assert sets[built.set_of[index]] == frozenset(state)
        prefix = int(built.prefix[index])
        assert prefix == -1 if len(state) == 1 else built.states[prefix] == state[:-1]
    by_first = built.first.unflatten(0, (n_predicates, built.per_first))
    assert (by_first == torch.arange(n_predicates)[:, None]).all()


def test_a_lattice_built_in_inference_mode_is_usable_in_training() -> None:
    """Lattices are cached, and autograd rejects inference tensors."""
    build_lattice.cache_clear()
    with torch.inference_mode():
        built = build_lattice(3, 2)
    node = torch.zeros(1, 2, len(built.states), requires_grad=True)
    log_likelihood(Potentials(torch.zeros(1, 3), torch.zeros(1, 3, 3), node, torch.tensor([2])), built).sum().backward()
    assert node.grad is not None
    assert node.grad.sum().item() == pytest.approx(2)


# --- pruning ---


def example(n_triples: int, required: list[int], forbidden: list[int], max_size: int = 99) -> Example:
    facts = [1] * len(required)
    masks = {"required": tuple(required), "forbidden": tuple(forbidden)}
    return replace(random_example(0, n_triples, facts), **masks, max_size=max_size)


@st.composite
def constrained(draw: st.DrawFn) -> Example:
    n_triples, n_facts = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    masks = st.lists(st.integers(0, 2**n_triples - 1), min_size=n_facts, max_size=n_facts)
    return example(n_triples, draw(masks), draw(masks), draw(st.sampled_from([0, 1, 2, 3, 99])))


@given(st.lists(constrained(), min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_allowed_sets_equal_enumeration(examples: list[Example], max_group_size: int, max_violations: int) -> None:
    batch = collate(examples)
    built = build_lattice(batch.predicates.shape[1], max_group_size)
    allowed = allowed_sets(batch, built, max_violations)
    for row, item in enumerate(examples):
        for fact in range(allowed.shape[1]):
            kept = {
                frozenset(o for o, is_member in enumerate(built.set_members[c].tolist()) if is_member)
                for c in allowed[row, fact].nonzero().flatten().tolist()
            }
            if fact >= len(item.facts):
                assert not kept
                continue
            required, forbidden = members(item.required[fact]), members(item.forbidden[fact])
            assert kept == fitting_sets(
                len(item.predicates), max_group_size, item.max_size, required, forbidden, max_violations
            )
            assert kept, "all sets of a fact were pruned"


def test_whole_texts_are_not_constrained() -> None:
    batch = collate([example(2, required=[1, 2], forbidden=[2, 1])], single_fact=True)
    assert allowed_sets(batch, build_lattice(2, 3)).tolist() == [[[True, True, True]]]
