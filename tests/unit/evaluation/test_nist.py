"""NIST, compared with scores computed by hand."""

import math

import pytest

from agggen.evaluation.nist import nist_statistics


def test_nist_computed_by_hand() -> None:
    result = nist_statistics(["a b", "a x"], [["a b", "a a c"], ["a d"]])
    # of 7 words, 4 are "a" and 1 is "b"; "b" follows 1 of 4 "a"
    unigrams = (math.log2(7 / 4) + math.log2(7 / 1) + math.log2(7 / 4)) / 4
    bigrams = math.log2(4 / 1) / 2
    ratio = 4 / (7 / (3 / 2))  # words of the texts / (words of the references / references per text)
    penalty = math.exp(math.log(0.5) / math.log(1.5) ** 2 * math.log(ratio) ** 2)
    assert result.corpus().value == pytest.approx((unigrams + bigrams) * penalty, abs=1e-12)


def test_counts_are_clipped_by_their_maximum_over_references() -> None:
    references = [["a b", "a a b"]]
    two, three = (nist_statistics([text], references) for text in ("a a", "a a a"))
    assert two.rows[0, 0] == three.rows[0, 0] == pytest.approx(2 * math.log2(5 / 3))


@pytest.mark.parametrize(("share", "penalty"), [(1.0, 1.0), (1.5, 1.0), (2 / 3, 0.5), (0.0, 0.0)])
def test_the_length_penalty(share: float, penalty: float) -> None:
    reference = " ".join(f"w{i}" for i in range(6))
    text = " ".join(f"w{i}" for i in range(round(6 * share)))
    result = nist_statistics([text], [[reference]])
    information = sum(result.rows[0, n] / max(result.rows[0, 5 + n], 1) for n in range(5))
    assert result.corpus().value == pytest.approx(information * penalty)
