"""Planning and generation in separate calls, as in the endpoint."""

from dataclasses import replace
from typing import Any

import pytest

from agggen.generation.config import BeamConfig
from agggen.planning import ScoredPlan, named_plan
from agggen.records import Plan, Record
from tests.unit.generation.test_generator import NILS, ODA, RECORDS, SHORT, STRANGE, VOSS, assert_same, generator


def test_candidates_are_human_plans_or_the_best_plans() -> None:
    planner, config = generator().planner, replace(SHORT, level=1)
    for record, result in zip(RECORDS, planner.candidates(RECORDS, config=config), strict=True):
        (all_plans,) = planner.plan([record], k=1000, config=config)
        best = [(named_plan(record, plan.states), plan.log_probability) for plan in result.plans]
        assert best == [(planned.plan, planned.log_probability) for planned in all_plans[: SHORT.plans]]
    plans = [Plan.parse("[craft]"), None, Plan.parse("[leader population isPartOf_2 isPartOf]"), None]
    first, searched, third, _ = planner.candidates(RECORDS, plans, complete=True)
    assert (first.search, searched.search, first.plans[0].states[0]) == ("given", "exact", (2,))
    assert third.plans == (ScoredPlan(((3, 2, 1, 0),), 0.0),), "a human plan may have groups larger than L"
    with pytest.raises(ValueError, match="shorter"):
        planner.candidates(RECORDS, [])


def test_the_group_reward_favours_plans_of_many_groups() -> None:
    for candidates in generator().planner.candidates(RECORDS, config=replace(SHORT, group_reward=20.0)):
        assert all(len(group) == 1 for group in candidates.plans[0].states)


def test_records_of_one_call_may_have_different_settings() -> None:
    untrained = generator()
    records = [ODA, VOSS, NILS, STRANGE, Record("oda-2", ODA.triples), Record("voss-2", VOSS.triples)]
    wide_beam = BeamConfig(beam=4, max_fact_tokens=3)
    configs = [
        SHORT,
        replace(SHORT, beam=wide_beam),
        replace(SHORT, plan_weight=0.0, verify="strict"),
        replace(SHORT, level=1, plans=1),
        replace(SHORT, beam=wide_beam, ablation="random-order"),
        replace(SHORT, beam=BeamConfig(beam=2, max_fact_tokens=6, length_penalty=0.0)),
    ]
    plans, counts = [Plan.parse("[craft]"), None, None, None, None, None], [1, 5, 2, 1, 3, 9]
    items = list(zip(records, plans, configs, strict=True))
    candidates = [untrained.planner.candidates([record], [plan], True, config)[0] for record, plan, config in items]
    together = untrained.write(records, candidates, counts, configs)
    separately = [
        untrained.generate([record], [plan], True, count, config)[0]
        for (record, plan, config), count in zip(items, counts, strict=True)
    ]
    assert_same(together, separately)
    assert all(len(result) <= count for result, count in zip(together, counts, strict=True))


@pytest.mark.parametrize(("rows", "sizes"), [(320, [(3, 2, 160), (1, 3, 106)]), (4, [(2, 2, 2), (1, 2, 2), (1, 3, 1)])])
def test_records_with_the_same_beam_settings_are_searched_together(
    rows: int, sizes: list[tuple[int, int, int]], searches: list[Any]
) -> None:
    config = replace(SHORT, rows=rows)
    wide_beam = replace(config, beam=BeamConfig(3, max_fact_tokens=6))
    untrained, configs = generator(), [config, replace(config, plan_weight=0.3, seed=8), wide_beam, config]
    untrained.write(RECORDS, untrained.planner.candidates(RECORDS, config=config), [1] * 4, configs)
    first_plans = searches[::2]  # every second search has the other plans of the batch
    assert [(len(tasks), search.config.beam, max_facts) for search, tasks, max_facts in first_plans] == sizes
