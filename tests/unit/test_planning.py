"""Planning and the plan distribution p(z | x) against enumeration of all plans, in float64; sampling; large records."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.errors import PlanError
from agggen.model.lattice import ordered_states
from agggen.planning import PlanDistribution
from agggen.planning.bounded import beam_plans
from agggen.planning.exact import is_exact, k_best, log_partition, sample
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


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), largest=st.integers(1, 3), data=st.data())
@settings(max_examples=60, deadline=None)
def test_completion_equals_enumeration(seed: int, n: int, largest: int, data: st.DataObject) -> None:
    scores = make_scores(seed, n, largest)
    order = tuple(np.random.default_rng(seed).permutation(n).tolist())
    n_prefix = data.draw(st.integers(0, n), label="predicates in the prefix")
    # Groups of a human prefix may be larger than L.
    prefix = data.draw(st.sampled_from(aggregations_of(order[:n_prefix], 5)), label="prefix") if n_prefix else ()
    level = data.draw(st.sampled_from([None, *range(1, min(largest, n) + 1)]), label="level")
    continuations = [
        continuation
        for unused in permutations(order[n_prefix:])
        for continuation in (aggregations_of(unused, level or largest) if unused else [()])
    ]
    best = sorted((-chain_score(scores, continuation, prefix), prefix + continuation) for continuation in continuations)
    assert PlanDistribution(n, scores, level=level).complete(prefix) == best[0][1]
    plans = k_best(scores.adjusted(level), 10, prefix)
    assert [plan.states for plan in plans] == [plan for _, plan in best[:10]]
    assert [plan.score for plan in plans] == pytest.approx([-score for score, _ in best[:10]], abs=1e-12)
    assert [plan.states for plan in beam_plans(scores.adjusted(level), 10, prefix, 10**6)] == [p.states for p in plans]


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


# --- the distribution over plans ---


def enumerated(scores: PlanScores, largest: int, reward: float = 0.0) -> dict[IndexPlan, float]:
    """The probability of every plan, by enumeration."""
    plans = all_plans(scores.n_predicates, largest)
    weights = [math.exp(chain_score(scores, plan) + reward * len(plan)) for plan in plans]
    total = math.fsum(weights)
    return {plan: weight / total for plan, weight in zip(plans, weights, strict=True)}


@pytest.mark.parametrize("level", [None, 1, 2])
@pytest.mark.parametrize("reward", [0.0, 0.8])
def test_probabilities_equal_enumeration(level: int | None, reward: float) -> None:
    scores = make_scores(3, 4, 3)
    distribution = PlanDistribution(4, scores, level=level, reward=reward)
    expected = enumerated(scores, level or 3, reward)
    plans, exact = distribution.k_best(10_000)
    assert exact and {plan.states for plan in plans} == set(expected)
    for plan in plans:
        assert plan.log_probability == pytest.approx(math.log(expected[plan.states]), abs=1e-9)
        assert plan.score == plan.log_probability == distribution.scored(plan.states).log_probability
    assert [plan.score for plan in plans] == sorted((plan.score for plan in plans), reverse=True)


def test_a_plan_outside_the_level_has_no_probability() -> None:
    distribution = PlanDistribution(3, make_scores(1, 3, 2), level=1)
    assert distribution.scored(((0,), (1,), (2,))).log_probability is not None
    assert distribution.scored(((0, 1), (2,))).log_probability is None
    assert PlanDistribution(3, make_scores(1, 3, 2)).scored(((0, 1, 2),)).log_probability is None


@pytest.mark.parametrize(
    ("first", "last"), [((), ((0,), (3,))), ((), ((0, 3),)), (((0, 3),), ()), (((3,),), ((0,),)), (((0,), (3,)), ())]
)
def test_groups_of_unknown_predicates_precede_or_follow_the_plan(first: IndexPlan, last: IndexPlan) -> None:
    """Predicates 0 and 3 of five are unknown."""
    scores = make_scores(5, 3, 2)
    distribution = PlanDistribution(5, scores, first, last)
    plans, _ = distribution.k_best(1000)
    expected = enumerated(scores, 2)
    renamed = {
        (*first, *(tuple((1, 2, 4)[i] for i in group) for group in plan), *last): share
        for plan, share in expected.items()
    }
    assert {plan.states: math.exp(plan.score) for plan in plans} == pytest.approx(renamed)
    completed = distribution.complete(((3,), (4,)))
    assert completed[:2] == ((3,), (4,))
    assert completed[2 if (0,) in first or (0, 3) in first else -1] == (0,)
    nothing_known = PlanDistribution(2, None, (), ((0,), (1,)))
    assert [plan.states for plan in nothing_known.k_best(5)[0]] == [((0,), (1,))]
    assert nothing_known.scored(((0,), (1,))).log_probability is None
    assert nothing_known.complete(((1,),)) == ((1,), (0,))


def test_samples_follow_the_probabilities() -> None:
    scores = make_scores(2, 3, 2)
    expected = enumerated(scores, 2)
    drawn = Counter(plan.states for plan in sample(scores, 20_000, np.random.default_rng(1)))
    for plan, share in expected.items():
        assert drawn[plan] / 20_000 == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 20_000) + 1e-9)


def test_top_p_draws_the_most_probable_groups_only() -> None:
    scores = make_scores(2, 3, 2)
    expected = enumerated(scores, 2)

    def chance(prefix: IndexPlan) -> float:
        return math.fsum(share for plan, share in expected.items() if plan[: len(prefix)] == prefix)

    reachable: set[IndexPlan] = set()
    prefixes: list[IndexPlan] = [()]
    while prefixes:
        prefix = prefixes.pop()
        if sum(map(len, prefix)) == 3:
            reachable.add(prefix)
            continue
        following = {plan[len(prefix)] for plan in expected if plan[: len(prefix)] == prefix}
        total = 0.0
        for group in sorted(following, key=lambda group: -chance((*prefix, group))):
            if total < 0.7:
                prefixes.append((*prefix, group))
            total += chance((*prefix, group)) / chance(prefix)
    drawn = {plan.states for plan in sample(scores, 5000, np.random.default_rng(1), top_p=0.7)}
    assert drawn == reachable != set(expected)


def test_sampling_is_reproducible_and_needs_exact_tables() -> None:
    first, second = (sample(make_scores(2, 4), 9, np.random.default_rng(3)) for _ in range(2))
    assert first == second
    with pytest.raises(PlanError, match="20 predicates cannot be sampled"):
        sample(make_scores(1, 20, 1), 1, np.random.default_rng(1))


def test_plans_of_large_records_are_those_of_the_beam_and_have_no_probability() -> None:
    scores = make_scores(1, 15, 2)
    assert not is_exact(scores)
    distribution = PlanDistribution(15, scores)
    plans, exact = distribution.k_best(3)
    assert not exact
    assert [plan.states for plan in plans] == [plan.states for plan in beam_plans(scores, 3)]
    completed = distribution.complete(((14,), (3, 0)))
    for states in (plans[0].states, completed):
        assert sorted(index for group in states for index in group) == list(range(15))
    assert completed[:2] == ((14,), (3, 0))
    for plan in plans:
        assert plan.log_probability is None
        assert plan.score == pytest.approx(plan_score(scores, plan.states))
