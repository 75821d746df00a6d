"""Exact planning: the k best plans of a record and the sum over all plans, by dynamic programming.

The continuations of a prefix depend only on its cell (set of used predicates, last predicate). One backward recursion
over the cells, from the full to the empty set, is used with two semirings: log-sums yield the partition function, and
maxima the best completion of every prefix, so that a best-first search expands only prefixes of the k best plans.
Cost: sum over sizes l of J!/(J-l)! * 2^(J-l) transitions (120 320 for J = 10, L = 3).
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import perm

import numpy as np
from numpy.typing import NDArray

from agggen.errors import PlanError
from agggen.model.lattice import IndexState, ordered_states
from agggen.planning.scores import Floats, IndexPlan, PlanScores, ScoredPlan, lexicographic, plan_score

MAX_TRANSITIONS = 1_000_000  # for exact planning: J = 12 with groups of 3, 14 with 2, 16 with 1

Ints = NDArray[np.intp]
Reduce = Callable[[Floats], Floats]  # the semiring's sum over the last axis


@dataclass(frozen=True)
class _Layer:
    """Tables of the n used sets of cardinality p. r = J - p predicates are unused; C groups begin with each of them."""

    sets: Ints  # (n,) bit masks
    used: Ints  # (n, p) ascending
    unused: Ints  # (n, r) ascending
    states: Ints  # (n, r, C) groups of unused predicates, lexicographic, as positions in PlanScores.states
    cells: Ints  # (n, r, C) cell after the group (used set | group, last of group), as set * J + last


@lru_cache(maxsize=16)
def _tables(n_predicates: int, max_group_size: int) -> tuple[list[_Layer], Ints]:
    """Index tables for J and L: layers by cardinality of the used set; (2^J,) the row of a used set in its layer."""
    n, states = n_predicates, ordered_states(n_predicates, max_group_size)
    order = np.array(lexicographic(states))
    state_sets = np.array([sum(1 << index for index in states[i]) for i in order])
    state_last = np.array([states[i][-1] for i in order])
    sets = np.arange(1 << n)
    member = (sets[:, None] >> np.arange(n)) & 1 == 1  # (2^J, J)
    cardinality = member.sum(1)
    rows = np.zeros(1 << n, dtype=np.intp)
    layers = []
    for p in range(n):
        layer_sets = np.flatnonzero(cardinality == p)
        count, r = len(layer_sets), n - p
        rows[layer_sets] = np.arange(count)
        used = np.nonzero(member[layer_sets])[1].reshape(count, p)
        unused = np.nonzero(~member[layer_sets])[1].reshape(count, r)
        # For each used set, the same number of groups begins with each unused predicate, so the tables are rectangular.
        row, state = np.nonzero(layer_sets[:, None] & state_sets == 0)
        cells = (layer_sets[row] | state_sets[state]) * n + state_last[state]
        layers.append(_Layer(layer_sets, used, unused, order[state].reshape(count, r, -1), cells.reshape(count, r, -1)))
    return layers, rows


def _backward(scores: PlanScores, reduce: Reduce) -> list[Floats]:
    """Values (n, r, C) of each next group and its continuations, without the transition into it, by cardinality p."""
    n, full_set = scores.n_predicates, (1 << scores.n_predicates) - 1
    future = np.zeros((1 << n) * n)  # by cell: value of the continuations; 0 once all predicates are used
    values: list[Floats] = []
    for layer in reversed(_tables(n, scores.max_group_size)[0]):
        value = scores.group_scores(layer.states, layer.cells // n == full_set) + future[layer.cells]
        by_first = reduce(value)  # (n, r): over the groups with the same first predicate
        transition = scores.out[layer.used[:, :, None], layer.unused[:, None, :]]  # (n, p, r)
        future[layer.sets[:, None] * n + layer.used] = reduce(transition + by_first[:, None, :])
        values.append(value)
    return values[::-1]


def _log_sum(values: Floats) -> Floats:
    highest = values.max(axis=-1, keepdims=True)
    return np.log(np.exp(values - highest).sum(axis=-1)) + highest[..., 0]


def _next_groups(scores: PlanScores, reduce: Reduce) -> Callable[[int, int | None], tuple[Floats, Floats, Ints, Ints]]:
    """A function from a prefix's used set and last predicate (None: no prefix) to its possible next groups, in
    lexicographic order: log-weights of transition, group and continuations; log-weights of the transitions; positions
    in `PlanScores.states`; used sets after the groups.
    """
    (layers, rows), values = _tables(scores.n_predicates, scores.max_group_size), _backward(scores, reduce)

    def next_groups(used: int, last: int | None) -> tuple[Floats, Floats, Ints, Ints]:
        layer, row = layers[used.bit_count()], rows[used]
        value = values[used.bit_count()][row]  # (r, C)
        transition = (scores.start if last is None else scores.out[last])[layer.unused[row]].repeat(value.shape[1])
        used_after = layer.cells[row].ravel() // scores.n_predicates
        return transition + value.ravel(), transition, layer.states[row].ravel(), used_after

    return next_groups


def is_exact(scores: PlanScores) -> bool:
    """Whether the tables for these scores are small enough (`MAX_TRANSITIONS`)."""
    n = scores.n_predicates
    transitions = sum(perm(n, size) << (n - size) for size in range(1, scores.max_group_size + 1))
    return transitions <= MAX_TRANSITIONS


def log_partition(scores: PlanScores) -> float | None:
    """The log of the sum of all plans' weights; None if the tables would be too large (`is_exact`)."""
    if not is_exact(scores):
        return None
    return float(_log_sum(scores.start + _log_sum(_backward(scores, _log_sum)[0][0])))


