"""Scoring a system: metrics, slot errors, intervals, comparison with another system."""

import re

import numpy as np
import pytest

from agggen.errors import AggGenError, RecordError
from agggen.evaluation.protocols import PROTOCOLS
from agggen.evaluation.systems import foreign_predicate, measure_system, metrics_of, slot_statistics
from agggen.evaluation.values import VALUES
from agggen.records import Record, Reference, Triple
from tests.unit.score_files import score_texts


def record(number: int, text: str, **values: str) -> Record:
    triples = tuple(Triple("The Mill", name, value) for name, value in values.items())
    return Record(f"r{number}", triples, (Reference(text),))


RECORDS = [
    record(1, "The Mill is an Italian pub.", eatType="pub", food="Italian"),
    record(2, "The Mill is a pub by the riverside.", eatType="pub", area="riverside"),
    record(3, "The Mill is a coffee shop near Crowne Plaza Hotel.", eatType="coffee shop", near="Crowne Plaza Hotel"),
]
TEXTS = ["The Mill is a Chinese pub.", "The Mill is a pub.", "The Mill is a cheap coffee shop near Crowne Plaza Hotel."]
FOREIGN = Record("b", (Triple("Ann", "birthPlace", "Rome"),), (Reference("Ann was born in Rome."),))


def test_slot_errors_are_a_metric_of_e2e_for_its_own_predicates() -> None:
    assert metrics_of("e2e", None, RECORDS) == (*PROTOCOLS["e2e"], *VALUES, "ser")
    assert "ser" not in metrics_of("e2e", None, [*RECORDS, FOREIGN])
    assert metrics_of("plain", None, RECORDS) == ("bleu", "chrf", "ter", *VALUES)
    assert foreign_predicate([*RECORDS, FOREIGN]) == "'birthPlace' of record 'b'"


@pytest.mark.parametrize(
    ("protocol", "requested", "message"),
    [
        ("plain", ["ser"], "protocol plain has no metric 'ser'"),
        ("e2e", ["rouge"], "no metric 'rouge'; it has bleu, nist, meteor, rouge_l, cider, values_whole, .*, ser"),
    ],
)
def test_unknown_metrics_are_refused(protocol: str, requested: list[str] | None, message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        metrics_of(protocol, requested, RECORDS)


def test_slot_statistics_give_corpus_segment_and_sample_scores() -> None:
    result = slot_statistics(RECORDS, TEXTS)
    assert result["ser.ser"].corpus().value == pytest.approx(100 * 3 / 9)
    single = result["ser.ser"].single
    assert single is not None
    assert single == pytest.approx([100 / 3, 100 / 3, 100 / 3])
    twice_the_first = np.array([[2.0, 0.0, 0.0]])
    assert result["ser.wrong"].samples(twice_the_first) == pytest.approx([100 / 3])


def test_scores_equal_those_of_the_protocol() -> None:
    result = measure_system("plain", ["ter", "bleu"], RECORDS, TEXTS)
    expected = score_texts("plain", TEXTS, [[first.references[0].text] for first in RECORDS], ["ter", "bleu"])
    assert {name: first.statistics.corpus() for name, first in result.items()} == expected
    assert list(result) == ["ter", "bleu"]
    assert all(first.interval is None and first.comparison is None for first in result.values())


def test_intervals_and_comparison() -> None:
    perfect = [item.references[0].text for item in RECORDS]
    result = measure_system("e2e", ["bleu", "ser"], RECORDS, TEXTS, perfect, confidence=True)
    assert list(result) == ["bleu", "ser.add", "ser.miss", "ser.wrong", "ser.ser"]
    for item in result.values():
        assert item.interval is not None
        assert item.comparison is not None
        assert item.interval.low <= item.interval.value <= item.interval.high
        assert item.comparison.first == item.interval.value == item.statistics.corpus().value
    bleu, errors = result["bleu"].comparison, result["ser.ser"].comparison
    assert bleu is not None
    assert errors is not None
    assert (bleu.second, errors.second) == (pytest.approx(100), 0)


def test_value_measures_of_two_systems_are_comparable() -> None:
    """Their signatures differ in the counts by kind of match."""
    first = [TEXTS[0], TEXTS[1], "The Mill is a coffee shop near Crowne Plaza Hotel."]
    result = measure_system(
        "plain", ["invented", "values_whole"], RECORDS, first, ["The Mill is an Italian pub.", "", ""]
    )
    assert list(result) == ["invented", "values_whole"]
    whole, invented = result["values_whole"].comparison, result["invented"].comparison
    assert whole and invented
    assert (whole.first, whole.second) == (pytest.approx(400 / 6), pytest.approx(200 / 6))
    assert (invented.first, invented.second) == (pytest.approx(100 / 3), 0)
    assert re.search(r"\|lexicon:none\|triples:6\|said:literal \d,rule \d,lexicon 0,phrase \d\|", whole.signature)


def test_bad_input_is_refused() -> None:
    with pytest.raises(AggGenError, match="3 records but 1 texts"):
        measure_system("plain", ["bleu"], RECORDS, ["a"])
    with pytest.raises(RecordError, match="record 'b': 'birthPlace' is not a slot of E2E"):
        measure_system("e2e", ["ser"], [FOREIGN], ["a"])
