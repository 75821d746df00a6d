"""Plan agreement against scikit-learn and SciPy, and down to the paper's planning table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

from agggen.errors import AggGenError, PlanError
from agggen.evaluation.plans import (
    agreement,
    ami,
    ari,
    exact_match,
    kendall_tau,
    nmi,
    placed,
    plan_scores,
    reference_agreement,
)
from agggen.records import Plan


def plan_of(labels: list[int]) -> Plan:
    """The plan in which predicate p<i> is in group labels[i]; groups are ordered by their numbers."""
    groups = sorted(set(labels))
    return Plan(tuple(tuple(f"p{i}" for i, label in enumerate(labels) if label == group) for group in groups))


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)))
def test_measures_equal_the_reference_libraries(labels: tuple[list[int], list[int]]) -> None:
    first, second = labels
    plans = plan_of(first), plan_of(second)
    assert nmi(*plans) == pytest.approx(normalized_mutual_info_score(first, second), abs=1e-9)
    assert ari(*plans) == pytest.approx(adjusted_rand_score(first, second), abs=1e-9)
    assert kendall_tau(*plans) == pytest.approx(kendalltau(first, second).statistic, abs=1e-9, nan_ok=True)
    if len(set(first)) > 1 or len(set(second)) > 1:
        assert ami(*plans) == pytest.approx(adjusted_mutual_info_score(first, second), abs=1e-7)


def test_a_plan_agrees_with_itself() -> None:
    plan = Plan.parse("[a b] [c] [d e]")
    assert (nmi(plan, plan), ami(plan, plan), ari(plan, plan)) == (1.0, 1.0, 1.0)
    assert kendall_tau(plan, plan) == pytest.approx(1.0)


def test_the_same_groups_in_reverse_order_agree_in_groups_only() -> None:
    one, other = Plan.parse("[a b] [c] [d]"), Plan.parse("[d] [c] [b a]")
    assert (nmi(one, other), ari(one, other)) == (1.0, 1.0)
    assert kendall_tau(one, other) == pytest.approx(-1.0)


def test_a_single_group_ranks_nothing() -> None:
    assert math.isnan(kendall_tau(Plan.parse("[a b]"), Plan.parse("[a] [b]")))


def test_nmi_flatters_plans_that_never_aggregate_but_the_adjusted_scores_do_not() -> None:
    references = [[Plan.parse("[a b] [c d]")]] * 2
    apart = agreement([Plan.parse("[a] [b] [c] [d]")] * 2, references)
    assert apart.nmi_avg > 0.6
    assert apart.ami == pytest.approx(0, abs=1e-9)
    assert apart.ari == pytest.approx(0, abs=1e-9)
    assert (apart.groups, apart.reference_groups) == (4, 2)


def test_inputs_with_a_single_group_count_for_nmi_but_not_for_tau() -> None:
    references = [[Plan.parse("[a] [b]"), Plan.parse("[b] [a]")]] * 2
    scores = agreement([Plan.parse("[a b]"), Plan.parse("[a] [b]")], references)
    assert (scores.nmi_max, scores.nmi_avg) == (0.5, 0.5)
    assert (scores.tau_max, scores.tau_avg) == (pytest.approx(1.0), pytest.approx(0.0))


def test_plans_of_different_records_are_refused() -> None:
    with pytest.raises(PlanError, match=r"\[a\] \[b\] and \[a\] \[c\] are no plans of one record: .* 'b'"):
        nmi(Plan.parse("[a] [b]"), Plan.parse("[a] [c]"))


@pytest.mark.parametrize(
    ("plans", "references", "message"),
    [
        ([], [], "no plans to compare"),
        (["[a]"], [], "1 plans but references for 0 inputs"),
        (["[a]", "[b]"], [["[a]"], []], "input 2 has no reference plan"),
    ],
)
def test_bad_input_is_refused(plans: list[str], references: list[list[str]], message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        agreement([Plan.parse(p) for p in plans], [[Plan.parse(p) for p in group] for group in references])


def test_references_without_a_pair_are_refused() -> None:
    with pytest.raises(AggGenError, match="no input has two reference plans"):
        reference_agreement([[Plan.parse("[a]")]])


def plans(*texts: str) -> list[Plan]:
    return [Plan.parse(text) for text in texts]


def test_a_predicate_that_is_left_out_shares_a_fact_with_none() -> None:
    names = ("a", "b", "c", "d")
    part, whole = plans("[a b]", "[a b] [c d]")
    assert nmi(part, whole, names) == pytest.approx(normalized_mutual_info_score([0, 0, 1, 2], [0, 0, 1, 1]))
    assert ari(part, whole, names) == pytest.approx(adjusted_rand_score([0, 0, 1, 2], [0, 0, 1, 1]))
    assert ami(whole, part, names) == pytest.approx(adjusted_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 2]))
    assert nmi(Plan(()), Plan.parse("[a b c d]"), names) == 0
    # Left out by both is not agreement to share a fact.
    assert ari(Plan(()), part, names) < ari(part, part, names) == 1


def test_a_predicate_that_is_left_out_has_no_position() -> None:
    names = ("a", "b", "c", "d")
    assert kendall_tau(*plans("[a] [b]", "[d] [a] [b] [c]"), names) == pytest.approx(1)
    assert kendall_tau(*plans("[b] [a]", "[d] [a] [b] [c]"), names) == pytest.approx(-1)
    assert math.isnan(kendall_tau(*plans("[a] [b]", "[b c] [d]"), names))


def test_a_plan_with_a_predicate_the_record_lacks_is_refused() -> None:
    with pytest.raises(PlanError, match="names 'x', which is no predicate of the record"):
        agreement(plans("[a] [x]"), [plans("[a]")], [("a", "b")])


def test_exact_match() -> None:
    ours = plans("[a b] [c]", "[c] [a b]", "[a] [b] [c]", "[a b]")
    gold = [plans("[c] [b] [a]", "[b a] [c]"), *[plans("[a b] [c]")] * 3]
    assert exact_match(ours, gold).value == 1 / 4
    assert exact_match(ours, gold, ordered=False).value == 2 / 4
    assert "order:of groups" in exact_match(ours, gold).signature


def test_placed() -> None:
    assert placed(plans("[a b] [c]", "[d]"), [("a", "b", "c"), ("d", "e")]).value == pytest.approx(4 / 5)
    with pytest.raises(AggGenError, match="1 plans but predicates of 0 inputs"):
        placed(plans("[a]"), [])


def test_plan_scores_name_every_measure_and_what_was_computed() -> None:
    ours, gold = plans("[a b] [c]", "[a] [b c]"), [plans("[a b] [c]", "[c] [a b]"), plans("[a] [b] [c]")]
    scores = plan_scores(ours, gold)
    expected = agreement(ours, gold)
    for key in ("nmi_max", "nmi_avg", "tau_max", "tau_avg", "ami", "ari", "groups", "reference_groups"):
        assert scores[key].value == pytest.approx(getattr(expected, key))
    assert (scores["exact_match"].value, scores["exact_partition"].value, scores["coverage"].value) == (0.5, 0.5, 1)
    assert scores["human_nmi_max"].value == 1  # of the one input with two references, for want of three
    assert scores["human_tau_avg"].value == pytest.approx(-1)
    assert len({score.signature for score in scores.values()}) == len(scores)


def test_without_a_second_reference_there_is_no_human_agreement() -> None:
    assert not any(key.startswith("human") for key in plan_scores(plans("[a] [b]"), [plans("[a b]")]))


def _human_plan(text: str) -> Plan:
    """``b|a&&c||d``: facts split by |, triples of one by &&; facts that say no triple have no group."""
    return Plan(tuple(tuple(group.split("&&")) for group in text.split("|") if group))


def _triples(texts: list[str]) -> tuple[str, ...]:
    return tuple(sorted(text.strip() for text in texts if text.strip()))


@pytest.fixture(scope="module")
def annotated(data_home: Path) -> tuple[list[Plan], list[list[Plan]]]:
    """The 100 annotated inputs: AggGen's released top plan and the agreed human plans."""
    release = data_home / "agggen_release"
    raw, outputs = release / "human_annotations" / "raw", release / "system_outputs"
    sources = (raw / "webnlg_ann_src.jsonl").read_text(encoding="utf-8").splitlines()
    targets = (raw / "webnlg_ann_tgt.jsonl").read_text(encoding="utf-8").splitlines()
    references = [[_human_plan(column.split("[XXN]")[1]) for column in line.split("\t")] for line in targets]

    system: dict[tuple[str, ...], Plan] = {}
    inputs = (outputs / "_shared" / "webnlg.hmm.raw_src").read_text(encoding="utf-8").splitlines()
    plans = (outputs / "webnlg.hmm" / "abs_bert_cnndm.30000.hmm").read_text(encoding="utf-8").splitlines()
    for source, line in zip(inputs, plans, strict=True):
        relations, flags = (column.split() for column in line.split("\t"))
        groups: list[list[str]] = [[]]
        for relation, flag in zip(relations, flags, strict=True):
            groups[-1].append(relation)
            if flag == "1":
                groups.append([])
        system[_triples(source.removeprefix("[CLS]").split("[SEP]"))] = Plan(tuple(map(tuple, filter(None, groups))))
    return [system[_triples(line.split("\t")[:-1])] for line in sources], references


def test_golden_agggen_planning(annotated: tuple) -> None:
    scores = agreement(*annotated)
    assert (scores.inputs, scores.pairs) == (100, 274)
    found = [scores.nmi_max, scores.nmi_avg, scores.tau_max, scores.tau_avg]
    assert [round(x, 4) for x in found] == [0.7101, 0.6416, 0.6247, 0.2064]


def test_golden_human_planning(annotated: tuple) -> None:
    plans, references = annotated
    scores = reference_agreement(references, plans)
    found = [scores.nmi_max, scores.nmi_avg, scores.tau_max, scores.tau_avg]
    assert [round(x, 4) for x in found] == [0.9340, 0.8415, 0.7587, 0.2488]
    assert scores.pairs == 251
