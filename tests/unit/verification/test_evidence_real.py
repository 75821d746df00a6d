"""Real corpora: references pass the strict check, and errors inserted into them are detected."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from agggen.verification.e2e import slot_errors, slot_of
from tests.unit.verification.conftest import Learned
from tests.unit.verification.evidence import (
    is_name,
    substitute_values,
    substitute_words,
    swap_values,
    texts_of,
    value_words,
)

pytestmark = pytest.mark.slow


def test_references_of_webnlg_have_95_percent_of_the_values_whole(webnlg: Learned) -> None:
    """Measured: 95.0 %. The others are incomplete (typos, "Menasha" without Wisconsin) or paraphrased."""
    checker, _, records = webnlg
    how: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    for record, text in texts_of(records("dev")):
        for value in checker.check(record, text).values:
            how[value.how] += 1
            misses[str(value)] += not value.whole
    assert how.total() > 6800
    share = 1 - (how["part"] + how["missing"]) / how.total()
    assert share >= 0.95, f"{how}\nmost frequent: {misses.most_common(20)}"
    assert how["lexicon"] < 0.02 * how.total(), "most values are whole literally or by rule"


def test_references_of_webnlg_have_few_faults(webnlg: Learned) -> None:
    """Measured: 1.98 % of the texts have invented words, most of them real errors: typos, other years."""
    checker, _, records = webnlg
    result = [(checker.check(record, text), text) for record, text in texts_of(records("dev"))]
    invented = [(check.invented, text) for check, text in result if check.invented]
    assert len(invented) <= 0.02 * len(result), invented[:20]
    assert not any(check.elsewhere for check, _ in result), "only facts have words of other facts"
    assert sum(bool(check.swapped) for check, _ in result) <= 0.001 * len(result)
    assert sum(bool(check.repeated) for check, _ in result) <= 0.005 * len(result)


@pytest.mark.parametrize(("corpus", "every", "min_total"), [("webnlg", 1, 5000), ("e2e_cleaned", 3, 3000)])
def test_substituted_words_and_values_are_detected(
    corpus: str, every: int, min_total: int, request: pytest.FixtureRequest
) -> None:
    checker, train, records = request.getfixturevalue(corpus)
    dev = records("dev")[::every]
    by_word = substitute_words(checker, dev, value_words(train), random.Random(1))
    by_value = substitute_values(checker, dev, train, random.Random(1))
    for result, max_skipped in ((by_word, 0.03), (by_value, 0.06)):
        assert result.total > min_total
        assert sum(result.skipped.values()) < max_skipped * result.total, result.skipped
        assert result.share >= 0.999, str(result)


def test_many_swapped_names_are_detected_in_webnlg(webnlg: Learned) -> None:
    """Measured: 48.3 %."""
    checker, _, records = webnlg
    result = [detected for _, detected, _ in swap_values(checker, records("dev"), is_name)]
    assert len(result) > 6000
    assert sum(result) >= 0.46 * len(result)


def test_the_check_agrees_with_the_published_patterns_on_omitted_values(e2e_cleaned: Learned, data_home: Path) -> None:
    """Measured: 98 % of the values of TGen's texts. The check does not use the patterns of Dušek et al. (2019)."""
    checker, _, records = e2e_cleaned
    texts = (
        (data_home / "outputs/e2e_cleaning/train-clean_test-clean/tgen-std.run0.txt").read_text("utf-8").splitlines()
    )
    agree: Counter[bool] = Counter()
    for record, text in zip(records("test"), texts, strict=True):
        errors = slot_errors(record, text)
        omitted = {error.slot for error in (*errors.missed, *errors.wrong)}
        agree.update(
            value.whole != (slot_of(value.triple.predicate) in omitted) for value in checker.check(record, text).values
        )
    assert agree.total() > 9000
    assert agree[True] >= 0.97 * agree.total(), agree
