"""Beam search equals `slow_search`, which has no batches and no caches; limits, shared prefixes, pruning."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import PlanPrefix
from agggen.generation.search import BeamSearch, Expectation, Task
from agggen.model.lattice import IMPOSSIBLE
from tests.unit.generation.search_examples import TASKS, assert_same, check_search, histories, search, tiny_writer
from tests.unit.model.enumeration import random_example

CONFIG = BeamConfig(beam=3, max_fact_tokens=4)


@settings(max_examples=100)
@given(st.data())
def test_cached_search_equals_uncached_search(data: st.DataObject) -> None:
    draw = data.draw
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    settings = {name: draw(st.booleans()) for name in ("copy", "coverage")}
    settings |= {"history": draw(st.sampled_from(["shared", "masked"])), "unseen_words": draw(st.sampled_from([0, 3]))}
    model = tiny_writer(draw(st.integers(0, 99)), draw(st.floats(-6, 40)), **settings)
    records = [random_example(draw(st.integers(0, 99)), size, [1]) for size in sizes]
    tasks = []
    for record, size in enumerate(sizes):
        order = draw(st.permutations(range(size)))
        cuts = [0, *(i for i in range(1, size) if draw(st.booleans())), size]
        tasks.append(Task(record, tuple(tuple(order[a:b]) for a, b in itertools.pairwise(cuts))))
    config = BeamConfig(
        beam=draw(st.integers(1, 3)),
        length_penalty=draw(st.sampled_from([0.0, 0.9])),
        min_tokens_per_triple=draw(st.integers(0, 2)),
        max_fact_tokens=draw(st.integers(1, 4)),
        block_ngrams=draw(st.integers(0, 3)),
    )
    check_search(model, config, tasks, records)  # regressions: empty facts; a minimum length above the maximum


# --- limits ---


@pytest.mark.parametrize("end", [-1e4, -1e12])
def test_a_fact_with_an_improbable_end_stops_at_the_maximum_length(end: float) -> None:
    """exp(-1e4) underflows to 0; -1e12 is below `IMPOSSIBLE`."""
    for task, result in zip(
        TASKS, search(tiny_writer(end=end, copy=False), BeamConfig(max_fact_tokens=3)), strict=True
    ):
        assert len(result[0].facts) == len(task.groups)
        assert all(len(words) <= 3 for words in result[0].facts)
        if end == -1e4:
            assert all(len(words) == 3 for words in result[0].facts)
            assert result[0].log_probability == pytest.approx(end * len(task.groups), rel=0.02)
        else:
            assert result[0].log_probability <= IMPOSSIBLE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_returns_similar_scores(dtype: torch.dtype) -> None:
    config, tolerance = BeamConfig(beam=2, max_fact_tokens=4), 1e-4 if dtype == torch.float32 else 0.2
    for result, expected in zip(search(tiny_writer().to(dtype), config), search(tiny_writer(), config), strict=True):
        assert result[0].log_probability == pytest.approx(expected[0].log_probability, rel=tolerance)


NOT_PENALTIES = [("length_penalty", value) for value in (-0.5, math.inf, math.nan)]


@pytest.mark.parametrize(("name", "value"), [("beam", 0), ("max_fact_tokens", 0), ("block_ngrams", -3), *NOT_PENALTIES])
def test_invalid_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*, not {value}"):
        BeamConfig(**{name: value})


# --- shared prefixes and pruning ---


@histories
@pytest.mark.parametrize("max_facts", [1, 2, 3, 99])
def test_each_prefix_is_decoded_once(history: str, max_facts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts do not depend on the number of facts that are decoded together."""
    model = tiny_writer(history=history)
    expected = search(model, CONFIG)
    decoded: list[PlanPrefix] = []
    add_facts = BeamSearch._add_facts

    def counted(self: BeamSearch, ready: Mapping[PlanPrefix, float], parents: Any, facts: Any) -> Any:
        decoded.extend(ready)
        assert len(ready) + (len(facts.prefixes) if facts else 0) <= max_facts
        return add_facts(self, ready, parents, facts)

    monkeypatch.setattr(BeamSearch, "_add_facts", counted)
    for result, same_text in zip(search(model, CONFIG, max_facts=max_facts), expected, strict=True):
        assert_same(result, same_text)
    plans = [PlanPrefix.of(task.record, task.groups) for task in TASKS]
    assert len(decoded) == len(set(decoded))
    if max_facts == 1:
        assert decoded[:2] == plans[0].prefixes(), "the first plan must be decoded first"
    assert set(decoded) == {prefix for plan in plans for prefix in plan.prefixes()}


@histories
@pytest.mark.parametrize("penalty", [0.0, 0.9, 2.0])
def test_texts_with_the_required_score_are_not_pruned(history: str, penalty: float) -> None:
    model, config = tiny_writer(history=history), replace(CONFIG, length_penalty=penalty)
    unpruned_results = search(model, config)
    best = [max(h.score for h in result) for result in unpruned_results]
    pruned = 0
    for factor in (2.0, 1.000001, 1.0, 0.999999, 0.7, 0.3, 0.01):
        required = [score * factor for score in best]
        results = search(model, config, required_score=required.__getitem__)
        for result, expected, score in zip(results, unpruned_results, required, strict=True):
            if result:
                assert_same(result, expected)
            else:
                pruned += 1
                assert all(h.score < score for h in expected)
    assert pruned > len(TASKS)


@histories
@pytest.mark.parametrize("per_triple", [0.0, -1.0])
def test_pruning_by_expected_scores_does_not_depend_on_other_tasks(history: str, per_triple: float) -> None:
    model = tiny_writer(history=history)
    unpruned_results = search(model, CONFIG)
    worst, pruned = min(result[0].score for result in unpruned_results), 0
    for score, length in ((worst, 6), (worst, 100), (0.7 * worst, 100), (1.5 * worst, 8)):
        tasks = [replace(task, expected=Expectation(score, length, per_triple)) for task in TASKS]
        for task, result, unpruned in zip(tasks, search(model, CONFIG, tasks), unpruned_results, strict=True):
            assert_same(result, unpruned if result else [])
            assert_same(search(model, CONFIG, [task], max_facts=1)[0], result)
            pruned += not result
            if per_triple == 0 and any(text.score > score and text.length <= length for text in unpruned):
                assert result, "a text that meets the expectation was pruned"
    assert 0 < pruned < 4 * len(TASKS)
