"""Exact planning: the k best plans of a record and the sum over all plans, by dynamic programming.

Because p_out sees only the last predicate of one state and the first of the next, what can still follow depends on
(set of used predicates, last predicate) alone. One backward recursion over these cells, from the full set down,
serves two semirings: its log-sum is the partition function; its maximum is the exact value of the best completion of
every prefix, with which a best-first search walks straight along the k best plans and nowhere else.

Cost: sum over sizes l of J!/(J-l)! * 2^(J-l) transitions (5 152 for J = 7, L = 3; 120 320 for J = 10), no Python loop
over them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import perm

import numpy as np
from numpy.typing import NDArray

from agggen.errors import PlanError
from agggen.planning.beam import beam_plans
from agggen.planning.scores import Floats, IndexPlan, IndexState, PlanScores, ScoredPlan, check_indices, group_limit

MAX_EXACT = 12
"""Records with more predicates are planned by beam search (2^J cells)."""

MAX_TRANSITIONS = 1_000_000
"""So are those whose L makes the tables larger than this (L above 3 at J = 11, above 4 at J = 10): time and memory."""

Ints = NDArray[np.intp]
Reduce = Callable[[Floats], Floats]
"""A semiring's sum over the last axis."""


@dataclass(frozen=True)
class _Level:
    """The n used sets of one cardinality p; r = J - p predicates are unused, C states start with each of them."""

    sets: Ints  # (n,) bit masks
    used: Ints  # (n, p) ascending
    unused: Ints  # (n, r) ascending
    states: Ints  # (n, r, C) positions in PlanScores.states, lexicographic: the states that avoid the used set
    cells: Ints  # (n, r, C) cell (used set | state, last of state) that the state leads to, as set * J + last


@dataclass(frozen=True)
class _Tables:
    levels: tuple[_Level, ...]  # by cardinality of the used set, 0..J-1
    rows: Ints  # (2^J,) row of a used set in its level


@lru_cache(maxsize=16)
def _tables(n_predicates: int, states: tuple[IndexState, ...], max_size: int) -> _Tables:
    """Index tables of the recursion; they depend on J, L and the order of `states`, not on scores."""
    n = n_predicates
    # Lexicographic order groups the states by their first predicate and makes ties deterministic.
    kept = np.array(sorted((i for i, s in enumerate(states) if len(s) <= max_size), key=states.__getitem__))
    state_sets = np.array([sum(1 << index for index in states[i]) for i in kept])
    state_last = np.array([states[i][-1] for i in kept])
    sets = np.arange(1 << n)
    member = (sets[:, None] >> np.arange(n)) & 1 == 1  # (2^J, J)
    cardinality = member.sum(1)
    rows = np.zeros(1 << n, dtype=np.intp)
    levels = []
    for p in range(n):
        level_sets = np.flatnonzero(cardinality == p)
        count, r = len(level_sets), n - p
        rows[level_sets] = np.arange(count)
        used = np.nonzero(member[level_sets])[1].reshape(count, p)
        unused = np.nonzero(~member[level_sets])[1].reshape(count, r)
        # Each used set leaves equally many states for each unused first predicate, so the tables are rectangular.
        row, state = np.nonzero(level_sets[:, None] & state_sets == 0)
        cells = (level_sets[row] | state_sets[state]) * n + state_last[state]
        levels.append(_Level(level_sets, used, unused, kept[state].reshape(count, r, -1), cells.reshape(count, r, -1)))
    return _Tables(tuple(levels), rows)


def _backward(scores: PlanScores, tables: _Tables, reduce: Reduce) -> list[Floats]:
    """For each cardinality p of the used set the values (n, r, C) of saying a state next, with all that may follow.

    A value holds within[state] and everything after it, but not yet the transition into the state.
    """
    n = scores.n_predicates
    rest = np.zeros((1 << n) * n)  # (used set, last) -> value of all that may follow; 0 once all predicates are used
    values: list[Floats] = []
    for level in reversed(tables.levels):
        value = scores.within[level.states] + rest[level.cells]
        into = reduce(value)  # (n, r): over the states with the same first predicate
        transition = scores.out[level.used[:, :, None], level.unused[:, None, :]]  # (n, p, r)
        rest[level.sets[:, None] * n + level.used] = reduce(transition + into[:, None, :])
        values.append(value)
    return values[::-1]


