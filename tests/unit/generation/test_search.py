"""Beam search equals a slow twin without batches and caches, enumeration, and the scores of training."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import Hypothesis, PlanPrefix
from agggen.generation.search import BeamSearch, Expectation, Task
from agggen.model.batch import CLS, SEP, Example, collate
from agggen.model.joint import JointModel, ModelConfig
from tests.unit.generation.search_examples import (
    RECORDS,
    TASKS,
    Groups,
    copying,
    histories,
    ngrams,
    same,
    search,
    slow_search,
    writer,
)
from tests.unit.model.enumeration import random_example


@histories
@pytest.mark.parametrize("settings", [{"copy": True}, {"copy": False}, {"unseen_words": 3}], ids=str)
@pytest.mark.parametrize(
    "config",
    [
        BeamConfig(beam=3, max_fact_tokens=4, block_ngrams=2),
        BeamConfig(beam=2, max_fact_tokens=5, length_penalty=0.0, min_tokens_per_triple=1, block_ngrams=0),
        BeamConfig(beam=1, max_fact_tokens=6, block_ngrams=1, length_penalty=2.0),
    ],
    ids=["three beams", "minimum length", "one beam"],
)
def test_cached_search_equals_uncached_search(history: str, settings: dict[str, Any], config: BeamConfig) -> None:
    model = writer(history=history, **settings)
    with torch.no_grad():
        for task, result in zip(TASKS, search(model, RECORDS, TASKS, config), strict=True):
            same(result, slow_search(model, RECORDS[task.record], task.groups, config))


@settings(max_examples=60)
@given(st.data())
def test_cached_search_equals_uncached_search_on_ragged_records(data: st.DataObject) -> None:
    draw = data.draw
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    model = writer(draw(st.integers(0, 99)), draw(st.floats(0, 4)), history=draw(st.sampled_from(["shared", "masked"])))
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
    with torch.no_grad():
        for task, result in zip(tasks, search(model, records, tasks, config), strict=True):
            same(result, slow_search(model, records[task.record], task.groups, config))


# --- scores of training ---


def log_probabilities(model: JointModel, examples: Sequence[Example], groups: Groups) -> list[float]:
    """The log-probabilities of texts under a plan, as in training."""
    batch = collate(examples)
    states = model.lattice_of(batch)
    sets = [frozenset(row.nonzero().flatten().tolist()) for row in states.set_members]
    allowed = torch.zeros(len(examples), len(groups), len(sets), dtype=torch.bool)
    for fact, group in enumerate(groups):
        allowed[:, fact, sets.index(frozenset(group))] = True
    with torch.no_grad():
        totals: list[float] = model.emissions(batch, allowed, states).masked_fill(~allowed, 0).sum((1, 2)).tolist()
    return totals


@histories
@copying
def test_log_probabilities_are_those_of_training(history: str, copy: bool) -> None:
    model = writer(history=history, copy=copy)
    tasks = [task for task in TASKS if len(task.groups[0]) <= 3]
    config = BeamConfig(beam=4, max_fact_tokens=6, min_tokens_per_triple=1)
    for task, result in zip(tasks, search(model, RECORDS, tasks, config), strict=True):
        for hypothesis in result:
            example = replace(RECORDS[task.record], facts=hypothesis.facts)
            (expected,) = log_probabilities(model, [example], task.groups)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-8)


# --- optimality ---


def toy(seed: int, history: str) -> tuple[JointModel, Example]:
    """Words 7 and 8 can be generated, 9 is a word of the source, 10 and 11 are words of this record only."""
    sizes = ModelConfig(width=8, heads=2, feed_forward=8, dropout=0.0, predicate_dim=2, history=history)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = JointModel(sizes, n_words=10, n_output=9, n_predicates=3).double().eval()
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model, Example("toy", (CLS, 9, 10, SEP, 8, 11, SEP), (-1, 0, 0, 0, 1, 1, 1), (0, 1, 3, 0, 1, 3, 0), (1, 2))


POSSIBLE_WORDS = {(0,): (7, 8, 9, 10), (1,): (7, 8, 11), (0, 1): (7, 8, 9, 10, 11)}


def all_texts(groups: Groups, max_words: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    facts = (
        [words for n in range(1, max_words + 1) for words in itertools.product(POSSIBLE_WORDS[group], repeat=n)]
        for group in groups
    )
    return itertools.product(*facts)


@histories
@pytest.mark.parametrize(("groups", "max_words"), [(((0, 1),), 3), (((0,), (1,)), 2), (((1,), (0,)), 2)])
@pytest.mark.parametrize(("penalty", "block"), [(0.0, 0), (0.9, 0), (0.9, 1)])
def test_a_wide_beam_finds_every_text(history: str, groups: Groups, max_words: int, penalty: float, block: int) -> None:
    model, example = toy(len(groups), history)
    texts = list(all_texts(groups, max_words))
    texts = [t for t in texts if not block or len(set(ngrams(t, block))) == len(ngrams(t, block))]
    totals = log_probabilities(model, [replace(example, facts=facts) for facts in texts], groups)
    expected = [
        Hypothesis(facts, total, total / ((5 + len(groups) + sum(map(len, facts))) / 6) ** penalty)
        for facts, total in zip(texts, totals, strict=True)
    ]
    config = BeamConfig(beam=512, length_penalty=penalty, max_fact_tokens=max_words, block_ngrams=block)
    (result,) = search(model, [example], [Task(0, groups)], config)
    same(result, sorted(expected, key=lambda h: -h.score))


# --- shared prefixes and pruning ---


@histories
@pytest.mark.parametrize("max_facts", [1, 2, 3, 99])
def test_each_prefix_is_decoded_once(history: str, max_facts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts do not depend on the number of facts that are decoded together."""
    model, config = writer(history=history), BeamConfig(beam=3, max_fact_tokens=4)
    expected = search(model, RECORDS, TASKS, config)
    decoded: list[PlanPrefix] = []
    add_facts = BeamSearch._add_facts

    def counted(self: BeamSearch, ready: Mapping[PlanPrefix, float], parents: Any, facts: Any) -> Any:
        decoded.extend(ready)
        assert len(ready) + (len(facts.prefixes) if facts else 0) <= max_facts
        return add_facts(self, ready, parents, facts)

    monkeypatch.setattr(BeamSearch, "_add_facts", counted)
    for result, same_text in zip(search(model, RECORDS, TASKS, config, max_facts=max_facts), expected, strict=True):
        same(result, same_text)
    plans = [PlanPrefix.of(task.record, task.groups) for task in TASKS]
    assert len(decoded) == len(set(decoded))
    if max_facts == 1:
        assert decoded[:2] == plans[0].prefixes(), "the first plan is decoded first"
    assert set(decoded) == {prefix for plan in plans for prefix in plan.prefixes()}


