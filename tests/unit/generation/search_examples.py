"""What the tests of beam search share: records, tasks, and a slow twin without batches and caches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import Hypothesis
from agggen.generation.search import BeamSearch, Task
from agggen.generation.words import A_VALUE, PATIENCE, Missing
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
    missing: Missing | None = None,
    room: int = 4,
) -> list[list[Hypothesis]]:
    with torch.no_grad():
        found = dict(BeamSearch(model, model.encode(collate(records)), config, missing).write(tasks, room))
    return [found[task] for task in range(len(tasks))]


def same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [h.facts for h in found] == [h.facts for h in expected]
    for ours, other in zip(found, expected, strict=True):
        assert ours.log_probability == pytest.approx(other.log_probability, abs=1e-8)
        assert ours.score == pytest.approx(other.score, abs=1e-8)


def ngrams(facts: Sequence[Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """All n-grams inside facts."""
    return [tuple(fact[i : i + size]) for fact in facts for i in range(len(fact) - size + 1)]


# --- the twin ---


@dataclass(frozen=True)
class Open:
    """A text in the making: its log-probability, its finished facts, and the words of the present one."""

    log_p: float
    facts: tuple[tuple[int, ...], ...]
    words: tuple[int, ...] = ()


def next_words(model: JointModel, example: Example, groups: Groups, text: Open) -> dict[int, float]:
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


def slow_search(
    model: JointModel,
    example: Example,
    groups: Groups,
    config: BeamConfig,
    missing: Callable[[frozenset[int], Sequence[int]], int] | None = None,
) -> list[Hypothesis]:
    """The search of one task, hypothesis by hypothesis."""

    def score(text: Open, end: int) -> float:
        """With the length penalty, as if the present fact ended after `end` words."""
        length = sum(len(fact) + 1 for fact in text.facts) + 1 + end
        return text.log_p / ((5 + length) / 6) ** config.length_penalty

    finished = [Open(0.0, ())]
    for group in groups:
        live, done = finished, list[tuple[float, int, Open]]()
        enough, waited = config.beam if missing is None else 1, 0
        floor = min(max(len(group) * config.min_tokens_per_triple, 1), config.max_fact_tokens)
        for step in range(config.max_fact_tokens + 1):
            longer = []
            for text in live:
                said = set(ngrams([*text.facts, text.words], config.block_ngrams)) if config.block_ngrams else set()
                for word, p in next_words(model, example, groups, text).items():
                    new = replace(text, log_p=text.log_p + math.log(p), words=(*text.words, word))
                    if word != END:
                        if not config.block_ngrams or new.words[-config.block_ngrams :] not in said:
                            longer.append(new)
                    elif step >= floor:
                        lost = 0 if missing is None else missing(frozenset(group), text.words)
                        done.append((score(new, step) - A_VALUE * lost, lost, new))
            done = sorted(done, key=lambda item: -item[0])[: config.beam]
            live = sorted(longer, key=lambda text: -text.log_p)[: config.beam]
            hope = max((score(text, step + 1) for text in live), default=-math.inf)
            if not live or (len(done) >= enough and done[enough - 1][0] >= hope):
                break
            waited += missing is not None and any(s + A_VALUE * lost >= hope for s, lost, _ in done)
            if waited == PATIENCE:
                break
        finished = [Open(text.log_p, (*text.facts, text.words[:-1])) for _, lost, text in done if lost <= done[0][1]]
    found = [Hypothesis(text.facts, text.log_p, score(replace(text, facts=text.facts), -1)) for text in finished]
    return sorted(found, key=lambda h: -h.score)
