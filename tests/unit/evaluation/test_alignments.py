"""Alignments against people's, and adherence of texts to their plans."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from agggen.errors import AggGenError
from agggen.evaluation.adherence import adherence, text_adherence
from agggen.evaluation.alignments import Positions, alignment_scores, positions
from agggen.evaluation.segments import SegmentStatistics
from agggen.records import Plan, Record, Triple
from tests.unit.annotated import annotated_texts


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


def test_an_empty_gold_alignment_is_refused() -> None:
    with pytest.raises(AggGenError, match="are empty"):
        alignment_scores([{"a": 0}], [{"a": None}])


def values(statistics: dict[str, SegmentStatistics]) -> dict[str, float]:
    return {name: counts.corpus().value for name, counts in statistics.items()}


RECORD = Record(
    "r",
    (
        Triple("Aromi", "food", "Thai"),
        Triple("Aromi", "area", "riverside"),
        Triple("Aromi", "near", "Crown Hall"),
    ),
)
PLAN = Plan.parse("[food area] [near]")


@pytest.mark.parametrize(
    ("said", "group", "order", "exact", "share"),
    [
        ({"food": 0, "area": 0, "near": 1}, 1, 1, 1, 1),
        ({"food": 1, "area": 1, "near": 3}, 1, 1, 1, 1),  # facts that say nothing do not matter
        ({"food": 1, "area": 1, "near": 0}, 1, 0, 0, 1),
        ({"food": 0, "area": 1, "near": 2}, 1 / 3, 1, 0, 1),
        ({"food": 0, "area": 1, "near": 1}, 0, 1 / 2, 0, 1),
        ({"food": 0, "area": 0, "near": 0}, 0, 0, 0, 1),
        ({"food": 0, "area": 0, "near": None}, 2 / 3, 0, 0, 2 / 3),
        ({"food": 0, "near": 1}, 1 / 3, 1 / 2, 0, 2 / 3),
        ({}, 0, 0, 0, 0),
    ],
)
def test_one_text(said: dict[str, int | None], group: float, order: float, exact: float, share: float) -> None:
    expected = {"said": share, "group": group, "order": order, "exact": exact}
    assert values(adherence([PLAN], [said], "by hand")) == pytest.approx(expected)


def test_shares_are_of_all_texts() -> None:
    result = adherence([PLAN, Plan.parse("[a]")], [{"food": 0, "area": 0, "near": 1}, {}], "by hand")
    assert values(result) == {"said": 3 / 4, "group": 3 / 4, "order": 1, "exact": 1 / 2}
    assert result["said"].signature == "adherence|aligner:by hand|predicates:4|texts:2"


def test_a_plan_of_one_group_has_no_order() -> None:
    assert math.isnan(values(adherence([Plan.parse("[a b]")], [{"a": 1, "b": 0}], "x"))["order"])


def test_the_rules_read_the_text() -> None:
    followed = ["Aromi serves Thai food by the riverside ", "and is near Crown Hall."]
    turned = ["Near Crown Hall, ", "Aromi serves Thai food by the riverside."]
    silent = ["Aromi serves Thai food by the riverside."]
    result = [values(text_adherence([RECORD], [PLAN], [facts])) for facts in (followed, turned, silent)]
    assert [(first["exact"], first["order"]) for first in result] == [(1, 1), (0, 0), (0, 0)]
    assert [first["said"] for first in result] == pytest.approx([1, 1, 2 / 3])
    assert "aligner:rules" in text_adherence([RECORD], [PLAN], [followed])["said"].signature


def test_texts_follow_the_plans_that_people_read_out_of_them_as_far_as_the_rules_can_tell(data_home: Path) -> None:
    records, facts, groups = zip(*annotated_texts(data_home), strict=True)
    plans = [Plan(tuple(tuple(group) for group in plan if group)) for plan in groups]
    statistics = text_adherence(records, plans, facts)
    result = values(statistics)
    assert statistics["said"].signature.endswith("texts:274")
    assert (result["said"] > 0.98, result["group"] > 0.8, result["order"] > 0.89, result["exact"] > 0.74) == (True,) * 4
    backwards = values(text_adherence(records, plans, [fact[::-1] for fact in facts]))
    assert backwards["exact"] < 0.25
    assert backwards["group"] == pytest.approx(result["group"], abs=0.03)
