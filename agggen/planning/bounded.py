"""The k best plans of records that are too large for the tables of `exact`: a beam search with a proof of optimality.

The bound comes from a state-space relaxation (Christofides, Mingozzi and Toth 1981, Networks 11): the recursion tracks
the number of unused predicates instead of their set, so a relaxed plan may repeat one predicate and omit another.
Lagrange multipliers (prices of predicates), optimised by subgradient steps, penalise this (Held and Karp 1971). If
f(n, p) is the greatest value, minus prices, of a relaxed continuation by n predicates after predicate p,

    value of any continuation of (used set, p)  <=  f(J - |used|, p) + sum of the prices of the unused predicates.

An A* search with this bound keeps only prefixes whose bound reaches the score of the k-th plan of the beam search.
"""

import heapq
from collections import Counter

import numpy as np

from agggen.planning import exact
from agggen.planning.scores import Floats, IndexPlan, PlanScores, ScoredPlan, lexicographic

MAX_EXPANSIONS = 1000  # maximum number of prefixes that are extended; about 0.2 ms each
_SUBGRADIENT_STEPS = 60
_TOLERANCE = 1e-9


def search(scores: PlanScores, k: int, prefix: IndexPlan = ()) -> tuple[list[ScoredPlan], bool]:
    """The k best plans, best first, and whether their optimality is proven (if not, they are those of the beam)."""
    if exact.is_exact(scores):
        return exact.k_best(scores, k, prefix), True
    beam = beam_plans(scores, k, prefix)
    optimal_plans = _a_star(scores, k, prefix, beam)
    return (beam, False) if optimal_plans is None else (optimal_plans, True)


def beam_plans(scores: PlanScores, k: int, prefix: IndexPlan = (), width: int = 32) -> list[ScoredPlan]:
    """At most `k` distinct plans, best first; `prefix` is as in `exact.k_best`.

    For each number of used predicates, the max(`width`, `k`) partial plans with the best scores are extended.
    """
    width, n, order = max(width, k), scores.n_predicates, lexicographic(scores.states)
    by_size = [
        np.array([i for i in order if len(scores.states[i]) == size]) for size in range(1, scores.max_group_size + 1)
    ]
    members = [np.array([scores.states[i] for i in states]) for states in by_size]  # (S_size, size) each
    n_in_prefix = sum(len(group) for group in prefix)
    stacks: list[list[tuple[float, IndexPlan]]] = [[] for _ in range(n + 1)]  # by number of used predicates
    stacks[n_in_prefix].append((0.0, prefix))
    for n_used in range(n_in_prefix, n):
        beam = _best(stacks[n_used], width)
        if not beam:
            continue
        used = np.zeros((len(beam), n), dtype=bool)
        for row, (_, plan) in enumerate(beam):
            used[row, [index for group in plan for index in group]] = True
        transition = np.stack([scores.out[plan[-1][-1]] if plan else scores.start for _, plan in beam])
        partial_scores = np.array([score for score, _ in beam])[:, None]
        total = np.where(used, -np.inf, partial_scores + transition)  # (beam, J), by first predicate of the next group
        for states, member in zip(by_size[: n - n_used], members, strict=False):
            ends = np.array(n_used + member.shape[1] == n)
            value = total[:, member[:, 0]] + scores.group_scores(states, ends)  # (beam, S_size)
            for position in range(1, member.shape[1]):
                value[used[:, member[:, position]]] = -np.inf
            flat = value.ravel()
            cells = np.argpartition(-flat, width)[:width] if len(flat) > width else np.arange(len(flat))
            for cell in cells[flat[cells] > -np.inf]:
                row, column = divmod(int(cell), len(states))
                plan = (*beam[row][1], scores.states[states[column]])
                stacks[n_used + member.shape[1]].append((float(flat[cell]), plan))
    return [ScoredPlan(plan, score) for score, plan in _best(stacks[n], k)]


def _best(stack: list[tuple[float, IndexPlan]], count: int) -> list[tuple[float, IndexPlan]]:
    """The partial plans with the highest scores, ties in lexicographic order."""
    return sorted(stack, key=lambda entry: (-entry[0], entry[1]))[:count]


