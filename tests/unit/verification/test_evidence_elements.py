"""The shipped corpus: its texts are whole and true, and whatever is exchanged in them is noticed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from agggen.verification.check import passes
from tests.unit.verification.conftest import Learned
from tests.unit.verification.evidence import (
    is_name,
    is_number,
    places_exchanged,
    texts_of,
    value_words,
    values_exchanged,
    words_exchanged,
)

HELD_OUT = ("dev", "test")


@pytest.mark.parametrize("split", ["train", *HELD_OUT])
def test_every_reference_is_whole_and_without_a_fault(elements: Learned, split: str) -> None:
    checker, _, records = elements
    faults = [(text, checker.check(record, text).faults) for record, text in texts_of(records(split))]
    assert len(faults) == {"train": 3384, "dev": 216, "test": 216}[split]
    assert [(text, result) for text, result in faults if result] == []


def test_the_facts_of_a_reference_say_their_own_triples_and_no_others(elements: Learned) -> None:
    """But for "The gas becomes liquid at 25 K.", which says more than the melting point."""
    checker, train, records = elements
    facts, faults = 0, Counter[tuple[str, ...]]()
    for record in [*train, *records("dev"), *records("test")]:
        for fact in [fact for reference in record.references for fact in reference.facts or ()]:
            own = [record.predicates.index(name) for name in fact.predicates or ()]
            result = checker.check(record, fact.text, own, subjects=())
            facts += 1
            assert result.whole, (fact, result)
            faults.update([result.faults] if result.faults else [])
    assert set(faults) <= {("'gas' belongs to another fact",), ("'gas' is repeated",)}
    assert 0 < sum(faults.values()) < 0.003 * facts


def test_the_short_check_agrees_with_the_full_check(elements: Learned) -> None:
    checker, _, records = elements
    pairs = list(texts_of(records("dev")))
    outcomes = Counter[bool]()
    for (record, text), (_, other) in zip(pairs, [*pairs[1:], pairs[0]], strict=True):
        words = text.split()
        triples = range(0, len(record.triples), 2)
        for candidate in (text, other, " ".join(words[: len(words) // 2]), f"{text} {text}"):
            for arguments in ((None, None, True), (triples, None, True), (triples, (), False)):
                passed = passes(checker.findings(record, candidate, *arguments))
                assert passed is (not checker.check(record, candidate, *arguments).faults)
                outcomes[passed] += 1
    assert min(outcomes[True], outcomes[False]) > 100


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_word_or_number_of_another_value_is_noticed(elements: Learned, seed: int) -> None:
    checker, train, records = elements
    result = words_exchanged(checker, records("dev") + records("test"), value_words(train), random.Random(seed))
    assert result.tried > 1700
    assert sum(result.skipped.values()) < 0.02 * result.tried, result.skipped
    assert result.share >= 0.999, str(result)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_another_value_of_the_same_predicate_is_noticed(elements: Learned, seed: int) -> None:
    checker, train, records = elements
    result = values_exchanged(checker, records("dev") + records("test"), train, random.Random(seed))
    assert result.tried > 1700
    assert result.share >= 0.999, str(result)


def test_numbers_under_each_others_wording_are_noticed(elements: Learned) -> None:
    """Measured: 95.9 %; all where no two numbers of a record are equal."""
    checker, _, records = elements
    result = list(places_exchanged(checker, records("dev") + records("test"), is_number))
    assert len(result) > 500
    assert sum(seen for _, seen, _ in result) >= 0.945 * len(result)
    assert [text for different, seen, text in result if different and not seen] == []


def test_names_under_each_others_wording_are_noticed(elements: Learned) -> None:
    """Measured: 98.9 %."""
    checker, _, records = elements
    result = [seen for _, seen, _ in places_exchanged(checker, records("dev"), is_name)]
    assert len(result) > 80
    assert sum(result) >= 0.95 * len(result)
