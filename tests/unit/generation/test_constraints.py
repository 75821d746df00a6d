"""The constrained search: forbidden words, complete values, acceptance of facts, fallbacks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.decoding import FALLBACK_WORD_LOG_P, FAULT_COST, PATIENCE
from agggen.generation.hypotheses import PlanPrefix
from agggen.generation.search import Task
from tests.unit.generation.search_examples import (
    RECORDS,
    TASKS,
    check_search,
    histories,
    may_end,
    must_follow,
    search,
    tiny_writer,
)

pytestmark = pytest.mark.usefixtures("improbable_facts")

Constrain = Callable[[PlanPrefix], Constraint]
CONFIG = BeamConfig(beam=3, max_fact_tokens=6, block_ngrams=0)


def value(record: int, triple: int) -> tuple[int, ...]:
    """Two successive source words that a fact of the triple must contain."""
    example = RECORDS[record]
    words = zip(example.source, example.triple, example.role, strict=True)
    return tuple(word for word, owner, role in words if owner == triple and role in (1, 3))[-2:]


def constrained(
    judge: Callable[[Sequence[int]], bool] = lambda words: True,
    forbidden: int | None = None,
    bind: bool = True,
    full_stop: int | None = None,
) -> Constrain:
    @cache
    def constrain(prefix: PlanPrefix) -> Constraint:
        values = [value(prefix.record, triple) for triple in sorted(prefix.groups[-1])]
        value_words = tuple(word for spelling in values for word in spelling)
        return Constraint(
            frozenset() if forbidden is None else frozenset({forbidden}),
            tuple((spelling,) for spelling in values),
            frozenset(),
            frozenset(value_words) if bind else frozenset(),
            lambda words, before: judge(words),
            lambda: value_words,
            full_stop,
            lambda words: sum(words) % 2 == 0,
        )

    return constrain


@histories
@pytest.mark.parametrize(
    ("seed", "end", "beam", "lowest"),
    [(0, 1.5, 3, -math.inf), (1, 4.0, 2, -1.8), (2, -1.0, 1, -1.8), (3, 0.0, 4, -2.5)],
)
@pytest.mark.parametrize("bind", [True, False])
def test_search_equals_slow_search(
    history: str, seed: int, end: float, beam: int, lowest: float, bind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts must have the values of their triples and no forbidden words."""
    monkeypatch.setattr("agggen.generation.decoding.LOWEST_WORD_LOG_P", lowest)
    constrain = constrained(lambda words: len(words) != 4, 9, bind, full_stop=8)
    check_search(tiny_writer(seed, end, history=history), replace(CONFIG, beam=beam), constrain=constrain)


@histories
@pytest.mark.parametrize(("seed", "end", "beam"), [(0, 1.5, 3), (1, 4.0, 2), (2, -1.0, 4)])
def test_without_constraints_only_hypotheses_that_pass_are_continued(
    history: str, seed: int, end: float, beam: int
) -> None:
    model, config = tiny_writer(seed, end, history=history), replace(CONFIG, beam=beam)
    judging = constrained(lambda words: sum(words) % 3 > 0)
    results = check_search(model, config, must_pass=lambda prefix: judging(prefix) if prefix.record != 3 else None)
    assert list(map(len, results)) != list(map(len, search(model, config)))


def test_a_plan_is_abandoned_when_its_fallbacks_cost_more_than_the_best_text() -> None:
    constrain = constrained(lambda words: not {*value(0, 1)} <= {*words})
    tasks = [Task(0, ((0, 2),)), Task(0, ((1,), (0, 2)))]
    model = tiny_writer(1, end=3.0)
    best = search(model, CONFIG, tasks, constrain=constrain)[1][0]
    for margin, reached in ((1.0, True), (-1.0, False)):
        required = best.score - FAULT_COST - margin
        results = search(model, CONFIG, tasks, required_score=[required, required].__getitem__, constrain=constrain)
        assert bool(results[1]) is reached, "the required score of the plan with one fallback is not respected"


def test_a_fact_without_acceptable_words_is_the_fallback() -> None:
    lengths = list[int]()

    def reject(words: Sequence[int]) -> bool:
        lengths.append(len(words))
        return False

    constrain = constrained(reject)
    config = BeamConfig(beam=3, max_fact_tokens=PATIENCE + 40, block_ngrams=0)
    for task, result in zip(TASKS, search(tiny_writer(end=3.0), config, constrain=constrain), strict=True):
        (text,) = result
        prefixes = PlanPrefix.of(task.record, task.groups).prefixes()
        assert text.facts == tuple(constrain(prefix).fallback() for prefix in prefixes)
        assert text.log_probability == pytest.approx(FALLBACK_WORD_LOG_P * sum(map(len, text.facts)))
    assert max(lengths) < config.max_fact_tokens, "the search must end before the maximum length"


def test_a_full_stop_precedes_a_fallback_within_a_sentence() -> None:
    none = frozenset[int]()
    constraint = Constraint(
        none, (), none, none, lambda *_: True, lambda: (7, 8), 9, lambda words: words[-1] != 7, frozenset({9})
    )
    assert constraint.fallback_after([[5, 8]]) == (0, [9, 7, 8])
    assert constraint.fallback_after([[5, 8, 9, 4]]) == (0, [7, 8])
    assert constraint.fallback_after([[5]]) == (0, [7, 8])
    assert constraint.fallback_after([[5, 7], [5, 8, 7], [5, 8]]) == (2, [9, 7, 8]), "the first that may end"
    assert constraint.fallback_after([[5, 7], [5, 8, 9, 4], [5, 8]]) == (1, [7, 8])
    assert constraint.fallback_after([[5, 7], [5, 8, 7]]) == (None, [9, 7, 8]), "no sentence may end here"


WORDS = st.integers(7, 9)
SPELLINGS = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2, unique=True)


@given(
    st.lists(SPELLINGS, max_size=3), st.sets(WORDS), st.sets(st.integers(0, 2), max_size=1), st.lists(WORDS, max_size=6)
)
def test_values_equal_the_definition(
    values: list[list[tuple[int, ...]]], value_only: set[int], paraphrasable: set[int], words: list[int]
) -> None:
    constraint = Constraint(
        frozenset(),
        tuple(map(tuple, values)),
        frozenset(paraphrasable & set(range(len(values)))),
        frozenset(value_only),
        lambda *_: True,
        lambda: (),
    )
    assert constraint.allowed_next(tuple(words)) == must_follow(constraint, words)
    assert constraint.has_all_values(tuple(words)) == may_end(constraint, words, ())
