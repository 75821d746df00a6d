"""Planning against enumeration of all plans, in float64."""

import math
from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.model.lattice import ordered_states
from agggen.planning.bounded import beam_plans
from agggen.planning.exact import k_best, log_partition
from agggen.planning.scores import IndexPlan, PlanScores, plan_score
from agggen.planning.two_stage import aggregations, no_aggregation, orderings, random_order, two_stage

small = given(seed=st.integers(0, 10**6), n=st.integers(1, 5), largest=st.integers(1, 3), k=st.integers(1, 40))


def make_scores(seed: int, n: int, largest: int = 3, whole_numbers: bool = False) -> PlanScores:
    """Random scores; with `whole_numbers`, many plans tie exactly."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-3, 1, shape).astype(float) if whole_numbers else -rng.exponential(1.5, shape)

    size = len(ordered_states(n, largest))
    return PlanScores(draw(n), draw(n, n), draw(n), draw(n, n), draw(2, size), largest)


def aggregations_of(order: tuple[int, ...], largest: int) -> list[IndexPlan]:
    """The plans of all wait (0) / emit (1) patterns over an order; the last predicate emits (paper section 3.4)."""
    plans = []
    for pattern in product((0, 1), repeat=len(order) - 1):
        groups: list[tuple[int, ...]] = []
        waiting: list[int] = []
        for predicate, emit in zip(order, (*pattern, 1), strict=True):
            waiting.append(predicate)
            if emit:
                groups.append(tuple(waiting))
                waiting = []
        if max(len(group) for group in groups) <= largest:
            plans.append(tuple(groups))
    return plans


def all_plans(n: int, largest: int) -> list[IndexPlan]:
    return [plan for order in permutations(range(n)) for plan in aggregations_of(order, largest)]


def chain_score(scores: PlanScores, plan: IndexPlan, prefix: IndexPlan = ()) -> float:
    """The score of the groups after `prefix` by definition: `start` + all `within` + `out` between groups."""
    total, groups = 0.0, (*prefix, *plan)
    for index in range(len(prefix), len(groups)):
        first = groups[index][0]
        total += scores.out[groups[index - 1][-1], first] if index else scores.start[first]
        total += scores.within[int(index + 1 == len(groups)), scores.states.index(groups[index])]
    return float(total)


def ranked(scored: list[tuple[float, IndexPlan]]) -> list[tuple[float, IndexPlan]]:
    return sorted(scored, key=lambda entry: (-entry[0], entry[1]))


def states_of(plans: list) -> list[IndexPlan]:
    return [plan.states for plan in plans]


@pytest.mark.parametrize("largest", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@given(seed=st.integers(0, 10**6), k=st.integers(1, 40))
@settings(max_examples=8, deadline=None)
def test_k_best_and_partition_equal_enumeration(n: int, largest: int, seed: int, k: int) -> None:
    scores = make_scores(seed, n, largest)
    for level in (None, *range(1, largest + 1)):
        limited = scores.adjusted(level)
        expected = ranked([(chain_score(scores, plan), plan) for plan in all_plans(n, level or largest)])
        plans = k_best(limited, k)
        assert states_of(plans) == [plan for _, plan in expected[:k]]
        assert [plan.score for plan in plans] == pytest.approx([score for score, _ in expected[:k]], abs=1e-12)
        assert [plan.score for plan in plans] == [plan_score(limited, plan.states) for plan in plans]
        total = math.log(math.fsum(math.exp(score) for score, _ in expected))
        assert log_partition(limited) == pytest.approx(total, abs=1e-12)


@small
@settings(max_examples=40, deadline=None)
def test_ties_are_broken_lexicographically(seed: int, n: int, largest: int, k: int) -> None:
    scores = make_scores(seed, n, largest, whole_numbers=True)
    expected = ranked([(chain_score(scores, plan), plan) for plan in all_plans(n, largest)])[:k]
    assert [(plan.score, plan.states) for plan in k_best(scores, k)] == expected
    assert states_of(beam_plans(scores, k, width=10**6)) == [plan for _, plan in expected]


def order_log_probability(scores: PlanScores, order: tuple[int, ...]) -> float:
    total = float(scores.inside_start[order[0]])
    for position in range(1, len(order)):
        row = scores.inside[order[position - 1]]
        unused = [row[i] for i in range(scores.n_predicates) if i not in order[:position]]
        total += float(row[order[position]]) - math.log(math.fsum(math.exp(logit) for logit in unused))
    return total


def boundary_score(scores: PlanScores, plan: IndexPlan) -> float:
    return math.fsum(scores.out[before[-1], after[0]] for before, after in pairwise(plan))


def beam_orders(scores: PlanScores, beam: int) -> list[tuple[int, ...]]:
    """Left-to-right beam search over orders, without incremental scores."""
    n = scores.n_predicates
    orders: list[tuple[int, ...]] = [()]
    for _ in range(n):
        longer = [(*order, i) for order in orders for i in range(n) if i not in order]
        orders = sorted(longer, key=lambda order: (-order_log_probability(scores, order), order))[:beam]
    return orders


@small
@settings(max_examples=40, deadline=None)
def test_two_stage_equals_the_procedure_of_the_paper(seed: int, n: int, largest: int, k: int) -> None:
    scores = make_scores(seed, n, largest)
    for beam, orders in ((3, beam_orders(scores, 3)), (1000, list(permutations(range(n))))):
        expected = []
        for order in orders:
            patterns = ranked([(boundary_score(scores, plan), plan) for plan in aggregations_of(order, largest)])[:k]
            expected += [(order_log_probability(scores, order) + score, plan) for score, plan in patterns]
        plans = two_stage(scores, beam=beam, top=k)
        expected = ranked(expected)
        assert states_of(plans) == [plan for _, plan in expected]
        assert [plan.score for plan in plans] == pytest.approx([score for score, _ in expected], abs=1e-12)


def test_extreme_logits_stay_finite() -> None:
    scores = make_scores(2, 5)
    extreme = replace(scores, inside=scores.inside * 1e4, out=scores.out * 1e4, within=scores.within * 1e4)
    for plan in two_stage(extreme, beam=200):  # however large its logit, a predicate is used once
        assert math.isfinite(plan.score)
        assert sorted(i for state in plan.states for i in state) == list(range(5))
    total, best = log_partition(extreme), k_best(extreme, 1)[0].score
    assert total is not None and total >= best and math.isfinite(total)


def test_random_order_ablation_aggregates_one_shuffled_order() -> None:
    scores, rng = make_scores(8, 5), np.random.default_rng(11)
    plans = random_order(scores, rng, top=3)
    order = tuple(i for state in plans[0].states for i in state)
    assert states_of(plans) == states_of(aggregations(scores, order, 3))
    assert plans[0].score == pytest.approx(boundary_score(scores, plans[0].states) - math.log(120))
    assert random_order(scores, np.random.default_rng(11), top=3) == plans
    drawn = {tuple(i for s in random_order(scores, rng)[0].states for i in s) for _ in range(50)}
    assert len(drawn) > 20


def test_no_aggregation_ablation_ranks_plans_by_their_order() -> None:
    scores = make_scores(8, 5)
    plans = no_aggregation(scores, beam=4)
    assert [(tuple(i for (i,) in plan.states), plan.score) for plan in plans] == orderings(scores, 4)
