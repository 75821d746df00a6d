"""Agreement of plans and alignments with human ones, compared with scikit-learn, SciPy and the paper's tables."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

from agggen.errors import AggGenError, PlanError
from agggen.evaluation import Score
from agggen.evaluation.plans import alignment_statistics, plan_statistics, positions
from agggen.records import Plan
from tests.unit.annotated import groups_of
from tests.unit.score_files import alignment_scores, corpus_scores


def plan_of(labels: list[int]) -> Plan:
    """The plan with predicate p<i> in group labels[i]; groups are in the order of their numbers."""
    groups = sorted(set(labels))
    return Plan(tuple(tuple(f"p{i}" for i, label in enumerate(labels) if label == group) for group in groups))


def plans(*texts: str) -> list[Plan]:
    return [Plan.parse(text) for text in texts]


def plan_scores(*arguments: Any) -> dict[str, Score]:
    return corpus_scores(plan_statistics(*arguments))


def agreement(plan: Plan, reference: Plan, predicates: Sequence[str] | None = None) -> dict[str, float]:
    """NMI, AMI, ARI and tau of a plan, compared with a single reference."""
    scores = plan_scores([plan], [[reference]], predicates and [predicates])
    return {
        name: scores[key].value
        for name, key in (("nmi", "nmi_avg"), ("ami", "ami"), ("ari", "ari"), ("tau", "tau_avg"))
    }


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)))
def test_measures_equal_the_reference_libraries(labels: tuple[list[int], list[int]]) -> None:
    first, second = labels
    scores = agreement(plan_of(first), plan_of(second))
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(first, second), abs=1e-9)
    assert scores["ari"] == pytest.approx(adjusted_rand_score(first, second), abs=1e-9)
    assert scores["tau"] == pytest.approx(kendalltau(first, second).statistic, abs=1e-9, nan_ok=True)
    assert scores["ami"] == pytest.approx(adjusted_mutual_info_score(first, second), abs=1e-7)


def test_inputs_with_a_single_group_count_for_nmi_but_not_for_tau() -> None:
    scores = plan_scores(plans("[a b]", "[a] [b]"), [plans("[a] [b]", "[b] [a]")] * 2)
    values = [scores[name].value for name in ("nmi_max", "nmi_avg", "tau_max", "tau_avg", "groups", "reference_groups")]
    assert values == pytest.approx([0.5, 0.5, 1, 0, 1.5, 2])


def test_an_omitted_predicate_is_a_cluster_of_its_own() -> None:
    names = ("a", "b", "c", "d")
    part, reference = plans("[a b]", "[a b] [c d]")
    scores = agreement(part, reference, names)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score([0, 0, 1, 2], [0, 0, 1, 1]))
    assert scores["ari"] == pytest.approx(adjusted_rand_score([0, 0, 1, 2], [0, 0, 1, 1]))
    assert scores["ami"] == pytest.approx(adjusted_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 2]))
    assert agreement(Plan(()), Plan.parse("[a b c d]"), names)["nmi"] == 0
    # Predicates that both plans omit do not count as one common group.
    assert agreement(Plan(()), part, names)["ari"] < agreement(part, part, names)["ari"] == 1


@pytest.mark.parametrize(
    ("plan", "reference", "tau"),
    [("[a] [b]", "[d] [a] [b] [c]", 1), ("[b] [a]", "[d] [a] [b] [c]", -1), ("[a] [b]", "[b c] [d]", math.nan)],
)
def test_an_omitted_predicate_has_no_position(plan: str, reference: str, tau: float) -> None:
    assert agreement(*plans(plan, reference), ("a", "b", "c", "d"))["tau"] == pytest.approx(tau, nan_ok=True)


def test_a_plan_with_an_unknown_predicate_is_refused() -> None:
    with pytest.raises(PlanError, match="has 'x', which is not a predicate of the record"):
        agreement(*plans("[a] [x]", "[a]"), ("a", "b"))


def test_exact_match_depends_on_the_order_of_groups_unlike_exact_partition() -> None:
    predicted = plans("[a b] [c]", "[c] [a b]", "[a] [b] [c]", "[a b]")
    scores = plan_scores(predicted, [plans("[c] [b] [a]", "[b a] [c]"), *[plans("[a b] [c]")] * 3])
    assert [scores[name].value for name in ("exact_match", "exact_partition", "placed")] == [1 / 4, 2 / 4, 11 / 12]


def test_each_measure_has_its_own_signature() -> None:
    predicted, gold = plans("[a b] [c]", "[a] [b c]"), [plans("[a b] [c]", "[c] [a b]"), plans("[a] [b] [c]")]
    scores = plan_scores(predicted, gold)
    assert scores["human_nmi_max"].value == 1  # only the input with two references has a value
    assert scores["human_tau_avg"].value == pytest.approx(-1)
    assert len({score.signature for score in scores.values()}) == len(scores)
    assert not any(key.startswith("human") for key in plan_scores(predicted[:1], gold[1:])), "only one reference"


def test_golden_scores_of_human_plans_and_of_the_papers_system(data_home: Path) -> None:
    """The paper's planning table, computed from the released and the annotated plans."""

    def triples(columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(column.strip() for column in columns if column.strip()))

    outputs, raw = (data_home / "agggen_release" / name for name in ("system_outputs", "human_annotations/raw"))
    inputs = (outputs / "_shared/webnlg.hmm.raw_src").read_text(encoding="utf-8").splitlines()
    planned = (outputs / "webnlg.hmm/abs_bert_cnndm.30000.hmm").read_text(encoding="utf-8").splitlines()
    system = {}
    for source, line in zip(inputs, planned, strict=True):
        relations, flags = (column.split() for column in line.split("\t"))
        closed = "".join(name + ("] [" if flag == "1" else " ") for name, flag in zip(relations, flags, strict=True))
        system[triples(source.removeprefix("[CLS]").split("[SEP]"))] = Plan.parse(f"[{closed}]".replace(" []", ""))

    sources = (raw / "webnlg_ann_src.jsonl").read_text(encoding="utf-8").splitlines()
    targets = (raw / "webnlg_ann_tgt.jsonl").read_text(encoding="utf-8").splitlines()
    annotated = [[groups_of(column.split("[XXN]")[1]) for column in line.split("\t")] for line in targets]
    references = [[Plan(tuple(tuple(fact) for fact in facts if fact)) for facts in row] for row in annotated]
    scores = plan_scores([system[triples(line.split("\t")[:-1])] for line in sources], references)
    for prefix, expected in (("", [0.7101, 0.6416, 0.6247, 0.2064]), ("human_", [0.9340, 0.8415, 0.7587, 0.2488])):
        measures = [scores[prefix + name].value for name in ("nmi_max", "nmi_avg", "tau_max", "tau_avg")]
        assert [round(value, 4) for value in measures] == expected


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
