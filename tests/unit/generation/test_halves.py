"""Planning and writing in separate calls equal `generate`, independent of the batch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from agggen.errors import PlanError
from agggen.generation.config import BeamConfig
from agggen.generation.generator import Candidates, InferenceConfig
from agggen.planning import ScoredPlan, named_plan
from agggen.records import Plan, Record
from tests.unit.generation.test_generator import NILS, ODA, RECORDS, SHORT, STRANGE, VOSS, generator, same

SETTINGS = [
    SHORT,
    replace(SHORT, level=1),
    replace(SHORT, ablation="plain"),
    replace(SHORT, ablation="random-order", seed=3),
    replace(SHORT, planner="two-stage", rows=1),
]


@pytest.mark.parametrize("config", SETTINGS)
def test_generate_equals_planning_then_writing(config: InferenceConfig) -> None:
    machine = generator()
    halves = machine.write(RECORDS, machine.planner.candidates(RECORDS, config=config), 3, config)
    assert halves == machine.generate(RECORDS, n_best=3, config=config)


def test_generate_with_human_plans_equals_planning_then_writing() -> None:
    machine = generator()
    plans = [Plan.parse("[craft]"), None, Plan.parse("[leader population isPartOf_2 isPartOf]"), None]
    result = machine.planner.candidates(RECORDS, plans, complete=True)
    assert machine.write(RECORDS, result, 2) == machine.generate(RECORDS, plans, complete=True, n_best=2)
    first, third = result[0].plans[0], result[2].plans[0]
    assert first.states[0] == (2,)
    assert (third.states, third.log_probability) == (((3, 2, 1, 0),), None)  # larger than the model's L


def test_candidates_have_the_probabilities_of_their_plans() -> None:
    machine, config = generator(), replace(SHORT, level=1)
    for record, result in zip(RECORDS, machine.planner.candidates(RECORDS, config=config), strict=True):
        (every,) = machine.planner.plan([record], k=1000, config=config)
        best = [(named_plan(record, plan.states), plan.log_probability) for plan in result.plans]
        assert best == [(planned.plan, planned.log_probability) for planned in every[: len(result.plans)]]
        assert len(result.plans) == min(SHORT.plans, len(every))


@pytest.mark.parametrize("reward", [-1.0, 0.5, 20.0])
def test_the_group_reward_reweights_the_distribution_of_plans(reward: float) -> None:
    planner, config = generator().planner, replace(SHORT, group_reward=reward)
    for record, candidates in zip(RECORDS, planner.candidates(RECORDS, config=config), strict=True):
        before, after = (planner.plan([record], 1000, settings)[0] for settings in (None, config))
        weights = {
            scored.plan: math.exp((scored.log_probability or 0) + reward * len(scored.plan.states)) for scored in before
        }
        total = math.fsum(weights.values())
        assert {scored.plan for scored in after} == set(weights)
        for scored in after:
            assert math.exp(scored.log_probability or 0) == pytest.approx(weights[scored.plan] / total, abs=1e-9)
        best = [scored.log_probability for scored in after[: len(candidates.plans)]]
        assert [plan.log_probability for plan in candidates.plans] == pytest.approx(best, abs=1e-9)
        if reward > 10:
            assert len(after[0].plan.states) == len(record.triples)


def test_records_of_one_call_may_have_different_settings() -> None:
    machine = generator()
    records = [ODA, VOSS, NILS, STRANGE, Record("oda-2", ODA.triples), Record("voss-2", VOSS.triples)]
    wide = BeamConfig(beam=4, max_fact_tokens=3)
    configs = [
        None,
        replace(SHORT, beam=wide),
        replace(SHORT, plan_weight=0.0, verify="strict"),
        replace(SHORT, level=1, plans=1),
        replace(SHORT, beam=wide, ablation="random-order"),
        replace(SHORT, beam=BeamConfig(beam=2, max_fact_tokens=6, length_penalty=0.0)),
    ]
    plans = [Plan.parse("[craft]"), None, None, None, None, None]
    complete, counts = [True, *[False] * 5], [1, 5, 2, 1, 3, 9]
    together = machine.write(records, machine.planner.candidates(records, plans, complete, configs), counts, configs)
    alone = [
        machine.generate([record], [plan], fill, count, config)[0]
        for record, plan, fill, count, config in zip(records, plans, complete, counts, configs, strict=True)
    ]
    same(together, alone)
    assert [len(result) <= count for result, count in zip(together, counts, strict=True)] == [True] * 6


def test_records_with_the_same_beam_settings_are_searched_together(searches: list[Any]) -> None:
    def sizes() -> list[tuple[int, int, int]]:
        return [
            (len({task.record for task in tasks}), search.config.beam, max_facts)
            for search, tasks, max_facts in searches
        ]

    machine = generator()
    configs = [
        SHORT,
        replace(SHORT, plan_weight=0.3, seed=8),
        replace(SHORT, beam=BeamConfig(3, max_fact_tokens=6)),
        SHORT,
    ]
    machine.write(RECORDS, machine.planner.candidates(RECORDS, config=configs), config=configs)
    assert set(sizes()) <= {(1, 3, SHORT.rows // 3), (3, 2, SHORT.rows // 2), (2, 2, SHORT.rows // 2)}
    assert len(searches) == 2 * 2  # the first plans of both kinds, then the others
    searches.clear()
    few = [replace(SHORT, rows=6), *configs[1:2], configs[0], configs[0]]
    machine.write(RECORDS, machine.planner.candidates(RECORDS, config=few), config=few)
    assert (sizes()[0], sizes()[2]) == ((3, 2, 3), (1, 2, SHORT.rows // 2))


@pytest.mark.parametrize(
    ("plans", "message"),
    [
        ((), "record 'oda' has no candidate plans"),
        ((((0,), (1,)),), "the plan omits predicate 2"),
        ((((0, 1), (1, 2)),), "the plan names predicate 1 twice"),
        ((((0, 1, 2, 3),),), "the plan names predicate 3; the record has 0 to 2"),
        ((((0, 1, 2), ()),), "group 2 of the plan is empty"),
    ],
)
def test_candidates_of_another_record_are_refused(plans: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        generator().write([ODA], [Candidates(tuple(ScoredPlan(plan, 0.0) for plan in plans), "given")])


def test_settings_per_record_must_be_as_many_as_the_records() -> None:
    machine = generator()
    with pytest.raises(ValueError, match="n_best has 2 values for 1 records"):
        machine.write([NILS], machine.planner.candidates([NILS]), n_best=[1, 2])
