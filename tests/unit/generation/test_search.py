"""Beam search against a slow twin without batches and caches, against enumeration, and against training's scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.generation.search import BeamConfig, Hypothesis, Task, beam_search
from agggen.model.batch import CLS, END, FACT, LAST, PAD, SEP, UNK, Example, collate
from agggen.model.joint import JointModel, ModelConfig
from agggen.model.lattice import IMPOSSIBLE
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
    model: JointModel, records: Sequence[Example], tasks: Sequence[Task], config: BeamConfig
) -> list[list[Hypothesis]]:
    with torch.no_grad():
        return beam_search(model, model.encode(collate(records)), tasks, config)


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


def slow_search(model: JointModel, example: Example, groups: Groups, config: BeamConfig) -> list[Hypothesis]:
    """The search of one task, hypothesis by hypothesis."""

    def score(text: Open, end: int) -> float:
        """With the length penalty, as if the present fact ended after `end` words."""
        length = sum(len(fact) + 1 for fact in text.facts) + 1 + end
        return text.log_p / ((5 + length) / 6) ** config.length_penalty

    finished = [Open(0.0, ())]
    for group in groups:
        live, done = finished, list[tuple[float, Open]]()
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
                        done.append((score(new, step), new))
            done = sorted(done, key=lambda item: -item[0])[: config.beam]
            live = sorted(longer, key=lambda text: -text.log_p)[: config.beam]
            hope = max((score(text, step + 1) for text in live), default=-math.inf)
            if not live or (len(done) == config.beam and done[-1][0] >= hope):
                break
        finished = [Open(text.log_p, (*text.facts, text.words[:-1])) for _, text in done]
    found = [Hypothesis(text.facts, text.log_p, score(replace(text, facts=text.facts), -1)) for text in finished]
    return sorted(found, key=lambda h: -h.score)


@histories
@copying
@pytest.mark.parametrize(
    "config",
    [
        BeamConfig(beam=3, max_fact_tokens=4, block_ngrams=2),
        BeamConfig(beam=2, max_fact_tokens=5, length_penalty=0.0, min_tokens_per_triple=1, block_ngrams=0),
        BeamConfig(beam=1, max_fact_tokens=6, block_ngrams=1, length_penalty=2.0),
    ],
    ids=["three beams", "minimum length", "one beam"],
)
def test_cached_search_equals_uncached_search(history: str, copy: bool, config: BeamConfig) -> None:
    model = writer(history=history, copy=copy)
    with torch.no_grad():
        for task, found in zip(TASKS, search(model, RECORDS, TASKS, config), strict=True):
            same(found, slow_search(model, RECORDS[task.record], task.groups, config))


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
        for task, found in zip(tasks, search(model, records, tasks, config), strict=True):
            same(found, slow_search(model, records[task.record], task.groups, config))


# --- training's view ---


@histories
@copying
def test_log_probability_is_what_training_gives_to_the_text_under_its_plan(history: str, copy: bool) -> None:
    model = writer(history=history, copy=copy)
    tasks = [task for task in TASKS if len(task.groups[0]) <= 3]
    config = BeamConfig(beam=4, max_fact_tokens=6, min_tokens_per_triple=1)
    for task, found in zip(tasks, search(model, RECORDS, tasks, config), strict=True):
        for hypothesis in found:
            batch = collate([replace(RECORDS[task.record], facts=hypothesis.facts)])
            states = model.lattice_of(batch)
            sets = [frozenset(row.nonzero().flatten().tolist()) for row in states.set_members]
            allowed = torch.zeros(1, len(task.groups), len(sets), dtype=torch.bool)
            for fact, group in enumerate(task.groups):
                allowed[0, fact, sets.index(frozenset(group))] = True
            with torch.no_grad():
                total = model.emissions(batch, allowed, states)[allowed].sum().item()
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-8)


def test_plain_text_scores_as_the_plain_transformer_scores_it() -> None:
    model = writer()
    (found,) = search(model, RECORDS[3:], [Task(0, ((0, 1, 2, 3),))], BeamConfig(beam=3, max_fact_tokens=7))
    for hypothesis in found:
        with torch.no_grad():
            score = model.text_log_probs(collate([replace(RECORDS[3], facts=hypothesis.facts)], whole=True)).item()
        assert hypothesis.log_probability == pytest.approx(score, abs=1e-8)


# --- batching ---


@histories
def test_batched_search_equals_one_by_one_in_any_order(history: str) -> None:
    model, config = writer(history=history), BeamConfig(beam=4, max_fact_tokens=7, min_tokens_per_triple=1)
    together = search(model, RECORDS, TASKS, config)
    for task, found in zip(TASKS, together, strict=True):
        same(search(model, [RECORDS[task.record]], [replace(task, record=0)], config)[0], found)
    order = [5, 2, 8, 0, 7, 3, 1, 6, 4]
    for index, found in zip(order, search(model, RECORDS, [TASKS[i] for i in order], config), strict=True):
        same(found, together[index])


def test_order_within_a_fact_does_not_change_the_texts() -> None:
    """The emission depends on the set of triples (METHOD 3)."""
    found = search(writer(), RECORDS, TASKS, BeamConfig(beam=3, max_fact_tokens=5))
    same(found[0], found[3])
    assert found[0] != found[6]


# --- optimality ---


def toy(seed: int, history: str) -> tuple[JointModel, Example]:
    """Words 7 and 8 can be written, 9 is a word of the source, 10 and 11 are words of this record alone."""
    sizes = ModelConfig(width=8, heads=2, feed_forward=8, dropout=0.0, predicate_dim=2, history=history)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = JointModel(sizes, n_words=10, n_output=9, n_predicates=3).double().eval()
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model, Example("toy", (CLS, 9, 10, SEP, 8, 11, SEP), (-1, 0, 0, 0, 1, 1, 1), (0, 1, 3, 0, 1, 3, 0), (1, 2))


SAYABLE = {(0,): (7, 8, 9, 10), (1,): (7, 8, 11), (0, 1): (7, 8, 9, 10, 11)}


def all_texts(groups: Groups, most: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    facts = [[w for n in range(1, most + 1) for w in itertools.product(SAYABLE[group], repeat=n)] for group in groups]
    return itertools.product(*facts)


@histories
@pytest.mark.parametrize(("groups", "most"), [(((0, 1),), 3), (((0,), (1,)), 2), (((1,), (0,)), 2)])
@pytest.mark.parametrize(("penalty", "block"), [(0.0, 0), (0.9, 0), (0.9, 1)])
def test_a_beam_wide_enough_finds_every_text(
    history: str, groups: Groups, most: int, penalty: float, block: int
) -> None:
    model, example = toy(len(groups), history)
    texts = [t for t in all_texts(groups, most) if not block or len(set(ngrams(t, block))) == len(ngrams(t, block))]
    batch = collate([replace(example, facts=facts) for facts in texts])
    states = model.lattice_of(batch)
    sets = [frozenset(row.nonzero().flatten().tolist()) for row in states.set_members]
    allowed = torch.zeros(len(texts), len(groups), len(sets), dtype=torch.bool)
    for fact, group in enumerate(groups):
        allowed[:, fact, sets.index(frozenset(group))] = True
    with torch.no_grad():
        totals = model.emissions(batch, allowed, states).masked_fill(~allowed, 0).sum((1, 2)).tolist()
    expected = [
        Hypothesis(facts, total, total / ((5 + len(groups) + sum(map(len, facts))) / 6) ** penalty)
        for facts, total in zip(texts, totals, strict=True)
    ]
    config = BeamConfig(beam=512, length_penalty=penalty, max_fact_tokens=most, block_ngrams=block)
    (found,) = search(model, [example], [Task(0, groups)], config)
    same(found, sorted(expected, key=lambda h: -h.score))


def test_one_beam_says_the_likeliest_word_each_time() -> None:
    model, groups = writer(end=-1.0), TASKS[0].groups
    config = BeamConfig(beam=1, max_fact_tokens=6, block_ngrams=0, min_tokens_per_triple=3)
    ((found,),) = search(model, RECORDS, TASKS[:1], config)
    with torch.no_grad():
        for fact, words in enumerate(found.facts):
            for n, word in enumerate(words):
                p = next_words(model, RECORDS[0], groups, Open(0.0, found.facts[:fact], words[:n]))
                assert word == max((w for w in p if w != END), key=p.__getitem__)


# --- limits ---


@pytest.mark.parametrize("beam", [1, 5, 64])
def test_a_beam_may_be_wider_than_the_vocabulary(beam: int) -> None:
    (found,) = search(writer(), RECORDS, TASKS[:1], BeamConfig(beam=beam, max_fact_tokens=3))
    assert len(found) == beam
    assert len({h.facts for h in found}) == beam
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@settings(max_examples=15)
@given(
    st.integers(0, 99),
    st.floats(-6, 4),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(1, 7),
    st.sampled_from([0, 2, 3]),
)
def test_lengths_and_ngrams_keep_to_the_settings(
    seed: int, end: float, beam: int, minimum: int, most: int, block: int
) -> None:
    config = BeamConfig(beam=beam, min_tokens_per_triple=minimum, max_fact_tokens=most, block_ngrams=block)
    for task, found in zip(TASKS, search(writer(seed, end), RECORDS, TASKS, config), strict=True):
        assert 1 <= len(found) <= beam
        for hypothesis in found:
            assert len(hypothesis.facts) == len(task.groups)
            for words, group in zip(hypothesis.facts, task.groups, strict=True):
                assert min(max(minimum * len(group), 1), most) <= len(words) <= most
            if block:
                said = ngrams(hypothesis.facts, block)
                assert len(set(said)) == len(said)


def test_repetition_is_allowed_without_blocking() -> None:
    model = writer(copy=False)
    with torch.no_grad():
        model.output_bias[9] += 20
    for block, repeats in [(0, True), (3, False)]:
        config = BeamConfig(beam=2, max_fact_tokens=6, min_tokens_per_triple=6, block_ngrams=block)
        assert (search(model, RECORDS, TASKS[2:3], config)[0][0].facts == ((9,) * 6,)) is repeats


def test_no_fact_is_empty() -> None:
    """A model after few updates ended every fact at once."""
    for found in search(writer(end=40.0, copy=False), RECORDS, TASKS, BeamConfig(max_fact_tokens=3)):
        assert all(len(words) >= 1 for hypothesis in found for words in hypothesis.facts)
        assert all(len(words) == 1 for words in found[0].facts)


def test_words_on_either_side_of_a_facts_boundary_are_no_ngram() -> None:
    """The last word of a fact and the first of the next were taken for a bigram, and blocked later on."""
    model, task, word = writer(end=40.0, copy=False), Task(0, ((2,), (0, 1))), 9
    with torch.no_grad():
        model.output_bias[word] += 20
    config = BeamConfig(beam=2, length_penalty=0.0, min_tokens_per_triple=1, max_fact_tokens=2, block_ngrams=2)
    (found,) = search(model, RECORDS, [task], config)
    assert found[0].facts == ((word,), (word, word))
    with torch.no_grad():
        same(found, slow_search(model, RECORDS[0], task.groups, config))


@pytest.mark.parametrize("end", [-1e4, -1e12])
def test_a_fact_that_hardly_ends_stops_at_the_most_tokens(end: float) -> None:
    """Below the smallest number that exp can return; -1e12 is less than the score of the impossible itself."""
    model = writer(end=end, copy=False)
    for task, found in zip(TASKS, search(model, RECORDS, TASKS, BeamConfig(max_fact_tokens=3)), strict=True):
        assert len(found[0].facts) == len(task.groups)
        assert all(len(words) <= 3 for words in found[0].facts)
        if end == -1e4:
            assert all(len(words) == 3 for words in found[0].facts)
            assert found[0].log_probability == pytest.approx(end * len(task.groups), rel=0.02)
        else:
            assert found[0].log_probability <= IMPOSSIBLE


def test_a_minimum_beyond_the_maximum_is_the_maximum() -> None:
    """All ends were banned, so no text was found."""
    config = BeamConfig(max_fact_tokens=3, min_tokens_per_triple=4)
    for found in search(writer(), RECORDS, TASKS, config):
        assert all(len(words) == 3 for hypothesis in found for words in hypothesis.facts)
        assert found[0].log_probability > IMPOSSIBLE / 2


@copying
def test_marks_and_the_unknown_word_are_never_said(copy: bool) -> None:
    model = writer(copy=copy)
    with torch.no_grad():
        model.output_bias[:END] += 9
        model.output_bias[END] += -9
    for found in search(model, RECORDS, TASKS, BeamConfig(max_fact_tokens=5)):
        assert all(word > END for hypothesis in found for words in hypothesis.facts for word in words)


def test_words_of_the_record_alone_can_be_copied_from_the_facts_own_triples() -> None:
    model = writer()
    with torch.no_grad():
        model.copy_gate.bias.add_(-8)
    said = set()
    config = BeamConfig(max_fact_tokens=5, min_tokens_per_triple=2)
    for task, found in zip(TASKS, search(model, RECORDS, TASKS, config), strict=True):
        example = RECORDS[task.record]
        for words, group in zip(found[0].facts, task.groups, strict=True):
            shown = {w for w, t in zip(example.source, example.triple, strict=True) if t in group}
            assert {word for word in words if word >= model.n_output} <= shown
            said |= set(words)
    assert any(word >= model.n_words for word in said)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_searches_too(dtype: torch.dtype) -> None:
    model, config = writer().to(dtype), BeamConfig(beam=2, max_fact_tokens=4)
    exact = search(writer(), RECORDS, TASKS, config)
    for ours, other in zip(search(model, RECORDS, TASKS, config), exact, strict=True):
        assert ours[0].log_probability == pytest.approx(
            other[0].log_probability, rel=1e-4 if dtype == torch.float32 else 0.2
        )


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong, message in [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"max_fact_tokens": 0}, "max_fact_tokens must be at least 1, not 0"),
        ({"min_tokens_per_triple": -1}, "min_tokens_per_triple must be at least 0, not -1"),
        ({"block_ngrams": -3}, "block_ngrams must be at least 0, not -3"),
    ]:
        with pytest.raises(ValueError, match=message):
            BeamConfig(**wrong)
