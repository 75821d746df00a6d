"""States of a record, their pruning by hard alignment, and the HMM's dynamic programs, compared with enumeration."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.model.batch import Example, allowed_sets, collate, omitted_sets
from agggen.model.hmm import Potentials, log_likelihood, posterior, viterbi
from agggen.model.lattice import IMPOSSIBLE, Lattice, build_lattice
from tests.unit.model.enumeration import (
    check_inference,
    distinct_sets,
    fitting_sets,
    members,
    ordered_states,
    paths_of,
    random_example,
)


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
    omitted = omitted_sets(batch, built)
    for row, item in enumerate(examples):
        for fact in range(allowed.shape[1]):
            kept, with_omissions = (
                {members(int(built.set_bits[c])) for c in chosen[row, fact].nonzero().flatten().tolist()}
                for chosen in (allowed, omitted)
            )
            if fact >= len(item.facts):
                assert not kept and not with_omissions
                continue
            required, forbidden = members(item.required[fact]), members(item.forbidden[fact])
            sets = distinct_sets(len(item.predicates), max_group_size)
            assert with_omissions == {group for group in sets if required <= group and group & forbidden}
            assert kept == fitting_sets(
                len(item.predicates), max_group_size, item.max_size, required, forbidden, max_violations
            )
            assert kept, "all sets of a fact were pruned"


def test_whole_texts_are_not_constrained() -> None:
    batch = collate([example(2, required=[1, 2], forbidden=[2, 1])], single_fact=True)
    assert allowed_sets(batch, build_lattice(2, 3)).tolist() == [[[True, True, True]]]


# --- dynamic programs (float64) ---

MOST_PATHS = 2000  # per record: enumeration stays within milliseconds


def random_potentials(seed: int, counts: list[int], lengths: list[int], max_size: int) -> tuple[Potentials, Lattice]:
    """Potentials of a ragged batch, in which pruned states and states of absent predicates are impossible.

    Padding has arbitrary numbers.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 3 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    states = build_lattice(max(counts), max_size)
    start, out = draw(len(counts), max(counts)), draw(len(counts), max(counts), max(counts))
    node = draw(len(counts), max(lengths), len(states.states))
    for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        start[row, count:], out[row, :, count:] = IMPOSSIBLE, IMPOSSIBLE
        possible = [i for i, state in enumerate(states.states) if max(state) < count]
        most = min(len(possible), max(1, int(MOST_PATHS ** (1 / length))))
        for t in range(length):
            order = torch.randperm(len(possible), generator=generator).tolist()
            kept = {possible[i] for i in order[: int(torch.randint(1, most + 1, (1,), generator=generator))]}
            node[row, t, [i not in kept for i in range(len(states.states))]] = IMPOSSIBLE
    return Potentials(start, out, node, torch.tensor(lengths)), states


@st.composite
def problems(draw: st.DrawFn) -> tuple[Potentials, Lattice]:
    size = draw(st.integers(1, 3))
    counts = draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    lengths = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    return random_potentials(draw(st.integers(0, 9999)), counts, lengths, draw(st.integers(1, 3)))


@given(problems())
@settings(deadline=None, max_examples=80)
def test_likelihood_posterior_and_best_path_equal_enumeration(problem: tuple[Potentials, Lattice]) -> None:
    potentials, states = problem
    check_inference(potentials, states, [paths_of(potentials, states, row) for row in range(len(potentials.lengths))])


def test_paths_and_posteriors_in_inference_mode() -> None:
    """Both are computed by autograd, which inference mode disables."""
    potentials, states = random_potentials(9, [3, 2], [2, 3], 3)
    expected = posterior(potentials, states), *viterbi(potentials, states)
    with torch.inference_mode():
        inside = Potentials(*(tensor.clone() for tensor in potentials))
        actual = posterior(inside, states), *viterbi(inside, states)
    for a, b in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, b)
