"""Beam search at its limits: lengths, repetitions, empty facts, forbidden words, precision, invalid settings."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
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
@example(0, 40.0, 5, 0, 3, 3)  # regression: facts were empty
@example(0, 1.5, 5, 4, 3, 3)  # regression: with a minimum above the maximum, no fact could end
@given(
    st.integers(0, 99),
    st.floats(-6, 40),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(1, 7),
    st.sampled_from([0, 2, 3]),
)
def test_lengths_and_ngrams_are_within_the_settings(
    seed: int, end: float, beam: int, minimum: int, maximum: int, block: int
) -> None:
    config = BeamConfig(beam=beam, min_tokens_per_triple=minimum, max_fact_tokens=maximum, block_ngrams=block)
    for task, result in zip(TASKS, search(writer(seed, end), RECORDS, TASKS, config), strict=True):
        assert 1 <= len(result) <= beam
        assert result[0].log_probability > IMPOSSIBLE / 2
        for hypothesis in result:
            assert len(hypothesis.facts) == len(task.groups)
            for words, group in zip(hypothesis.facts, task.groups, strict=True):
                assert min(max(minimum * len(group), 1), maximum) <= len(words) <= maximum
            if block:
                assert len(set(ngrams(hypothesis.facts, block))) == len(ngrams(hypothesis.facts, block))


def test_repetition_is_allowed_without_blocking() -> None:
    model = writer(copy=False)
    with torch.no_grad():
        model.output_bias[9] += 20
    for block, repeats in [(0, True), (3, False)]:
        config = BeamConfig(beam=2, max_fact_tokens=6, min_tokens_per_triple=6, block_ngrams=block)
        assert (search(model, RECORDS, TASKS[2:3], config)[0][0].facts == ((9,) * 6,)) is repeats


def test_no_ngram_crosses_a_boundary_of_facts() -> None:
    """Regression: the last word of a fact and the first of the next were a bigram, which was blocked later on."""
    model, task, word = writer(end=40.0, copy=False), Task(0, ((2,), (0, 1))), 9
    with torch.no_grad():
        model.output_bias[word] += 20
    config = BeamConfig(beam=2, length_penalty=0.0, min_tokens_per_triple=1, max_fact_tokens=2, block_ngrams=2)
    (result,) = search(model, RECORDS, [task], config)
    assert result[0].facts == ((word,), (word, word))
    with torch.no_grad():
        same(result, slow_search(model, RECORDS[0], task.groups, config))


@pytest.mark.parametrize("end", [-1e4, -1e12])
def test_a_fact_with_an_improbable_end_stops_at_the_maximum_length(end: float) -> None:
    """exp(-1e4) underflows to 0; -1e12 is below the score of an impossible end."""
    model = writer(end=end, copy=False)
    for task, result in zip(TASKS, search(model, RECORDS, TASKS, BeamConfig(max_fact_tokens=3)), strict=True):
        assert len(result[0].facts) == len(task.groups)
        assert all(len(words) <= 3 for words in result[0].facts)
        if end == -1e4:
            assert all(len(words) == 3 for words in result[0].facts)
            assert result[0].log_probability == pytest.approx(end * len(task.groups), rel=0.02)
        else:
            assert result[0].log_probability <= IMPOSSIBLE


@copying
def test_marks_and_the_unknown_word_are_never_generated(copy: bool) -> None:
    model = writer(copy=copy)
    with torch.no_grad():
        model.output_bias[:END] += 9
        model.output_bias[END] += -9
    for result in search(model, RECORDS, TASKS, BeamConfig(max_fact_tokens=5)):
        assert all(word > END for hypothesis in result for words in hypothesis.facts for word in words)


def test_out_of_vocabulary_words_are_copied_from_the_facts_own_triples() -> None:
    model = writer()
    with torch.no_grad():
        model.copy_gate.bias.add_(-8)
    generated = set()
    config = BeamConfig(max_fact_tokens=5, min_tokens_per_triple=2)
    for task, result in zip(TASKS, search(model, RECORDS, TASKS, config), strict=True):
        example = RECORDS[task.record]
        for words, group in zip(result[0].facts, task.groups, strict=True):
            visible = {w for w, t in zip(example.source, example.triple, strict=True) if t in group}
            assert {word for word in words if word >= model.n_output} <= visible
            generated |= set(words)
    assert any(word >= model.n_words for word in generated)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_has_similar_scores(dtype: torch.dtype) -> None:
    config, tolerance = BeamConfig(beam=2, max_fact_tokens=4), 1e-4 if dtype == torch.float32 else 0.2
    exact, rounded = (search(model, RECORDS, TASKS, config) for model in (writer(), writer().to(dtype)))
    for result, expected in zip(rounded, exact, strict=True):
        assert result[0].log_probability == pytest.approx(expected[0].log_probability, rel=tolerance)


def test_invalid_settings_are_refused() -> None:
    for setting, message in [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"max_fact_tokens": 0}, "max_fact_tokens must be at least 1, not 0"),
        ({"min_tokens_per_triple": -1}, "min_tokens_per_triple must be at least 0, not -1"),
        ({"block_ngrams": -3}, "block_ngrams must be at least 0, not -3"),
        ({"length_penalty": -0.5}, "length_penalty must be a number of 0 or more, not -0.5"),
        ({"length_penalty": float("nan")}, "length_penalty must be a number of 0 or more, not nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            BeamConfig(**setting)
