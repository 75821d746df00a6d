"""The sections of a report, compared with the modules of the metrics."""

import math
from collections.abc import Sequence

import pytest

from agggen.corpora.elements import elements_records
from agggen.evaluation import Score
from agggen.evaluation.values import VALUE_METRICS, check_values
from agggen.facts.config import segmenter
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.report import Row, sections
from agggen.report.build import by_category, reference_groups, rows_of
from agggen.report.sections import TextMetrics, text_scores
from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon
from tests.unit.score_files import score_texts


def checked(
    records: Sequence[Record], texts: Sequence[str], facts: Sequence[Sequence[WrittenFact]] | None = None
) -> list[Row]:
    values, count = check_values(records, texts), len(texts)
    return rows_of(records, texts, values, [None] * count, facts or [()] * count, {"bleu": [7.0] * count})


def faithfulness(rows: Sequence[Row]) -> dict[str, Score]:
    values = check_values([row.record for row in rows], [row.text for row in rows])
    measures = sections.faithfulness(rows, values.statistics, 0).measures
    return {measure.name: measure.score for measure in measures if measure.score}


def test_plans_may_omit_predicates_and_measures_undefined_for_a_record_have_no_interval() -> None:
    """Tau is defined for one of the two records; the references omit predicate c."""
    predicted, references = [Plan.parse("[a b c]"), Plan.parse("[a] [b c]")], [[Plan.parse("[a] [b]")]] * 2
    section = sections.plans("plans", "Plans", predicted, references, 0, predicates=[("a", "b", "c")] * 2)
    assert section and all(measure.score for measure in section.measures)
    intervals = {measure.name: measure.interval for measure in section.measures}
    assert intervals["nmi_avg"] is not None
    assert intervals["tau_avg"] is None


# --- faithfulness ----------------------------------------------------------------------------------------------------


def test_slot_errors_are_counted_if_all_predicates_are_slots_of_e2e() -> None:
    pub = Record.of({"id": "1", "triples": [["Aromi", "food", "Thai"], ["Aromi", "area", "riverside"]]})
    (row,) = checked([pub], ["Aromi serves Italian food."])
    assert sorted((kind, error.slot) for kind, error in row.labelled_errors) == [("missed", "area"), ("wrong", "food")]
    slot_errors = [f"{kind}.{part}" for kind in ("ser", "ser_plain") for part in ("add", "miss", "wrong", "ser")]
    assert list(faithfulness([row])) == [*VALUE_METRICS, *slot_errors]
    mill = Record.of({"id": "2", "triples": [["Mill", "builtIn", "1800"]]})
    assert [row.slot_errors for row in checked([pub, mill], ["a", "b"])] == [None, None]


MAYOR = Record.of({"id": "1", "triples": [["Rome", "country", "Italy"], ["Rome", "leader", "Ann Mary Black"]]})


def test_both_checks_name_the_values_that_a_text_lacks() -> None:
    silent, half = checked([MAYOR] * 2, ["Rome is in Italy.", "Rome in Italy is led by Ann Black."])
    assert (silent.incomplete_values, list(silent.unmentioned)) == ({"leader": "missing"}, ["leader"])
    assert "black" in silent.unmentioned["leader"] and silent.scores == {"bleu": 7.0}
    assert (half.incomplete_values, half.unmentioned) == ({"leader": "part"}, {}), "lenient accepts 2 of 3 words"


def test_values_faults_and_hallucinations_are_measured_separately() -> None:
    texts = ["Rome in Italy is led by Ann Mary Black.", "Rome in Italy is led by Ann Black.", "Rome is in Italy."]
    texts.append("Rome in Italy is led by Ann Mary Black, born in Oslo in 1950.")
    scores = faithfulness(checked([MAYOR] * 4, texts))
    expected = {"values_whole": 75, "values_lenient": 87.5, "texts_without_faults": 25, "invented": 50}
    assert {name: score.value for name, score in scores.items()} == pytest.approx(expected)
    assert scores["values_whole"].signature == (
        "values said whole (strict)|lexicon:none|triples:8|said:literal 6,rule 0,lexicon 0,phrase 0"
    )
    assert scores["values_lenient"].signature == (
        "values mentioned (lenient: 60 % of the words)|words:normal,e2e:phrases|threshold:0.6|triples:8"
    )
    assert scores["invented"].signature == "invented values per 100 texts (strict)|lexicon:none|texts:4"


