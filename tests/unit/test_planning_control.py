"""Human plans: resolved, refused, completed by the most probable continuation."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.errors import PlanError
from agggen.planning import IndexPlan, PlanDistribution, PlanScores, named_plan, resolve_plan
from agggen.planning.exact import k_best
from agggen.planning.scores import plan_score
from agggen.records import Plan, Record, Triple
from tests.unit.test_planning import cuts, make_scores

NAMES = ("eatType", "near", "customer rating", "food", "area")
RECORD = Record("r7", tuple(Triple("The Mill", name, "x") for name in NAMES))


def continuation_score(scores: PlanScores, prefix: IndexPlan, continuation: IndexPlan) -> float:
    total, last = 0.0, prefix[-1][-1] if prefix else None
    for state in continuation:
        total += scores.start[state[0]] if last is None else scores.out[last, state[0]]
        total += scores.within[scores.states.index(state)]
        last = state[-1]
    return total


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), largest=st.integers(1, 3), data=st.data())
@settings(max_examples=60, deadline=None)
def test_completion_equals_enumeration(seed: int, n: int, largest: int, data: st.DataObject) -> None:
    scores = make_scores(seed, n, largest)
    order = tuple(np.random.default_rng(seed).permutation(n).tolist())
    n_prefix = data.draw(st.integers(0, n), label="predicates in the prefix")
    # Groups of a human prefix may be larger than L.
    prefix = data.draw(st.sampled_from(cuts(order[:n_prefix], 5)), label="prefix") if n_prefix else ()
    level = data.draw(st.sampled_from([None, *range(1, min(largest, n) + 1)]), label="level")
    continuations = [
        continuation
        for left in permutations(order[n_prefix:])
        for continuation in (cuts(left, level or largest) if left else [()])
    ]
    twin = sorted(
        (-continuation_score(scores, prefix, continuation), prefix + continuation) for continuation in continuations
    )
    assert PlanDistribution(n, scores, level=level).complete(prefix) == twin[0][1]
    plans = k_best(scores, 10, level, prefix)
    assert [plan.states for plan in plans] == [plan for _, plan in twin[:10]]
    assert [plan.score for plan in plans] == pytest.approx([-score for score, _ in twin[:10]], abs=1e-12)


def test_a_human_plan_is_resolved_and_named() -> None:
    plan = '[food] [near "customer rating" eatType] [area]'
    indices = resolve_plan(RECORD, plan)
    assert indices == ((3,), (1, 2, 0), (4,))
    assert resolve_plan(RECORD, Plan.parse(plan)) == indices
    assert str(named_plan(RECORD, indices)) == plan
    assert plan_score(make_scores(0, 5), indices) is not None


def test_a_group_beyond_l_is_allowed_and_has_no_probability() -> None:
    indices = resolve_plan(RECORD, '[eatType near "customer rating" food] [area]')
    assert indices == ((0, 1, 2, 3), (4,))
    assert plan_score(make_scores(0, 5, 3), indices) is None


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("[eatType] [naer food]", r"record 'r7': the record has no predicate 'naer'; did you mean near(\?| or)"),
        ("[EATTYPE]", r"no predicate 'EATTYPE'; did you mean eatType\?"),
        ("[population]", "no predicate 'population'; it has eatType, near, customer rating, food, area"),
        ("[eatType] [near eatType]", "record 'r7'.*column 17 .*'eatType' occurs a second time"),
        ("[eatType", "record 'r7'.*never closed"),
        ("", "record 'r7'.*the plan is empty"),
    ],
)
def test_an_invalid_human_plan_is_refused(plan: str, message: str, complete: bool) -> None:
    with pytest.raises(PlanError, match=message):
        resolve_plan(RECORD, plan, partial=complete)


def test_omitted_predicates_raise_an_error_or_are_completed() -> None:
    with pytest.raises(PlanError, match="record 'r7' omits customer rating, area; add"):
        resolve_plan(RECORD, "[eatType] [near food]")
    scores = make_scores(3, 5)
    completed = PlanDistribution(5, scores).complete(resolve_plan(RECORD, "[eatType] [near food]", partial=True))
    assert completed[:2] == ((0,), (1, 3))
    assert sorted(index for state in completed for index in state) == [0, 1, 2, 3, 4]
    rivals = [((0,), (1, 3), *continuation) for continuation in (((2, 4),), ((4, 2),), ((2,), (4,)), ((4,), (2,)))]
    assert completed == max(rivals, key=lambda plan: plan_score(scores, plan) or 0.0)
