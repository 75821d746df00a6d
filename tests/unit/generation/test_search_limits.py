"""Beam search at its limits: lengths, repetitions, empty facts, what may never be said, settings that make no sense."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.generation.config import BeamConfig
from agggen.generation.search import Task
from agggen.model.batch import END
from agggen.model.lattice import IMPOSSIBLE
from tests.unit.generation.search_examples import (
    RECORDS,
    TASKS,
    copying,
    ngrams,
    same,
    search,
    slow_search,
    writer,
)


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
    for task, result in zip(TASKS, search(writer(seed, end), RECORDS, TASKS, config), strict=True):
        assert 1 <= len(result) <= beam
        for hypothesis in result:
            assert len(hypothesis.facts) == len(task.groups)
            for words, group in zip(hypothesis.facts, task.groups, strict=True):
                assert min(max(minimum * len(group), 1), most) <= len(words) <= most
            if block:
                expected = ngrams(hypothesis.facts, block)
                assert len(set(expected)) == len(expected)


def test_repetition_is_allowed_without_blocking() -> None:
    model = writer(copy=False)
    with torch.no_grad():
        model.output_bias[9] += 20
    for block, repeats in [(0, True), (3, False)]:
        config = BeamConfig(beam=2, max_fact_tokens=6, min_tokens_per_triple=6, block_ngrams=block)
        assert (search(model, RECORDS, TASKS[2:3], config)[0][0].facts == ((9,) * 6,)) is repeats


def test_no_fact_is_empty() -> None:
    """A model after few updates ended every fact at once."""
    for result in search(writer(end=40.0, copy=False), RECORDS, TASKS, BeamConfig(max_fact_tokens=3)):
        assert all(len(words) >= 1 for hypothesis in result for words in hypothesis.facts)
        assert all(len(words) == 1 for words in result[0].facts)


def test_words_on_either_side_of_a_facts_boundary_are_no_ngram() -> None:
    """The last word of a fact and the first of the next were taken for a bigram, and blocked later on."""
    model, task, word = writer(end=40.0, copy=False), Task(0, ((2,), (0, 1))), 9
    with torch.no_grad():
        model.output_bias[word] += 20
    config = BeamConfig(beam=2, length_penalty=0.0, min_tokens_per_triple=1, max_fact_tokens=2, block_ngrams=2)
    (result,) = search(model, RECORDS, [task], config)
    assert result[0].facts == ((word,), (word, word))
    with torch.no_grad():
        same(result, slow_search(model, RECORDS[0], task.groups, config))


@pytest.mark.parametrize("end", [-1e4, -1e12])
def test_a_fact_that_hardly_ends_stops_at_the_most_tokens(end: float) -> None:
    """Below the smallest number that exp can return; -1e12 is less than the score of the impossible itself."""
    model = writer(end=end, copy=False)
    for task, result in zip(TASKS, search(model, RECORDS, TASKS, BeamConfig(max_fact_tokens=3)), strict=True):
        assert len(result[0].facts) == len(task.groups)
        assert all(len(words) <= 3 for words in result[0].facts)
        if end == -1e4:
            assert all(len(words) == 3 for words in result[0].facts)
            assert result[0].log_probability == pytest.approx(end * len(task.groups), rel=0.02)
        else:
            assert result[0].log_probability <= IMPOSSIBLE


def test_a_minimum_beyond_the_maximum_is_the_maximum() -> None:
    """All ends were banned, so no text was found."""
    config = BeamConfig(max_fact_tokens=3, min_tokens_per_triple=4)
    for result in search(writer(), RECORDS, TASKS, config):
        assert all(len(words) == 3 for hypothesis in result for words in hypothesis.facts)
        assert result[0].log_probability > IMPOSSIBLE / 2


@copying
def test_marks_and_the_unknown_word_are_never_said(copy: bool) -> None:
    model = writer(copy=copy)
    with torch.no_grad():
        model.output_bias[:END] += 9
        model.output_bias[END] += -9
    for result in search(model, RECORDS, TASKS, BeamConfig(max_fact_tokens=5)):
        assert all(word > END for hypothesis in result for words in hypothesis.facts for word in words)


def test_words_of_the_record_alone_can_be_copied_from_the_facts_own_triples() -> None:
    model = writer()
    with torch.no_grad():
        model.copy_gate.bias.add_(-8)
    expected = set()
    config = BeamConfig(max_fact_tokens=5, min_tokens_per_triple=2)
    for task, result in zip(TASKS, search(model, RECORDS, TASKS, config), strict=True):
        example = RECORDS[task.record]
        for words, group in zip(result[0].facts, task.groups, strict=True):
            shown = {w for w, t in zip(example.source, example.triple, strict=True) if t in group}
            assert {word for word in words if word >= model.n_output} <= shown
            expected |= set(words)
    assert any(word >= model.n_words for word in expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_searches_too(dtype: torch.dtype) -> None:
    model, config = writer().to(dtype), BeamConfig(beam=2, max_fact_tokens=4)
    exact = search(writer(), RECORDS, TASKS, config)
    for ours, second in zip(search(model, RECORDS, TASKS, config), exact, strict=True):
        assert ours[0].log_probability == pytest.approx(
            second[0].log_probability, rel=1e-4 if dtype == torch.float32 else 0.2
        )


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong, message in [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"max_fact_tokens": 0}, "max_fact_tokens must be at least 1, not 0"),
        ({"min_tokens_per_triple": -1}, "min_tokens_per_triple must be at least 0, not -1"),
        ({"block_ngrams": -3}, "block_ngrams must be at least 0, not -3"),
        ({"length_penalty": -0.5}, "length_penalty must be a number of 0 or more, not -0.5"),
        ({"length_penalty": float("nan")}, "length_penalty must be a number of 0 or more, not nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            BeamConfig(**wrong)
