"""Alignment scores, in the paper's definition and the usual one, on the published alignments."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agggen.errors import AggGenError
from agggen.evaluation.alignments import Positions, alignment_scores, positions


def rounded(predicted: Sequence[Positions], gold: Sequence[Positions]) -> dict[str, float]:
    return {name: round(score.value, 2) for name, score in alignment_scores(predicted, gold).items()}


def test_recall_counts_any_alignment_and_accuracy_only_right_ones() -> None:
    pair = ([{"a": 0, "b": 0, "c": None}, {"a": 1}, {}], [{"a": 0, "b": 1, "c": 1}, {"a": 1, "b": 0}, {"a": None}])
    assert rounded(*pair) == {"precision": 66.67, "recall": 60, "f1": 63.16, "accuracy": 40}
    scores = alignment_scores(*pair)
    assert "paper's recall" in scores["recall"].signature
    assert scores["accuracy"].signature == "alignment|right/all|percent|triples:5"


def test_the_last_fact_that_names_a_predicate_counts() -> None:
    assert positions([["a", "b"], [], ["a"]]) == {"a": 2, "b": 0}


def test_nothing_aligned_scores_zero() -> None:
    assert set(rounded([{}], [{"a": 0}]).values()) == {0}


def test_bad_input_is_refused() -> None:
    with pytest.raises(AggGenError, match="1 texts are aligned but 0 have gold alignments"):
        alignment_scores([{"a": 0}], [])
    with pytest.raises(AggGenError, match="are empty"):
        alignment_scores([{"a": 0}], [{"a": None}])
