"""What the tests of beam search share: records, tasks, and a slow twin without batches and caches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from agggen.generation import words as search_words
from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.hypotheses import Hypothesis, PlanPrefix
from agggen.generation.search import BeamSearch, Task
from agggen.generation.words import FALLBACK_WORD_LOG_P, LIKELY_END, PATIENCE, SCORE_MARGIN
from agggen.model.batch import CLS, END, FACT, LAST, PAD, SEP, UNK, Example, collate
from agggen.model.joint import JointModel
from tests.unit.model.enumeration import UNSAYABLE, EmissionTwin, random_example, tiny_model

histories = pytest.mark.parametrize("history", ["shared", "masked"])
copying = pytest.mark.parametrize("copy", [True, False])

Groups = tuple[tuple[int, ...], ...]

RECORDS = [random_example(1, 3, [1]), random_example(2, 1, [1]), random_example(3, 2, [1]), random_example(4, 4, [1])]
TASKS = [
    Task(0, ((1,), (0, 2))),
    Task(0, ((2, 0, 1),)),
    Task(1, ((0,),)),
    Task(0, ((1,), (2, 0))),  # the same sets as the first: another order within a fact
    Task(3, ((3,), (1,), (0,), (2,))),
    Task(2, ((1,), (0,))),
    Task(0, ((1,), (0,), (2,))),  # begins like the first
    Task(3, ((0, 1, 2, 3),)),  # a group above L: people may ask for it
    Task(2, ((0, 1),)),
]


def writer(seed: int = 0, end: float = 1.5, **settings: Any) -> JointModel:
    """A tiny model that likes to end its facts, so that their lengths differ."""
    model = tiny_model(seed, **settings)
    with torch.no_grad():
        model.output_bias[END] += end
    return model


def search(
    model: JointModel,
    records: Sequence[Example],
    tasks: Sequence[Task],
    config: BeamConfig,
    constrain: Callable[[PlanPrefix], Constraint] | None = None,
    must_pass: Callable[[PlanPrefix], Constraint | None] | None = None,
    room: int = 4,
) -> list[list[Hypothesis]]:
    with torch.no_grad():
        searching = BeamSearch(model, model.encode(collate(records)), config, constrain=constrain, must_pass=must_pass)
        result = dict(searching.write(tasks, room))
    return [result[task] for task in range(len(tasks))]


def same(result: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [h.facts for h in result] == [h.facts for h in expected]
    for ours, second in zip(result, expected, strict=True):
        assert ours.log_probability == pytest.approx(second.log_probability, abs=1e-8)
        assert ours.score == pytest.approx(second.score, abs=1e-8)


def ngrams(facts: Sequence[Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """All n-grams inside facts."""
    return [tuple(fact[i : i + size]) for fact in facts for i in range(len(fact) - size + 1)]


# --- the twin ---


@dataclass(frozen=True)
class ActiveFacts:
    """A text in the making: its log-probability, its finished facts, and the words of the present one."""

    log_p: float
    facts: tuple[tuple[int, ...], ...]
    words: tuple[int, ...] = ()


def next_words(model: JointModel, example: Example, groups: Groups, text: ActiveFacts) -> dict[int, float]:
    """p of each word that may come next, everything computed anew."""
    twin = EmissionTwin(model, replace(example, facts=((),) * len(groups)))
    fact, group = len(text.facts), frozenset(groups[len(text.facts)])
    before = [t for mark, words in zip(twin.marks, text.facts, strict=False) for t in (mark, *words)]
    inputs = [twin.marks[fact], *text.words]
    if model.config.history == "masked":
        hidden = twin._whole([*before, *inputs], group)[-1]
    else:
        hidden = twin._after_history(before, inputs, group)[-1]
    p = twin.next_token(hidden, group)
    return {word: p[word] for word in p if word not in (UNSAYABLE, PAD, UNK, CLS, SEP, FACT, LAST)}


def must_follow(constraint: Constraint, words: Sequence[int]) -> set[int]:
    """The words of which one must come next, by the definition: those that go on with a value that was begun."""
    following: set[int] = set()
    for spellings in constraint.values:
        expected = any(spelling in _windows(words, len(spelling)) for spelling in spellings)
        for spelling in spellings:
            for length in range(1, len(spelling) + 1):
                begun = tuple(words[-length:]) == spelling[:length]
                if begun and length == len(spelling):
                    return set()
                if begun and not expected and constraint.value_only & set(spelling[:length]):
                    following.add(spelling[length])
    return following


def may_end(constraint: Constraint, words: Sequence[int], before: Sequence[int]) -> bool:
    expected = [
        number in constraint.elastic or any(spelling in _windows(words, len(spelling)) for spelling in spellings)
        for number, spellings in enumerate(constraint.values)
    ]
    return all(expected) and constraint.judge(words, before)


def _windows(words: Sequence[int], size: int) -> set[tuple[int, ...]]:
    return {tuple(words[start : start + size]) for start in range(len(words) - size + 1)}


def slow_search(
    model: JointModel,
    example: Example,
    groups: Groups,
    config: BeamConfig,
    constrain: Callable[[PlanPrefix], Constraint] | None = None,
    must_pass: Callable[[PlanPrefix], Constraint | None] | None = None,
) -> list[Hypothesis]:
    """The search of one task, hypothesis by hypothesis."""

    def score(text: ActiveFacts, end: int) -> float:
        """With the length penalty, as if the present fact ended after `end` words."""
        length = sum(len(fact) + 1 for fact in text.facts) + 1 + end
        return text.log_p / ((5 + length) / 6) ** config.length_penalty

    finished, k = [ActiveFacts(0.0, ())], config.beam
    for number, group in enumerate(groups, start=1):
        beginning = PlanPrefix(0, tuple(map(frozenset, groups[:number])), number == len(groups))
        constraint = constrain(beginning) if constrain else None
        mark = LAST if beginning.last else FACT
        live, done, free, waited = finished, list[tuple[float, ActiveFacts]](), list[float](), 0
        floor = min(max(len(group) * config.min_tokens_per_triple, 1), config.max_fact_tokens)
        for step in range(config.max_fact_tokens + 1):
            longer, best = [], max((ended for ended, _ in done), default=-math.inf)
            for text in live:
                expected = set(ngrams([*text.facts, text.words], config.block_ngrams)) if config.block_ngrams else set()
                bound = must_follow(constraint, text.words) if constraint else set()
                for word, p in next_words(model, example, groups, text).items():
                    new = replace(text, log_p=text.log_p + math.log(p), words=(*text.words, word))
                    if (bound and word not in bound) or (constraint and word in constraint.barred):
                        continue
                    if word != END:
                        if not config.block_ngrams or new.words[-config.block_ngrams :] not in expected:
                            longer.append(new)
                    elif step >= floor:
                        free.append(score(new, step))
                        before = [t for fact in text.facts for t in (FACT, *fact)] + [mark]
                        judged = p > math.exp(LIKELY_END) and score(new, step) > best - SCORE_MARGIN
                        parent = next(parent for parent in finished if parent.facts == text.facts)
                        judged &= new.log_p - parent.log_p >= search_words.LOWEST_WORD_LOG_P * (step + 1)
                        if constraint is None or (judged and may_end(constraint, text.words, before)):
                            done.append((score(new, step), new))
            done = sorted(done, key=lambda item: -item[0])[:k]
            live = sorted(longer, key=lambda text: -text.log_p)[:k]
            hope = max((score(text, step + 1) for text in live), default=-math.inf)
            if not live or (len(done) >= k and done[-1][0] >= hope):
                break
            if constraint is not None and len(free) >= k and sorted(free)[-k] >= hope:
                waited += 1
                if waited == PATIENCE or (done and done[0][0] >= hope):
                    break
        if constraint is not None and not done:
            best = max(finished, key=lambda text: text.log_p)
            before = [t for fact in best.facts for t in (FACT, *fact)] + [mark]
            fallback = constraint.fallback_after(before)
            log_p = best.log_p + FALLBACK_WORD_LOG_P * len(fallback)
            done = [(0.0, replace(best, log_p=log_p, words=(*fallback, END)))]
        if must_pass and (judging := must_pass(beginning)):
            before = [[t for fact in text.facts for t in (FACT, *fact)] + [mark] for _, text in done]
            passed = [judging.judge(text.words[:-1], words) for (_, text), words in zip(done, before, strict=True)]
            done = [item for item, passes in zip(done, passed, strict=True) if passes]
            if not done:
                return []
        finished = [ActiveFacts(text.log_p, (*text.facts, text.words[:-1])) for _, text in done]
    result = [Hypothesis(text.facts, text.log_p, score(replace(text, facts=text.facts), -1)) for text in finished]
    return sorted(result, key=lambda h: -h.score)
