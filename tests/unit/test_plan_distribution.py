"""The plan distribution p(z | x): comparison with enumeration, sampling, and proofs of optimality."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.errors import PlanError
from agggen.planning import IndexPlan, PlanDistribution, PlanScores, bounded, exact
from agggen.planning.bounded import beam_plans, search
from agggen.planning.exact import is_exact, k_best, sample
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
    plans, proven = distribution.k_best(10_000)
    assert proven and {plan.states for plan in plans} == set(expected)
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


@given(seed=st.integers(0, 10**6), n=st.integers(2, 6), largest=st.integers(1, 3), k=st.integers(1, 6))
@settings(max_examples=80, deadline=None)
def test_proven_plans_equal_exact_planning(seed: int, n: int, largest: int, k: int) -> None:
    """Exact planning, with which the results are compared, is disabled during the search."""
    scores = make_scores(seed, n, largest)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exact, "MAX_TRANSITIONS", 0)
        plans, proven = search(scores, k)
        prefix_plans, prefix_proven = search(scores, 1, prefix=((n - 1,),))
    expected = k_best(scores, k)
    assert [plan.score for plan in plans] == pytest.approx([plan.score for plan in expected[: len(plans)]], abs=1e-9)
    if proven:
        assert [plan.states for plan in plans] == [plan.states for plan in expected]
    if prefix_proven:
        assert prefix_plans[0].states == k_best(scores, 1, prefix=((n - 1,),))[0].states


def test_plans_of_large_records_may_be_proven_but_have_no_probability() -> None:
    proofs = 0
    for seed in range(5):
        scores = make_scores(seed, 15, 2)
        assert not is_exact(scores)
        distribution = PlanDistribution(15, scores)
        plans, proven = distribution.k_best(2)
        proofs += proven
        for plan in plans:
            assert plan.log_probability is None
            assert plan.score == pytest.approx(plan_score(scores, plan.states))
            assert sorted(index for group in plan.states for index in group) == list(range(15))
        wide = beam_plans(scores, 2, width=2000)
        assert plans[0].score >= wide[0].score - 1e-9 or not proven
    assert proofs


def test_without_a_proof_the_plans_of_the_beam_are_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_EXPANSIONS", 0)
    scores = make_scores(1, 15, 2)
    plans, proven = PlanDistribution(15, scores).k_best(3)
    assert not proven
    assert [plan.states for plan in plans] == [plan.states for plan in beam_plans(scores, 3)]