def test_a_lexicon_is_used_and_named_in_the_signature() -> None:
    lexicon = Lexicon(variants={"Italy": ("Italian",), "Ann Mary Black": ("Ann Black", "A. Black")})
    result = check_values([MAYOR], ["Italian Rome is led by Ann Black."], Checker(lexicon)).statistics["values_whole"]
    assert result.corpus().value == 100
    assert result.signature.endswith("|lexicon:3 variants|triples:2|said:literal 0,rule 0,lexicon 2,phrase 0")


def test_a_text_with_a_fault_outside_the_facts_is_not_fulfilled() -> None:
    texts = ["Rome in Italy is led by Ann Mary Black.", "Rome in Italy is led by Ann Mary Black of Oslo."]
    facts = [[WrittenFact(0, len(text), ("country", "leader"), ())] for text in texts]
    fulfilled = faithfulness(checked([MAYOR] * 2, texts, facts))["fulfilled"]
    assert fulfilled.value == 0.5 and "(strict)" in fulfilled.signature


def test_group_sizes_of_references_are_those_of_plans_or_rules() -> None:
    planned = RECORDS[:5]
    plans = [reference.plan for record in planned for reference in record.references if reference.plan]
    sizes, source = reference_groups(planned, segmenter("clauses"))
    assert sizes == [len(state) for plan in plans for state in plan.states]
    assert "those of their plans" in source
    triples = [["Rome", "country", "Italy"], ["Rome", "leader", "Ann Black"], ["Rome", "river", "Tiber"]]
    texts = ["Rome is in Italy and on the Tiber. Its mayor is Ann Black.", "Rome is a city."]
    bare = Record.of({"id": "1", "triples": triples, "references": texts})
    sizes, source = reference_groups([bare], segmenter("sentences"))
    assert sorted(sizes) == [1, 2]
    assert "'sentences'" in source


# --- texts against references ----------------------------------------------------------------------------------------

RECORDS = list(elements_records("dev"))[:24]
TEXTS = [record.references[0].text.replace(" a ", " the ") for record in RECORDS]
REFERENCES = [[reference.text for reference in record.references[1:]] for record in RECORDS]
SCORED = [
    Record(record.id, record.triples, record.references[1:], "metal" if number % 2 else "gas")
    for number, record in enumerate(RECORDS)
]


def test_text_scores_of_a_protocol_and_of_plain_sacrebleu() -> None:
    result = text_scores(TextMetrics("webnlg-2017", ("bleu", "ter")), SCORED, TEXTS)
    assert [section.key for section in result.sections] == ["webnlg-2017", "plain"]
    expected = score_texts("webnlg-2017", TEXTS, REFERENCES, ["bleu", "ter"])
    bleu, ter = result.sections[0].measures
    for measure in (bleu, ter):
        assert measure.score == expected[measure.name]
        low, high = measure.interval or (math.nan, math.nan)
        assert low < measure.score.value < high
    assert text_scores(TextMetrics("webnlg-2017", ("bleu",)), SCORED, TEXTS, 1).sections[0].measures[0] != bleu
    assert {"webnlg-2017/bleu", "webnlg-2017/ter", "plain/bleu", "plain/chrf", "plain/ter"} == set(
        result.segment_scores
    )
    assert all(len(values) == len(TEXTS) for values in result.segment_scores.values())


def test_plain_is_reported_once_and_a_single_record_has_no_intervals() -> None:
    assert [section.key for section in text_scores(TextMetrics(), SCORED, TEXTS).sections] == ["plain"]
    (only,) = text_scores(TextMetrics("plain", ("chrf",)), SCORED[:1], TEXTS[:1]).sections
    assert [(measure.name, measure.interval) for measure in only.measures] == [("chrf", None)]


def test_scores_of_categories_equal_scores_of_separate_corpora() -> None:
    table = by_category(checked(SCORED, TEXTS), text_scores(TextMetrics(), SCORED, TEXTS).plain)
    assert table is not None
    for part in table.as_dicts():
        indices = [index for index, record in enumerate(SCORED) if record.category == part["category"]]
        alone = score_texts("plain", [TEXTS[i] for i in indices], [REFERENCES[i] for i in indices], ["bleu", "chrf"])
        assert part["records"] == len(indices) == 12
        assert part["BLEU"] == pytest.approx(alone["bleu"].value)
        assert part["chrF"] == pytest.approx(alone["chrf"].value)
