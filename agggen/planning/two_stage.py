"""The paper's planner: first the order of the predicates, then their aggregation (section 3.4).

Plans are scored as in the paper, by log p_in of the order plus log p_out at the boundaries between groups. These scores
differ from `scores.plan_score`, which also includes the order within groups and their lengths.
"""

from math import lgamma

import numpy as np

from agggen.planning.scores import IndexPlan, IndexState, PlanScores, ScoredPlan


def orderings(scores: PlanScores, beam: int = 3) -> list[tuple[IndexState, float]]:
    """Input ordering: the best orders of all predicates by beam search under p_in, with their log-probabilities."""
    n = scores.n_predicates
    first = np.argsort(-scores.inside_start, kind="stable")[:beam]
    orders = first[:, None]  # (beam, predicates so far)
    total = scores.inside_start[first]  # (beam,)
    for _ in range(n - 1):
        used = np.zeros((len(orders), n), dtype=bool)
        np.put_along_axis(used, orders, True, axis=1)
        logits = np.where(used, -np.inf, scores.inside[orders[:, -1]])  # (beam, J)
        logits -= logits.max(axis=1, keepdims=True)
        value = (total[:, None] + logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).ravel()
        best = np.argsort(-value, kind="stable")[: min(beam, int((~used).sum()))]
        orders = np.concatenate([orders[best // n], best[:, None] % n], axis=1)
        total = value[best]
    return [(tuple(order), score) for order, score in zip(orders.tolist(), total.tolist(), strict=True)]


def aggregations(scores: PlanScores, order: IndexState, top: int = 2) -> list[ScoredPlan]:
    """Input aggregation: the `top` best segmentations of `order` into groups of at most L predicates; equivalent to the
    paper's enumeration of all wait and emit patterns.
    """
    best: list[list[tuple[float, IndexPlan]]] = [[(0.0, ())]]  # best[j]: segmentations of the first j predicates
    for end in range(1, len(order) + 1):
        segmentations: list[tuple[float, IndexPlan]] = []
        for begin in range(max(0, end - scores.max_group_size), end):
            boundary = float(scores.out[order[begin - 1], order[begin]]) if begin else 0.0
            group = order[begin:end]
            segmentations += [(score + boundary, (*plan, group)) for score, plan in best[begin]]
        best.append(sorted(segmentations, key=lambda item: (-item[0], item[1]))[:top])
    return [ScoredPlan(plan, score) for score, plan in best[-1]]


def two_stage(scores: PlanScores, beam: int = 3, top: int = 2) -> list[ScoredPlan]:
    """The paper's plans, best first: the `top` best aggregations of each of the `beam` best orders."""
    plans = [
        ScoredPlan(plan.states, score + plan.score)
        for order, score in orderings(scores, beam)
        for plan in aggregations(scores, order, top)
    ]
    return sorted(plans, key=lambda plan: (-plan.score, plan.states))


def random_order(scores: PlanScores, rng: np.random.Generator, top: int = 2) -> list[ScoredPlan]:
    """The ablation -OD: the `top` best aggregations of one random order, whose probability is 1/J!."""
    order = tuple(rng.permutation(scores.n_predicates).tolist())
    log_p_order = -lgamma(scores.n_predicates + 1)
    return [ScoredPlan(plan.states, log_p_order + plan.score) for plan in aggregations(scores, order, top)]


def no_aggregation(scores: PlanScores, beam: int = 3) -> list[ScoredPlan]:
    """The ablation -AG: every predicate in its own group, in the `beam` best orders, with the scores of the orders."""
    return [ScoredPlan(tuple((index,) for index in order), score) for order, score in orderings(scores, beam)]
