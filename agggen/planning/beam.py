"""Beam search over plans, for records with too many predicates for exact planning.

For each number of used predicates, the best `width` partial plans are kept, ranked by the scores of `exact.k_best`.
"""

from __future__ import annotations

import numpy as np

from agggen.planning.scores import IndexPlan, PlanScores, ScoredPlan, lexicographic


def beam_plans(scores: PlanScores, k: int, prefix: IndexPlan = (), width: int = 32) -> list[ScoredPlan]:
    """At most `k` distinct plans, best first, by a beam of max(`width`, `k`); `prefix` is as in `exact.k_best`."""
    width, n, order = max(width, k), scores.n_predicates, lexicographic(scores.states)
    by_size = [
        np.array([i for i in order if len(scores.states[i]) == size]) for size in range(1, scores.max_group_size + 1)
    ]
    members = [np.array([scores.states[i] for i in states]) for states in by_size]  # (S_size, size) each
    n_used = sum(len(group) for group in prefix)
    stacks: list[list[tuple[float, IndexPlan]]] = [[] for _ in range(n + 1)]  # by number of used predicates
    stacks[n_used].append((0.0, prefix))
    for count in range(n_used, n):
        beam = _best(stacks[count], width)
        if not beam:
            continue
        used = np.zeros((len(beam), n), dtype=bool)
        for row, (_, plan) in enumerate(beam):
            used[row, [index for group in plan for index in group]] = True
        transition = np.stack([scores.out[plan[-1][-1]] if plan else scores.start for _, plan in beam])
        total = np.where(used, -np.inf, np.array([score for score, _ in beam])[:, None] + transition)  # (beam, J)
        for states, member in zip(by_size[: n - count], members, strict=False):
            ends = np.array(count + member.shape[1] == n)
            value = total[:, member[:, 0]] + scores.group_scores(states, ends)  # (beam, S_size)
            for position in range(1, member.shape[1]):
                value[used[:, member[:, position]]] = -np.inf
            flat = value.ravel()
            chosen = np.argpartition(-flat, width)[:width] if len(flat) > width else np.arange(len(flat))
            for cell in chosen[flat[chosen] > -np.inf]:
                row, column = divmod(int(cell), len(states))
                plan = (*beam[row][1], scores.states[states[column]])
                stacks[count + member.shape[1]].append((float(flat[cell]), plan))
    return [ScoredPlan(plan, score) for score, plan in _best(stacks[n], k)]


def _best(stack: list[tuple[float, IndexPlan]], count: int) -> list[tuple[float, IndexPlan]]:
    """The `count` partial plans with the highest scores, ties in lexicographic order."""
    return sorted(stack, key=lambda entry: (-entry[0], entry[1]))[:count]