def _maximum(values: Floats) -> Floats:
    return values.max(axis=-1)


def _log_sum(values: Floats) -> Floats:
    if values.shape[-1] == 1:
        return values[..., 0]
    highest = values.max(axis=-1, keepdims=True)
    total: Floats = np.log(np.exp(values - highest).sum(axis=-1)) + highest[..., 0]
    return total


def is_exact(scores: PlanScores, max_size: int | None = None) -> bool:
    """Whether `k_best` and `log_partition` are exact for these scores (see `MAX_EXACT`, `MAX_TRANSITIONS`)."""
    n = scores.n_predicates
    transitions = sum(perm(n, size) << (n - size) for size in range(1, group_limit(scores, max_size) + 1))
    return n <= MAX_EXACT and transitions <= MAX_TRANSITIONS


def log_partition(scores: PlanScores, max_size: int | None = None) -> float | None:
    """log of the summed probability of all plans with groups of at most `max_size` (default: L) predicates.

    ``plan_score(scores, z) - log_partition(scores)`` is log p(z | x), a proper distribution over the record's plans.
    None above the exact limits (`is_exact`): the plans that a beam finds only bound the sum from below, by an unknown
    margin, and a number that silently means something else would be worse than none.

    Raises:
        PlanError: `max_size` is out of range.
    """
    if not is_exact(scores, max_size):
        return None
    tables = _tables(scores.n_predicates, scores.states, group_limit(scores, max_size))
    first = _backward(scores, tables, _log_sum)[0][0]  # (J, C)
    return float(_log_sum((scores.start[:, None] + first).ravel()))


def k_best(scores: PlanScores, k: int, max_size: int | None = None, prefix: IndexPlan = ()) -> list[ScoredPlan]:
    """The `k` most probable distinct plans, best first; fewer where there are fewer. Ties: lexicographic.

    Groups have at most `max_size` (default: L) predicates. With a `prefix`, the plans that begin with it; its own
    groups may have any size, and log_probability is then that of the continuation alone. Above the exact limits
    (`is_exact`) this is a beam search (`beam.beam_plans`) and not exact.

    Raises:
        PlanError: `k` below 1, `max_size` out of range, or a prefix that repeats or invents a predicate.
    """
    if k < 1:
        raise PlanError(f"{k} plans were asked for; at least 1 is possible")
    check_indices(scores.n_predicates, prefix, complete=False)
    limit = group_limit(scores, max_size)
    if not is_exact(scores, limit):
        return beam_plans(scores, k, limit, prefix)
    tables = _tables(scores.n_predicates, scores.states, limit)
    values = _backward(scores, tables, _maximum)
    everything = (1 << scores.n_predicates) - 1
    used = sum(1 << index for state in prefix for index in state)

    @cache
    def extensions(used: int, last: int | None) -> list[tuple[float, float, IndexState]]:
        """The k best next states: value with all that follows, own log-probability, state."""
        level, row = tables.levels[used.bit_count()], tables.rows[used]
        unused = level.unused[row]
        transition = (scores.start if last is None else scores.out[last])[unused]
        value = (transition[:, None] + values[used.bit_count()][row]).ravel()
        best = np.argsort(-value, kind="stable")[:k]
        states = level.states[row].ravel()[best]
        own = transition[best // level.states.shape[-1]] + scores.within[states]
        return [(v, o, scores.states[s]) for v, o, s in zip(value[best].tolist(), own.tolist(), states, strict=True)]

    found: list[ScoredPlan] = []
    queue: list[tuple[float, IndexPlan, float, int]] = [(0.0, prefix, 0.0, used)]  # (-bound, plan, score, used set)
    while queue and len(found) < k:
        _, plan, score, used = heapq.heappop(queue)
        if used == everything:
            found.append(ScoredPlan(plan, score))
            continue
        for value, own, state in extensions(used, plan[-1][-1] if plan else None):
            now_used = used | sum(1 << index for index in state)
            heapq.heappush(queue, (-(score + value), (*plan, state), score + own, now_used))
    # The bounds and the scores round differently: order what was found by the scores.
    return sorted(found, key=lambda plan: (-plan.log_probability, plan.states))
