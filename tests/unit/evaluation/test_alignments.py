"""Agreement of alignments with human alignments."""

from pathlib import Path

import pytest

from agggen.errors import AggGenError
from agggen.evaluation.alignments import alignment_statistics, positions
from tests.unit.annotated import groups_of
from tests.unit.score_files import alignment_scores


def test_recall_counts_all_alignments_and_accuracy_only_correct_ones() -> None:
    pair = ([{"a": 0, "b": 0, "c": None}, {"a": 1}, {}], [{"a": 0, "b": 1, "c": 1}, {"a": 1, "b": 0}, {"a": None}])
    assert alignment_scores(*pair) == {"precision": 66.67, "recall": 60, "f1": 63.16, "accuracy": 40}
    statistics = alignment_statistics(*pair)
    assert "paper's recall" in statistics["recall"].signature
    assert statistics["accuracy"].signature == "alignment|right/all|percent|triples:5"


def test_a_predicate_is_aligned_to_the_last_fact_that_names_it() -> None:
    assert positions([["a", "b"], [], ["a"]]) == {"a": 2, "b": 0}


def test_without_predicted_alignments_scores_are_zero_and_without_gold_ones_there_are_none() -> None:
    assert set(alignment_scores([{}], [{"a": 0}]).values()) == {0}
    with pytest.raises(AggGenError, match="are empty"):
        alignment_statistics([{"a": 0}], [{"a": None}])


def test_golden_viterbi_alignments(data_home: Path) -> None:
    """The paper's table, on 273 texts, since the release lacks the Viterbi alignment of text 12."""
    release = data_home / "agggen_release"
    gold = (release / "human_annotations/evaluation/rst_ann_gt_plan.jsonl").read_text(encoding="utf-8").splitlines()
    viterbi = (release / "system_outputs/Viterbi/abs_bert_cnndm.30000.anno").read_text(encoding="utf-8").splitlines()
    plans = {int(number): plan for _, plan, number in (line.split("\t") for line in viterbi)}
    assert set(range(len(gold))) - set(plans) == {12}
    predicted, expected = plans.values(), (gold[number] for number in plans)
    scores = alignment_scores(*([positions(groups_of(plan)) for plan in texts] for texts in (predicted, expected)))
    assert scores == {"precision": 89.73, "recall": 84.16, "f1": 86.85, "accuracy": 75.51}