def k_best(scores: PlanScores, k: int, prefix: IndexPlan = ()) -> list[ScoredPlan]:
    """The k best plans (all, if there are fewer), best first, ties in lexicographic order.

    With a `prefix`, whose groups may have any size, only plans that begin with `prefix` are returned, and scores are of
    their continuations only.
    """
    next_groups = _next_groups(scores, lambda values: values.max(axis=-1))
    full_set = (1 << scores.n_predicates) - 1

    @cache
    def extensions(used: int, last: int | None) -> list[tuple[float, float, IndexState, int]]:
        """The k best next groups: value with the best continuation, step's log-score, group, used set after it."""
        value, transition, states, used_after = next_groups(used, last)
        best = np.argsort(-value, kind="stable")[:k]
        step_score = transition[best] + scores.group_scores(states[best], used_after[best] == full_set)
        groups = [scores.states[state] for state in states[best]]
        return list(zip(value[best].tolist(), step_score.tolist(), groups, used_after[best].tolist(), strict=True))

    best_plans: list[ScoredPlan] = []
    used = sum(1 << index for group in prefix for index in group)
    queue: list[tuple[float, IndexPlan, float, int]] = [(0.0, prefix, 0.0, used)]  # (-bound, plan, score, used set)
    while queue and len(best_plans) < k:
        _, plan, score, used = heapq.heappop(queue)
        if used == full_set:
            best_plans.append(ScoredPlan(plan, score))
            continue
        for value, step_score, group, used_after in extensions(used, plan[-1][-1] if plan else None):
            heapq.heappush(queue, (-(score + value), (*plan, group), score + step_score, used_after))
    # The order of the bounds may differ from that of the scores by rounding.
    return sorted(best_plans, key=lambda plan: (-plan.score, plan.states))


def check_sampling(scores: PlanScores) -> None:
    """Raises PlanError if plans cannot be sampled: the tables would be too large (`is_exact`)."""
    if not is_exact(scores):
        raise PlanError(f"plans of {scores.n_predicates} predicates cannot be sampled: too many to sum over exactly")


def sample(scores: PlanScores, count: int, rng: np.random.Generator, top_p: float = 1.0) -> list[ScoredPlan]:
    """`count` plans drawn independently from p(z | x), group by group, by the exact probability of the next group.

    With `top_p` below 1, the next group is drawn from the most probable groups only: the fewest whose probabilities,
    given the groups before them, sum to at least `top_p` (Holtzman et al. 2020, for groups instead of words).
    """
    check_sampling(scores)
    next_groups = _next_groups(scores, _log_sum)
    full_set = (1 << scores.n_predicates) - 1

    @cache
    def choices(used: int, last: int | None) -> tuple[Ints, Floats, Ints]:
        """The possible next groups (positions in `states`), their probabilities, and the used sets after them."""
        value, _, states, used_after = next_groups(used, last)
        probability = np.exp(value - _log_sum(value))
        by_probability = np.argsort(-probability, kind="stable")
        mass_before = np.cumsum(probability[by_probability]) - probability[by_probability]
        eligible = by_probability[mass_before < top_p] if top_p < 1 else by_probability
        return states[eligible], probability[eligible] / probability[eligible].sum(), used_after[eligible]

    drawn: list[ScoredPlan] = []
    for _ in range(count):
        plan: list[IndexState] = []
        used = 0
        while used != full_set:
            states, probability, used_after = choices(used, plan[-1][-1] if plan else None)
            choice = int(rng.choice(len(states), p=probability))
            plan.append(scores.states[states[choice]])
            used = int(used_after[choice])
        score = plan_score(scores, tuple(plan))
        assert score is not None  # no group is larger than L
        drawn.append(ScoredPlan(tuple(plan), score))
    return drawn