class _Relaxation:
    """The bound f(n, p) of the module's docstring, and the prices. Rows are groups in lexicographic order."""

    def __init__(self, scores: PlanScores) -> None:
        self.scores, self.states = scores, np.array(lexicographic(scores.states))
        groups = [scores.states[i] for i in self.states]
        self.size = np.array([len(group) for group in groups])
        self.first = np.array([group[0] for group in groups])
        self.last = np.array([group[-1] for group in groups])
        self.bits = np.array([sum(1 << index for index in group) for group in groups])
        self.members = np.zeros((len(groups), scores.n_predicates))
        for row, group in enumerate(groups):
            self.members[row, list(group)] = 1.0
        # The first row of the groups that begin with each predicate; rows are sorted by first predicate.
        self.first_rows = np.searchsorted(self.first, np.arange(scores.n_predicates))
        self.transition = np.where(np.eye(scores.n_predicates, dtype=bool), -np.inf, scores.out)
        self.prices = np.zeros(scores.n_predicates)

    def solve(self, n_unused: int) -> None:
        """Computes `f`, (n_unused + 1, J), for the current prices."""
        n = self.scores.n_predicates
        price = self.members @ self.prices
        self.f = np.full((n_unused + 1, n), -np.inf)
        self.f[0] = 0.0
        # By n_left - 1: (rows,) value, minus prices, of a next group and its continuation.
        self.values: list[Floats] = []
        for n_left in range(1, n_unused + 1):
            is_possible = self.size <= n_left
            future = self.f[np.maximum(n_left - self.size, 0), self.last]
            group_scores = self.scores.group_scores(self.states, self.size == n_left)
            self.values.append(np.where(is_possible, group_scores + future - price, -np.inf))
            best_by_first = np.maximum.reduceat(self.values[-1], self.first_rows)
            self.f[n_left] = (self.transition + best_by_first).max(1)

    def relaxed_plan(self, transition: Floats, n_unused: int) -> tuple[float, Counter[int]]:
        """Value (minus prices) and predicate counts of the best relaxed plan after `transition` (J,), in log p."""
        counts: Counter[int] = Counter()
        value, n_left = float((transition[self.first] + self.values[n_unused - 1]).max()), n_unused
        while n_left:
            best = int((transition[self.first] + self.values[n_left - 1]).argmax())
            counts.update(self.scores.states[self.states[best]])
            n_left -= int(self.size[best])
            transition = self.transition[self.last[best]]
        return value, counts


def _a_star(scores: PlanScores, k: int, prefix: IndexPlan, incumbents: list[ScoredPlan]) -> list[ScoredPlan] | None:
    """The k best plans; None if `MAX_EXPANSIONS` is exceeded. `incumbents` are the plans of the beam search."""
    n = scores.n_predicates
    full_set = (1 << n) - 1
    prefix_set = sum(1 << index for group in prefix for index in group)
    unused_predicates = [index for index in range(n) if not prefix_set >> index & 1]
    if not unused_predicates or len(incumbents) < k:
        return None
    threshold = incumbents[-1].score - _TOLERANCE
    relaxation = _Relaxation(scores)
    root = scores.out[prefix[-1][-1]] if prefix else scores.start
    root = np.where([prefix_set >> index & 1 for index in range(n)], -np.inf, root)
    _set_prices(relaxation, root, unused_predicates, incumbents[0].score)

    visits: Counter[tuple[int, int]] = Counter()  # number of extensions of each (used set, last predicate)
    best_plans: list[ScoredPlan] = []
    # Entries: (-bound, plan, score, used set).
    queue: list[tuple[float, IndexPlan, float, int]] = [(-np.inf, prefix, 0.0, prefix_set)]
    expansions = 0
    while queue and len(best_plans) < k:
        _, plan, score, used = heapq.heappop(queue)
        if used == full_set:
            best_plans.append(ScoredPlan(plan, score))
            continue
        cell = (used, plan[-1][-1] if plan else n)
        visits[cell] += 1
        if visits[cell] > k:  # k prefixes with the same continuations and scores at least as high were extended
            continue
        expansions += 1
        if expansions > MAX_EXPANSIONS:
            return None
        n_left = n - used.bit_count()
        transition = root if used == prefix_set else scores.out[plan[-1][-1]]
        price = sum(relaxation.prices[index] for index in range(n) if not used >> index & 1)
        bound = score + transition[relaxation.first] + relaxation.values[n_left - 1] + price
        group_scores = scores.group_scores(relaxation.states, relaxation.size == n_left)
        for row in np.flatnonzero((bound >= threshold) & (relaxation.bits & used == 0)):
            new_score = score + float(transition[relaxation.first[row]] + group_scores[row])
            group = scores.states[relaxation.states[row]]
            entry = (-float(bound[row]), (*plan, group), new_score, used | int(relaxation.bits[row]))
            heapq.heappush(queue, entry)
    return sorted(best_plans, key=lambda plan: (-plan.score, plan.states))


def _set_prices(relaxation: _Relaxation, root: Floats, unused_predicates: list[int], best: float) -> None:
    """Sets the prices with the lowest bound; `root` (J,) are the first transitions, `best` the best known score."""
    lowest_bound, best_prices = np.inf, relaxation.prices.copy()
    for step in range(_SUBGRADIENT_STEPS):
        relaxation.solve(len(unused_predicates))
        value, counts = relaxation.relaxed_plan(root, len(unused_predicates))
        bound = value + float(relaxation.prices[unused_predicates].sum())
        if bound < lowest_bound:
            lowest_bound, best_prices = bound, relaxation.prices.copy()
        excess = np.array([counts[index] - float(index in unused_predicates) for index in range(len(root))])
        if bound - best <= _TOLERANCE or not excess.any():
            break
        relaxation.prices = relaxation.prices + (bound - best) / (excess @ excess) * 0.95**step * excess
    relaxation.prices = best_prices
    relaxation.solve(len(unused_predicates))
