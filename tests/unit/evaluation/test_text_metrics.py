"""NIST and tercom's TER, compared with scores computed by hand; diversity of plans and texts."""

import math

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from agggen.evaluation.diversity import distinct_n, distinct_plans, self_bleu
from agggen.evaluation.ter import BEAM, count_edits, edit_distance
from agggen.evaluation.text_metrics import nist_statistics, tercom_statistics
from agggen.records import Plan


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


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)
ELEVEN, TEN, TWELVE = ([f"{letter}{i}" for i in range(size)] for letter, size in (("r", 11), ("s", 10), ("s", 12)))


def levenshtein(first: list[str], second: list[str]) -> int:
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("", "", 0),
        ("", "a b c", 3),
        ("a b c", "", 3),
        ("a b c", "a b c", 0),
        ("a x c", "a b c", 1),
        ("a c", "a b c", 1),
        ("a b c d e f", "d e f a b c", 1),  # one shift of three words
        ("b a c d", "a b c d", 1),
        ("a b c d e f g h", "g h c d e f a b", 4),  # greedy: two shifts that help only together are not found
        ("x a b c", "a b c y", 2),  # no shift reduces the edits
        ("this week the saudis denied it", "saudi arabia denied this week it", 3),
        (" ".join(TEN + ELEVEN), " ".join(ELEVEN + TEN), 1),  # a shift moves at most ten words
        (" ".join(TWELVE + ELEVEN), " ".join(ELEVEN + TWELVE), 2),
    ],
)
def test_edits_computed_by_hand(hypothesis: str, reference: str, expected: int) -> None:
    assert count_edits(hypothesis.split(), reference.split()) == expected


def test_tercoms_beam_misses_matches_after_many_deletions() -> None:
    """tercom prunes paths that are much worse than the best one of their column."""
    late, missing = ["a", "b"], [f"m{i}" for i in range(BEAM + 5)]
    assert count_edits(late, missing[:BEAM] + late) == BEAM
    assert count_edits(late, missing + late) > edit_distance(late, missing + late)


@given(WORDS, WORDS.filter(bool))
def test_the_edit_distance_equals_the_full_table(words: list[str], reference: list[str]) -> None:
    expected = levenshtein(words, reference)
    assert edit_distance(words, reference) == expected
    assert abs(len(words) - len(reference)) <= count_edits(words, reference) <= expected


def test_the_edits_of_the_best_reference_are_divided_by_the_mean_length() -> None:
    result = tercom_statistics(["A b c d", ""], [["a b x d", "a b c d e f"], ["a b"]])
    assert result.rows.tolist() == [[1, 5], [2, 2]]
    assert result.segment_scores is not None
    assert result.segment_scores.tolist() == [20, 100]
    assert result.corpus().value == pytest.approx(100 * 3 / 7)
    assert result.signature.startswith("ter|tool:agggen|as:tercom-0.7.25|version:")
    assert result.signature.endswith("|nrefs:var|case:lc|tok:none")


def test_distinct_plans() -> None:
    first = [Plan.parse(text) for text in ("[a b] [c]", "[b a] [c]", "[c] [a b]", "[a] [b] [c]")]
    assert distinct_plans([first, first[:1]]).corpus().value == (3 + 1) / 2
    assert distinct_plans([first]).signature == "diversity|different plans|order:of groups|n-best:4|records:1"


def test_distinct_n_counts_n_grams_within_texts() -> None:
    texts = ["The pub is a pub.", "a pub"]  # tokens: the pub is a pub . | a pub
    assert distinct_n(texts, 1).value == 5 / 8
    assert distinct_n(texts, 2).value == 5 / 6
    assert "n-grams:6" in distinct_n(texts, 2).signature
    assert math.isnan(distinct_n(["a"], 2).value)


def test_self_bleu_equals_sacrebleu_of_each_text_against_the_others() -> None:
    texts = ["Aromi is a pub near the river.", "Near the river is a pub, Aromi.", "Aromi is a pub near the bridge."]
    expected = sum(
        sacrebleu.sentence_bleu(text, [second for second in texts if second is not text], lowercase=True).score
        for text in texts
    ) / len(texts)
    assert self_bleu([texts, ["alone"]]).corpus().value == pytest.approx(expected)
    assert self_bleu([texts[:1] * 3]).corpus().value == pytest.approx(100)
    assert self_bleu([texts]).signature.endswith("|texts:3")
    assert math.isnan(self_bleu([["alone"], ["alone"]]).corpus().value)
