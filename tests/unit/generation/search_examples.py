"""Records, tasks, and `slow_search`, a reference implementation of beam search without batches and caches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from agggen.generation import decoding
from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.decoding import FALLBACK_WORD_LOG_P, LIKELY_END, PATIENCE, SCORE_MARGIN, UNFINISHED_LOG_P
from agggen.generation.hypotheses import Hypothesis, PlanPrefix
from agggen.generation.search import BeamSearch, Task
from agggen.model.batch import CLS, END, FACT, LAST, PAD, SEP, UNK, Example, collate
from agggen.model.joint import JointModel
from tests.unit.model.enumeration import OTHER_WORDS, TokenwiseEmission, random_example, tiny_model

histories = pytest.mark.parametrize("history", ["shared", "masked"])

Groups = tuple[tuple[int, ...], ...]

RECORDS = [random_example(1, 3, [1]), random_example(2, 1, [1]), random_example(3, 2, [1]), random_example(4, 4, [1])]
TASKS = [
    Task(0, ((1,), (0, 2))),
    Task(0, ((2, 0, 1),)),
    Task(1, ((0,),)),
    Task(0, ((1,), (2, 0))),  # the groups of the first task, in another order within a group
    Task(3, ((3,), (1,), (0,), (2,))),
    Task(2, ((1,), (0,))),
    Task(0, ((1,), (0,), (2,))),  # shares a prefix with the first task
    Task(3, ((0, 1, 2, 3),)),  # a group larger than L, allowed in human plans
    Task(2, ((0, 1),)),
]


def tiny_writer(seed: int = 0, end: float = 1.5, **settings: Any) -> JointModel:
    """A tiny model whose end mark has the bias `end`, so that lengths of facts vary."""
    model = tiny_model(seed, **settings)
    with torch.no_grad():
        model.output_bias[END] += end
    return model


def search(
    model: JointModel,
    config: BeamConfig,
    tasks: Sequence[Task] = TASKS,
    records: Sequence[Example] = RECORDS,
    max_facts: int = 4,
    required_score: Callable[[int], float] = lambda task: -math.inf,
    **limits: Any,
) -> list[list[Hypothesis]]:
    """The hypotheses of each task, best first. `limits`: ``constrain`` and ``must_pass`` of `BeamSearch`."""
    with torch.no_grad():
        memory = model.encode(collate(records))
    names = torch.zeros(len(records), max(int(memory.ids.max()) + 1, model.n_output), dtype=torch.bool)
    result = dict(BeamSearch(model, memory, config, names, **limits).write(tasks, max_facts, required_score))
    return [result[task] for task in range(len(tasks))]


def check_search(
    model: JointModel,
    config: BeamConfig,
    tasks: Sequence[Task] = TASKS,
    records: Sequence[Example] = RECORDS,
    **limits: Any,
) -> list[list[Hypothesis]]:
    """Compares `search` with `slow_search`; returns the hypotheses of each task."""
    results = search(model, config, tasks, records, **limits)
    with torch.no_grad():
        for task, result in zip(tasks, results, strict=True):
            assert_same(result, slow_search(model, records[task.record], task, config, **limits))
    return results


def assert_same(result: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [h.facts for h in result] == [h.facts for h in expected]
    for h, e in zip(result, expected, strict=True):
        assert (h.log_probability, h.score) == pytest.approx((e.log_probability, e.score), abs=1e-8)


def ngrams(facts: Sequence[Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """All n-grams that do not cross boundaries of facts."""
    return [tuple(fact[i : i + size]) for fact in facts for i in range(len(fact) - size + 1)]


# --- the reference implementation ---


@dataclass(frozen=True)
class PartialText:
    log_p: float
    facts: tuple[tuple[int, ...], ...]  # finished
    words: tuple[int, ...] = ()  # words of the unfinished fact


def tokens_before(text: PartialText, mark: int) -> list[int]:
    """Tokens of the finished facts, followed by `mark` of the current one."""
    return [token for fact in text.facts for token in (FACT, *fact)] + [mark]


def next_words(model: JointModel, example: Example, groups: Groups, text: PartialText) -> dict[int, float]:
    """The probability of each next word, without caches."""
    emission = TokenwiseEmission(model, replace(example, facts=((),) * len(groups)))
    fact, group = len(text.facts), frozenset(groups[len(text.facts)])
    *before, mark = tokens_before(text, emission.marks[fact])
    inputs = [mark, *text.words]
    hidden = emission.hidden(before, inputs, group)[-1]
    p = emission.next_token(hidden, inputs, group)
    return {word: p[word] for word in p if word not in (OTHER_WORDS, PAD, UNK, CLS, SEP, FACT, LAST)}


def must_follow(constraint: Constraint, words: Sequence[int]) -> set[int]:
    """The words that must come next: those that continue an incomplete value; empty if any word may come."""
    following: set[int] = set()
    for spellings in constraint.values:
        mentioned = _has_value(words, spellings)
        for spelling in spellings:
            for length in range(1, len(spelling) + 1):
                partial = tuple(words[-length:]) == spelling[:length]
                if partial and length == len(spelling):
                    return set()
                if partial and not mentioned and constraint.value_only & set(spelling[:length]):
                    following.add(spelling[length])
    return following


def may_end(constraint: Constraint, words: Sequence[int], before: Sequence[int]) -> bool:
    has_values = all(
        number in constraint.paraphrasable or _has_value(words, spellings)
        for number, spellings in enumerate(constraint.values)
    )
    return has_values and constraint.judge(words, before)


def _has_value(words: Sequence[int], spellings: Sequence[tuple[int, ...]]) -> bool:
    return any(spelling in ngrams([words], len(spelling)) for spelling in spellings)


def slow_search(
    model: JointModel,
    example: Example,
    task: Task,
    config: BeamConfig,
    constrain: Callable[[PlanPrefix], Constraint] | None = None,
    must_pass: Callable[[PlanPrefix], Constraint | None] | None = None,
) -> list[Hypothesis]:
    """The hypotheses of one task, best first."""

    def score(text: PartialText, end: int) -> float:
        """The score with the length penalty, as if the current fact ended after `end` words."""
        length = sum(len(fact) + 1 for fact in text.facts) + 1 + end
        return text.log_p / ((5 + length) / 6) ** config.length_penalty

    finished, k = [PartialText(0.0, ())], config.beam
    for number, group in enumerate(task.groups, start=1):
        prefix = PlanPrefix.of(task.record, task.groups).first(number)
        constraint = constrain(prefix) if constrain else None
        mark = LAST if prefix.is_complete else FACT
        active, done, free_scores, idle_steps = finished, list[tuple[float, PartialText]](), list[float](), 0
        min_words = min(max(len(group) * config.min_tokens_per_triple, 1), config.max_fact_tokens)
        for step in range(config.max_fact_tokens + 1):
            extended, best = [], max((ended for ended, _ in done), default=-math.inf)
            for text in active:
                blocked = set(ngrams([*text.facts, text.words], config.block_ngrams)) if config.block_ngrams else set()
                following = must_follow(constraint, text.words) if constraint else set()
                for word, p in next_words(model, example, task.groups, text).items():
                    new = replace(text, log_p=text.log_p + math.log(p), words=(*text.words, word))
                    if (following and word not in following) or (constraint and word in constraint.forbidden):
                        continue
                    if word != END:
                        if not config.block_ngrams or new.words[-config.block_ngrams :] not in blocked:
                            extended.append(new)
                    elif step >= min_words:
                        free_scores.append(score(new, step))
                        judged = p > math.exp(LIKELY_END) and score(new, step) > best - SCORE_MARGIN
                        parent = next(parent for parent in finished if parent.facts == text.facts)
                        judged &= new.log_p - parent.log_p >= decoding.LOWEST_WORD_LOG_P * (step + 1)
                        before = tokens_before(text, mark)
                        if constraint is None or (judged and may_end(constraint, text.words, before)):
                            done.append((score(new, step), new))
            done = sorted(done, key=lambda item: -item[0])[:k]
            active = sorted(extended, key=lambda text: -text.log_p)[:k]
            best_active = max((score(text, step + 1) for text in active), default=-math.inf)
            if not active or (len(done) >= k and done[-1][0] >= best_active):
                break
            if constraint is not None and len(free_scores) >= k and sorted(free_scores)[-k] >= best_active:
                idle_steps += 1
                if idle_steps == PATIENCE or (done and done[0][0] >= best_active):
                    break
        if constraint is not None and not done:
            best_first = sorted(finished, key=lambda text: -text.log_p)
            number, fallback = constraint.fallback_after(tokens_before(text, mark) for text in best_first)
            best_text = best_first[number or 0]
            log_p = best_text.log_p + FALLBACK_WORD_LOG_P * len(fallback) + (UNFINISHED_LOG_P if number is None else 0)
            done = [(0.0, replace(best_text, log_p=log_p, words=(*fallback, END)))]
        if must_pass and (final_constraint := must_pass(prefix)):
            done = [item for item in done if final_constraint.judge(item[1].words[:-1], tokens_before(item[1], mark))]
            if not done:
                return []
        finished = [PartialText(text.log_p, (*text.facts, text.words[:-1])) for _, text in done]
    result = [Hypothesis(text.facts, text.log_p, score(replace(text, facts=text.facts), -1)) for text in finished]
    return sorted(result, key=lambda h: -h.score)
