"""The HMM's dynamic programs against enumeration of all state sequences, in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.model.hmm import Potentials, log_likelihood, posterior, viterbi
from agggen.model.lattice import IMPOSSIBLE, Lattice, build_lattice
from tests.unit.model.enumeration import check_inference, paths_of

MOST_PATHS = 2000  # per record: enumeration stays within milliseconds


def random_potentials(
    seed: int, counts: list[int], lengths: list[int], max_size: int, prune: bool
) -> tuple[Potentials, Lattice]:
    """Potentials of a ragged batch, in which pruned states and states of absent predicates are impossible.

    If there would be too many paths to enumerate, more states are pruned. Padding has arbitrary numbers.
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
        max_states = max(1, int(MOST_PATHS ** (1 / length)))
        for t in range(length):
            order = torch.randperm(len(possible), generator=generator).tolist()
            keep = int(torch.randint(1, len(possible) + 1, (1,), generator=generator)) if prune else len(possible)
            kept = {possible[i] for i in order[: min(keep, max_states)]}
            node[row, t, [i not in kept for i in range(len(states.states))]] = IMPOSSIBLE
    return Potentials(start, out, node, torch.tensor(lengths)), states


@st.composite
def problems(draw: st.DrawFn) -> tuple[Potentials, Lattice]:
    size = draw(st.integers(1, 3))
    counts = draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    lengths = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    return random_potentials(draw(st.integers(0, 9999)), counts, lengths, draw(st.integers(1, 3)), draw(st.booleans()))


@given(problems())
@settings(deadline=None, max_examples=80)
def test_likelihood_posterior_and_best_path_equal_enumeration(problem: tuple[Potentials, Lattice]) -> None:
    potentials, states = problem
    check_inference(potentials, states, [paths_of(potentials, states, row) for row in range(len(potentials.lengths))])


def test_gradients_of_a_pruned_ragged_batch() -> None:
    """Gradients equal finite differences for possible entries, and are 0 (not NaN) for impossible ones."""
    potentials, states = random_potentials(8, [2, 3], [3, 2], 2, prune=True)
    inputs = [tensor.clone().requires_grad_() for tensor in potentials[:3]]

    def likelihood(values: list[torch.Tensor]) -> torch.Tensor:
        return log_likelihood(Potentials(values[0], values[1], values[2], potentials.lengths), states).sum()

    gradients = torch.autograd.grad(likelihood(inputs), inputs)
    for number, (value, gradient) in enumerate(zip(inputs, gradients, strict=True)):
        assert torch.isfinite(gradient).all()
        assert not gradient[value <= IMPOSSIBLE / 2].any()
        for index in map(tuple, (value > IMPOSSIBLE / 2).nonzero().tolist()):
            moved = [[tensor.detach().clone() for tensor in inputs] for _ in range(2)]
            moved[0][number][index] += 1e-5
            moved[1][number][index] -= 1e-5
            slope = (likelihood(moved[0]) - likelihood(moved[1])).item() / 2e-5
            assert gradient[index].item() == pytest.approx(slope, abs=1e-6)


def test_paths_and_posteriors_in_inference_mode() -> None:
    """Both are computed by autograd, which inference mode disables."""
    potentials, states = random_potentials(9, [3, 2], [2, 3], 3, prune=True)
    expected = posterior(potentials, states), *viterbi(potentials, states)
    with torch.inference_mode():
        inside = Potentials(*(tensor.clone() for tensor in potentials))
        actual = posterior(inside, states), *viterbi(inside, states)
    for a, b in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, b)


def test_the_posterior_does_not_change_the_callers_graph() -> None:
    potentials, states = random_potentials(10, [2], [2], 2, prune=False)
    start = potentials.start.requires_grad_()
    result = posterior(potentials, states)
    assert start.grad is None
    assert not result.requires_grad
    assert math.isclose(result.sum().item(), 2.0)
