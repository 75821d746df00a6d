"""The k best plans of a record: exact, or by beam search if the record is too large for the tables of `exact`."""

import numpy as np

from agggen.planning import exact
from agggen.planning.scores import IndexPlan, PlanScores, ScoredPlan, lexicographic


def search(scores: PlanScores, k: int, prefix: IndexPlan = ()) -> tuple[list[ScoredPlan], bool]:
    """The k best plans, best first, and whether they are exact (if not, they are those of the beam search)."""
    if exact.is_exact(scores):
        return exact.k_best(scores, k, prefix), True
    return beam_plans(scores, k, prefix), False


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
