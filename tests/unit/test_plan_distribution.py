"""The plan distribution p(z | x): comparison with enumeration, sampling, and plans of large records."""

import math
from collections import Counter

import numpy as np
import pytest

from agggen.errors import PlanError
from agggen.planning import IndexPlan, PlanDistribution, PlanScores
from agggen.planning.bounded import beam_plans
from agggen.planning.exact import is_exact, sample
from agggen.planning.scores import plan_score
from tests.unit.test_planning import all_plans, chain_score, make_scores


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


@pytest.mark.parametrize("groups", [((0,), (3,)), ((0, 3),)])
def test_groups_of_unknown_predicates_follow_the_plan(groups: IndexPlan) -> None:
    """Predicates 0 and 3 of five are unknown: the groups of the other three come first."""
    scores = make_scores(5, 3, 2)
    distribution = PlanDistribution(5, scores, groups)
    plans, _ = distribution.k_best(1000)
    expected = enumerated(scores, 2)
    renamed = {
        (*(tuple((1, 2, 4)[i] for i in group) for group in plan), *groups): share for plan, share in expected.items()
    }
    assert {plan.states: math.exp(plan.score) for plan in plans} == pytest.approx(renamed)
    assert distribution.complete(((3,), (4,)))[:2] == ((3,), (4,))
    assert distribution.complete(((3,), (4,)))[-1] == (0,)
    nothing_known = PlanDistribution(2, None, ((0,), (1,)))
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
