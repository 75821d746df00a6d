"""Does the text follow the plan: by hand, by the rules, and by a model's alignment."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from agggen.errors import AggGenError, PlanError
from agggen.evaluation.adherence import adherence, text_adherence
from agggen.records import Plan, Record, Triple

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
    found = adherence([PLAN], [said], "by hand")
    assert (found.group, found.order, found.exact, found.said) == pytest.approx((group, order, exact, share))


def test_shares_are_of_all_texts() -> None:
    found = adherence([PLAN, Plan.parse("[a]")], [{"food": 0, "area": 0, "near": 1}, {}], "by hand")
    assert (found.said, found.group, found.order, found.exact, found.texts) == (3 / 4, 3 / 4, 1, 1 / 2, 2)
    assert found.signature == "adherence|aligner:by hand|predicates:4|texts:2"


def test_a_plan_of_one_group_has_no_order_to_break() -> None:
    assert adherence([Plan.parse("[a b]")], [{"a": 1, "b": 0}], "x").order == 1


def test_scores_by_name() -> None:
    scores = adherence([PLAN], [{"food": 0, "area": 1, "near": 2}], "x").scores()
    assert list(scores) == ["adherence_said", "adherence_group", "adherence_order", "adherence_exact"]
    assert scores["adherence_group"].value == pytest.approx(1 / 3)


def test_the_rules_read_the_text() -> None:
    followed = ["Aromi serves Thai food by the riverside ", "and is near Crown Hall."]
    turned = ["Near Crown Hall, ", "Aromi serves Thai food by the riverside."]
    silent = ["Aromi serves Thai food by the riverside."]
    found = [text_adherence([RECORD], [PLAN], [facts]) for facts in (followed, turned, silent)]
    assert [(one.exact, one.order, one.said) for one in found] == [(1, 1, 1), (0, 0, 1), (0, 0, pytest.approx(2 / 3))]
    assert "aligner:rules" in found[0].signature


def test_a_models_alignment_is_taken_as_it_is() -> None:
    def align(records: list[Record], facts: list[list[str]]) -> list[SimpleNamespace]:
        return [SimpleNamespace(states=(("near",), ("food", "area"))) for _ in records]

    facts = ["Aromi serves Thai food by the riverside ", "and is near Crown Hall."]
    found = text_adherence([RECORD], [PLAN], [facts], SimpleNamespace(align=align))  # type: ignore[arg-type]
    assert (found.group, found.order, found.exact) == (1, 0, 0)
    assert "aligner:viterbi" in found.signature


def test_bad_input_is_refused() -> None:
    with pytest.raises(AggGenError, match="1 records, 1 plans, the facts of 0 texts"):
        text_adherence([RECORD], [PLAN], [])
    with pytest.raises(PlanError, match="record 'r': the plan names 'price'"):
        text_adherence([RECORD], [Plan.parse("[price]")], [["a"]])
    with pytest.raises(AggGenError, match="1 plans but 0 aligned texts"):
        adherence([PLAN], [], "x")
    with pytest.raises(AggGenError, match="no plans that texts could follow"):
        adherence([], [], "x")
    with pytest.raises(AggGenError, match="no facts to align"):
        text_adherence([RECORD], [PLAN], [[]])


def test_texts_follow_the_plans_that_people_read_out_of_them_as_far_as_the_rules_can_tell(data_home: Path) -> None:
    folder = data_home / "agggen_release" / "human_annotations" / "evaluation"
    sources, golds, targets = (
        (folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("webnlg_ann_src.jsonl", "rst_ann_gt_plan.jsonl", "rst_ann_tgt.jsonl")
    )
    records, plans = [], []
    for number, (source, gold) in enumerate(zip(sources, golds, strict=True)):
        *triples, relations = source.split("\t")
        names = relations.split("|")
        parts = []
        for name, triple in zip(names, triples, strict=True):
            relation = name if f" {name} " in triple else re.sub(r"_\d+$", "", name)
            subject, _, value = triple.partition(f" {relation} ")
            parts.append(Triple(subject, relation, value))
        record = Record(str(number), tuple(parts))
        ours = dict(zip(names, record.predicates, strict=True))
        plans.append(Plan(tuple(tuple(ours[name] for name in fact.split("&&")) for fact in gold.split("|") if fact)))
        records.append(record)
    facts = [line.split("\t")[1:] for line in targets]
    found = text_adherence(records, plans, facts)
    assert found.texts == 274
    assert (found.said > 0.98, found.group > 0.8, found.order > 0.89, found.exact > 0.74) == (True,) * 4
    backwards = text_adherence(records, plans, [fact[::-1] for fact in facts])
    assert backwards.exact < 0.25
    assert backwards.group == pytest.approx(found.group, abs=0.03)