@histories
@pytest.mark.parametrize("penalty", [0.0, 0.9, 2.0])
def test_texts_with_the_required_score_are_not_pruned(history: str, penalty: float) -> None:
    model, config = writer(history=history), BeamConfig(beam=3, max_fact_tokens=4, length_penalty=penalty)
    everything = search(model, RECORDS, TASKS, config)
    best = [max(h.score for h in result) for result in everything]
    pruned = 0
    for factor in (2.0, 1.000001, 1.0, 0.999999, 0.7, 0.3, 0.01):
        required = [score * factor for score in best]
        for result, expected, score in zip(requiring(model, config, required), everything, required, strict=True):
            if result:
                same(result, expected)
            else:
                pruned += 1
                assert all(h.score < score for h in expected)
    assert pruned > len(TASKS)


@histories
def test_tasks_with_a_common_prefix_have_their_own_required_scores(history: str) -> None:
    model, config = writer(history=history), BeamConfig(beam=3, max_fact_tokens=4)
    everything = search(model, RECORDS, TASKS, config)
    for unpruned in range(len(TASKS)):
        required = [-1e9 if task == unpruned else -1e-3 for task in range(len(TASKS))]
        result = requiring(model, config, required)
        same(result[unpruned], everything[unpruned])
        assert sum(map(bool, result)) == 1


def requiring(model: JointModel, config: BeamConfig, required: Sequence[float]) -> list[list[Hypothesis]]:
    with torch.no_grad():
        searching = BeamSearch(model, model.encode(collate(RECORDS)), config)
    result = dict(searching.write(TASKS, 4, required.__getitem__))
    return [result[task] for task in range(len(TASKS))]


@histories
@pytest.mark.parametrize("per_triple", [0.0, -1.0])
def test_pruning_by_expectation_does_not_depend_on_other_tasks(history: str, per_triple: float) -> None:
    model, config = writer(history=history), BeamConfig(beam=3, max_fact_tokens=4)
    everything = search(model, RECORDS, TASKS, config)
    worst, pruned = min(result[0].score for result in everything), 0
    for score, length in ((worst, 6), (worst, 100), (0.7 * worst, 100), (1.5 * worst, 8)):
        tasks = [replace(task, expected=Expectation(score, length, per_triple)) for task in TASKS]
        together = search(model, RECORDS, tasks, config)
        for task, result, unpruned in zip(tasks, together, everything, strict=True):
            same(result, unpruned if result else [])
            same(search(model, RECORDS, [task], config, max_facts=1)[0], result)
            pruned += not result
            if per_triple == 0 and any(text.score > score and text.length <= length for text in unpruned):
                assert result, "a text that meets the expectation was pruned"
    assert 0 < pruned < 4 * len(TASKS)


def test_with_a_rising_required_score_the_best_text_of_a_record_is_not_pruned() -> None:
    """The generator raises the required score in the same way."""
    model, config = writer(), BeamConfig(beam=3, max_fact_tokens=4)
    everything = search(model, RECORDS, TASKS, config)
    pruned = 0
    for max_facts in (1, 2, 4):
        with torch.no_grad():
            searching = BeamSearch(model, model.encode(collate(RECORDS)), config)
        best = dict.fromkeys(range(len(RECORDS)), -1e9)
        for task, result in searching.write(TASKS, max_facts, lambda task, best=best: best[TASKS[task].record]):  # type: ignore[misc]
            pruned += not result
            best[TASKS[task].record] = max([best[TASKS[task].record], *(h.score for h in result)])
        for record, score in best.items():
            all_scores = (
                h.score for task, texts in zip(TASKS, everything, strict=True) if task.record == record for h in texts
            )
            assert score == pytest.approx(max(all_scores), abs=1e-8)
    assert pruned
