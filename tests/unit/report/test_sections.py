"""The sections of a report, against the metrics' own modules."""

import math
import random
from collections.abc import Sequence

import pytest

from agggen.corpora.elements import elements_records
from agggen.evaluation.values import VALUES, read_values
from agggen.facts.config import segmenter
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.report import Row, Section, sections
from agggen.report.build import reference_groups, rows_of
from agggen.report.sections import TextMetrics, text_scores
from agggen.report.tables import by_category
from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon
from tests.unit.score_files import score_texts

ELEMENTS = [record for record in elements_records("dev") if len(record.triples) > 1][:40]


def shuffled(plan: Plan, dice: random.Random) -> Plan:
    """Another plan of the same predicates."""
    names = list(plan.predicates)
    dice.shuffle(names)
    cut = sorted(dice.sample(range(1, len(names)), dice.randrange(len(names))))
    return Plan(tuple(tuple(names[a:b]) for a, b in zip([0, *cut], [*cut, len(names)], strict=True)))


def plans_of(records: Sequence[Record]) -> list[Plan]:
    """The first reference's plan, in every other record shuffled."""
    dice = random.Random(1)
    first = [record.references[0].plan for record in records]
    return [shuffled(plan, dice) if number % 2 else plan for number, plan in enumerate(first) if plan]


def references_of(records: Sequence[Record]) -> list[list[Plan]]:
    return [[reference.plan for reference in record.references if reference.plan] for record in records]


def checked(
    records: Sequence[Record], texts: Sequence[str], facts: Sequence[Sequence[WrittenFact]] | None = None
) -> list[Row]:
    values = read_values(records, texts)
    no_facts = [()] * len(texts)
    return rows_of(records, texts, values, [None] * len(texts), facts or no_facts, {"bleu": [7.0] * len(texts)})


def faithfulness(rows: Sequence[Row], seed: int = 0) -> Section:
    values = read_values([row.record for row in rows], [row.text for row in rows])
    return sections.faithfulness(rows, values.statistics, seed)


def test_a_measure_that_may_be_undefined_in_a_sample_has_no_interval() -> None:
    """Tau is defined for only one of the two records."""
    records = [record for record in ELEMENTS if len(record.triples) > 2][:2]
    result = [Plan((record.predicates,)) for record in records[:1]] + plans_of(records)[1:]
    section = sections.plans("plans", "Plans", result, references_of(records), 0)
    assert section is not None
    intervals = {measure.name: measure.interval for measure in section.measures}
    assert intervals["nmi_avg"] is not None
    assert intervals["tau_avg"] is None


def test_reference_plans_may_omit_predicates() -> None:
    result, references = [Plan.parse("[a] [b c]")], [[Plan.parse("[a] [b]")]]
    section = sections.plans("plans", "Plans", result, references, 0, predicates=[("a", "b", "c")])
    assert section and all(measure.score for measure in section.measures)


# --- faithfulness ----------------------------------------------------------------------------------------------------


def test_slot_errors_are_counted_if_all_predicates_are_slots_of_e2e() -> None:
    pub = Record.of({"id": "1", "triples": [["Aromi", "food", "Thai"], ["Aromi", "area", "riverside"]]})
    (row,) = checked([pub], ["Aromi serves Italian food."])
    assert sorted((kind, error.slot) for kind, error in row.labelled_errors) == [("missed", "area"), ("wrong", "food")]
    names = [measure.name for measure in faithfulness([row]).measures]
    parts = ("add", "miss", "wrong", "ser")
    assert names == [*VALUES, *(f"ser.{part}" for part in parts), *(f"ser_plain.{part}" for part in parts)]
    mill = Record.of({"id": "2", "triples": [["Mill", "builtIn", "1800"]]})
    assert [row.slot_errors for row in checked([pub, mill], ["a", "b"])] == [None, None]


MAYOR = Record.of({"id": "1", "triples": [["Rome", "country", "Italy"], ["Rome", "leader", "Ann Mary Black"]]})


def test_both_checks_name_the_values_that_a_text_lacks() -> None:
    silent, half = checked([MAYOR] * 2, ["Rome is in Italy.", "Rome in Italy is led by Ann Black."])
    assert (silent.not_whole, list(silent.unmentioned)) == ({"leader": "missing"}, ["leader"])
    assert "black" in silent.unmentioned["leader"] and silent.scores == {"bleu": 7.0}
    assert (half.not_whole, half.unmentioned) == ({"leader": "part"}, {}), "two words of three are lenient's alone"


def test_values_faults_and_hallucinations_are_measured_separately() -> None:
    texts = ["Rome in Italy is led by Ann Mary Black.", "Rome in Italy is led by Ann Black.", "Rome is in Italy."]
    texts.append("Rome in Italy is led by Ann Mary Black, born in Oslo in 1950.")
    scores = {m.name: m.score for m in faithfulness(checked([MAYOR] * 4, texts)).measures if m.score}
    expected = {"values_whole": 75, "values_lenient": 87.5, "texts_without_faults": 25, "invented": 50}
    assert {name: score.value for name, score in scores.items()} == pytest.approx(expected)
    assert scores["values_whole"].signature == (
        "values said whole (strict)|lexicon:none|triples:8|said:literal 6,rule 0,lexicon 0,phrase 0"
    )
    assert scores["values_lenient"].signature.startswith("values mentioned (lenient: 60 % of the words)|")
    assert "threshold:0.6" in scores["values_lenient"].signature
    assert scores["invented"].signature == "invented values per 100 texts (strict)|lexicon:none|texts:4"


def test_a_lexicon_is_used_and_named_in_the_signature() -> None:
    lexicon = Lexicon(variants={"Italy": ("Italian",), "Ann Mary Black": ("Ann Black", "A. Black")})
    result = read_values([MAYOR], ["Italian Rome is led by Ann Black."], Checker(lexicon)).statistics["values_whole"]
    assert result.corpus().value == 100
    assert result.signature.endswith("|lexicon:3 variants|triples:2|said:literal 0,rule 0,lexicon 2,phrase 0")


def test_a_fault_outside_the_facts_leaves_a_text_unfulfilled() -> None:
    texts = ["Rome in Italy is led by Ann Mary Black.", "Rome in Italy is led by Ann Mary Black of Oslo."]
    facts = [[WrittenFact(0, len(text), ("country", "leader"), ())] for text in texts]
    (fulfilled,) = (m for m in faithfulness(checked([MAYOR] * 2, texts, facts)).measures if m.name == "fulfilled")
    assert fulfilled.score and fulfilled.score.value == 0.5 and "(strict)" in fulfilled.score.signature


def test_group_sizes_of_references_come_from_plans_or_rules() -> None:
    planned = ELEMENTS[:5]
    sizes, source = reference_groups(planned, segmenter("clauses"))
    assert sizes == [len(state) for plans in references_of(planned) for plan in plans for state in plan.states]
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
    assert {"webnlg-2017/bleu", "webnlg-2017/ter", "plain/bleu", "plain/chrf", "plain/ter"} == set(result.single)
    assert all(len(values) == len(TEXTS) for values in result.single.values())


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
