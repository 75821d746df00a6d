"""tercom's TER: cases computed by hand, and edit distance by full table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.evaluation.ter import BEAM, Distance, count_edits
from agggen.evaluation.text_metrics import tercom_statistics

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
    assert count_edits(late, missing + late) > Distance(missing + late)(late)


@given(WORDS, WORDS.filter(bool))
def test_the_edit_distance_equals_the_full_table(words: list[str], reference: list[str]) -> None:
    expected = levenshtein(words, reference)
    assert Distance(reference)(words) == expected
    assert abs(len(words) - len(reference)) <= count_edits(words, reference) <= expected


def test_the_edits_of_the_best_reference_are_divided_by_the_mean_length() -> None:
    result = tercom_statistics(["A b c d", ""], [["a b x d", "a b c d e f"], ["a b"]])
    assert result.rows.tolist() == [[1, 5], [2, 2]]
    assert result.segment_scores is not None
    assert result.segment_scores.tolist() == [20, 100]
    assert result.corpus().value == pytest.approx(100 * 3 / 7)
    assert result.signature.startswith("ter|tool:agggen|as:tercom-0.7.25|version:")
    assert result.signature.endswith("|nrefs:var|case:lc|tok:none")
