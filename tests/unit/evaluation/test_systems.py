"""Scores of a system: metrics, slot errors, intervals, comparison with another system."""

import re

import numpy as np
import pytest

from agggen.errors import AggGenError, RecordError
from agggen.evaluation.protocols import PROTOCOLS
from agggen.evaluation.systems import measure_system, metrics_of, non_slot_predicate, slot_statistics
from agggen.evaluation.values import VALUE_METRICS
from agggen.records import Record, Reference, Triple


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
    assert metrics_of("e2e", None, RECORDS) == (*PROTOCOLS["e2e"], *VALUE_METRICS, "ser")
    assert "ser" not in metrics_of("e2e", None, [*RECORDS, FOREIGN])
    assert metrics_of("plain", None, RECORDS) == ("bleu", "chrf", "ter", *VALUE_METRICS)
    assert non_slot_predicate([*RECORDS, FOREIGN]) == "'birthPlace' of record 'b'"


def test_slot_statistics_give_corpus_segment_and_sample_scores() -> None:
    result = slot_statistics(RECORDS, TEXTS)
    assert result["ser.ser"].corpus().value == pytest.approx(100 * 3 / 9)
    assert result["ser.ser"].segment_scores == pytest.approx([100 / 3, 100 / 3, 100 / 3])
    twice_the_first = np.array([[2.0, 0.0, 0.0]])
    assert result["ser.wrong"].samples(twice_the_first) == pytest.approx([100 / 3])


def test_intervals_and_comparison() -> None:
    perfect = [item.references[0].text for item in RECORDS]
    result = measure_system("e2e", ["bleu", "ser"], RECORDS, TEXTS, perfect, confidence=True)
    assert list(result) == ["bleu", "ser.add", "ser.miss", "ser.wrong", "ser.ser"]
    for item in result.values():
        assert item.interval and item.comparison
        assert item.interval.low <= item.interval.value <= item.interval.high
        assert item.comparison.first == item.interval.value == item.statistics.corpus().value
    assert [result[name].comparison.second for name in ("bleu", "ser.ser")] == pytest.approx([100, 0])


def test_value_measures_of_two_systems_are_comparable() -> None:
    """Although their signatures differ in the counts by kind of match."""
    first = [*TEXTS[:2], "The Mill is a coffee shop near Crowne Plaza Hotel."]
    other = ["The Mill is an Italian pub.", "", ""]
    result = measure_system("plain", ["invented", "values_whole"], RECORDS, first, other)
    assert list(result) == ["invented", "values_whole"]
    assert all(item.interval is None for item in result.values())
    whole, invented = result["values_whole"].comparison, result["invented"].comparison
    assert (whole.first, whole.second) == (pytest.approx(400 / 6), pytest.approx(200 / 6))
    assert (invented.first, invented.second) == (pytest.approx(100 / 3), 0)
    assert re.search(r"\|lexicon:none\|triples:6\|said:literal \d,rule \d,lexicon 0,phrase 0\|", whole.signature)


def test_bad_input_is_refused() -> None:
    with pytest.raises(AggGenError, match=r"no metric 'rouge'; it has bleu, nist, .*, cider, values_whole, .*, ser"):
        metrics_of("e2e", ["rouge"], RECORDS)
    with pytest.raises(AggGenError, match="3 records but 1 texts"):
        measure_system("plain", ["bleu"], RECORDS, ["a"])
    with pytest.raises(AggGenError, match="no records"):
        slot_statistics([], [])
    with pytest.raises(RecordError, match="record 'b': 'birthPlace' is not a slot of E2E"):
        measure_system("e2e", ["ser"], [FOREIGN], ["a"])
