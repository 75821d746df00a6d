"""Alignment scores, in the paper's definition and the usual one, on the published alignments."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.errors import AggGenError
from agggen.evaluation.alignments import alignment_scores, positions


def test_recall_counts_any_alignment_and_accuracy_only_right_ones() -> None:
    scores = alignment_scores([{"a": 0, "b": 0, "c": None}, {"a": 1}], [{"a": 0, "b": 1, "c": 1}, {"a": 1, "b": 0}])
    assert (scores.correct, scores.aligned, scores.total) == (2, 3, 5)
    assert (scores.precision, scores.recall, scores.accuracy) == (2 / 3, 3 / 5, 2 / 5)
    assert scores.f1 == pytest.approx(2 * (2 / 3) * (3 / 5) / (2 / 3 + 3 / 5))


def test_percentages_by_name() -> None:
    scores = alignment_scores([{"a": 0, "b": 0, "c": None}, {"a": 1}], [{"a": 0, "b": 1, "c": 1}, {"a": 1, "b": 0}])
    found = scores.percentages()
    assert {name: round(score.value, 4) for name, score in found.items()} == {
        "precision": 66.6667,
        "recall": 60,
        "f1": 63.1579,
        "accuracy": 40,
    }
    assert "paper's recall" in found["recall"].signature
    assert found["accuracy"].signature == "alignment|right/all|percent|triples:5"


def test_the_last_fact_that_names_a_predicate_counts() -> None:
    assert positions([["a", "b"], [], ["a"]]) == {"a": 2, "b": 0}


def test_nothing_aligned_scores_zero() -> None:
    scores = alignment_scores([{}], [{"a": 0}])
    assert (scores.precision, scores.recall, scores.f1, scores.accuracy) == (0, 0, 0, 0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(AggGenError, match="1 texts are aligned but 0 have gold alignments"):
        alignment_scores([{"a": 0}], [])
    with pytest.raises(AggGenError, match="align nothing"):
        alignment_scores([{"a": 0}], [{"a": None}])


def _positions(plan: str) -> dict[str, int]:
    return positions(fact.split("&&") if fact else () for fact in plan.split("|"))


@pytest.fixture(scope="module")
def gold(data_home: Path) -> list[dict[str, int]]:
    folder = data_home / "agggen_release" / "human_annotations" / "evaluation"
    lines = (folder / "rst_ann_gt_plan.jsonl").read_text(encoding="utf-8").splitlines()
    return [_positions(line) for line in lines]


def test_golden_rule_based_aligner_of_the_release(data_home: Path, gold: list[dict[str, int]]) -> None:
    file = data_home / "agggen_release" / "human_annotations" / "evaluation" / "webnlg_ann_tgt.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    scores = alignment_scores([_positions(line.split("\t")[1]) for line in lines], gold)
    assert [round(100 * x, 2) for x in (scores.precision, scores.recall, scores.f1)] == [86.20, 100.00, 92.59]


def test_golden_viterbi_alignments(data_home: Path, gold: list[dict[str, int]]) -> None:
    file = data_home / "agggen_release" / "system_outputs" / "Viterbi" / "abs_bert_cnndm.30000.anno"
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    scores = alignment_scores([_positions(plan) for _, plan, _ in rows], [gold[int(number)] for *_, number in rows])
    found = [scores.precision, scores.recall, scores.f1, scores.accuracy]
    assert [round(100 * x, 2) for x in found] == [89.73, 84.16, 86.85, 75.51]
    assert (scores.correct, scores.aligned, scores.total) == (734, 818, 972)
