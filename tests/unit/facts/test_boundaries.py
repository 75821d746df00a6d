"""Scores of boundaries between facts: worked by hand, and what must hold for any two segmentations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import AggGenError
from agggen.evaluation.boundaries import boundaries, boundary_scores


def test_boundaries_count_visible_characters() -> None:
    assert boundaries(["It is ", "in Oslo. ", "Yes"]) == {4, 11}
    assert boundaries(["Itis", "inOslo.", "Yes"]) == {4, 11}
    assert boundaries([" ", "a", " ", "b", " "]) == {1}
    assert boundaries(["whole"]) == boundaries([]) == set()


def test_scores_by_hand() -> None:
    found = [["a ", "b ", "c d"], ["e f"], ["g ", "h"]]
    gold = [["a", "b", "c", "d"], ["e", "f"], ["g", "h"]]
    scores = boundary_scores(found, gold)
    assert (scores.correct, scores.found, scores.gold, scores.texts) == (3, 3, 5, 3)
    assert (scores.precision, scores.recall, scores.f1) == (1.0, 0.6, 0.75)
    assert scores.identical == pytest.approx(1 / 3)
    percentages = scores.percentages()
    assert percentages["recall"].value == pytest.approx(60)
    assert "found:3|gold:5" in percentages["recall"].signature


def test_nothing_found_and_nothing_to_find() -> None:
    none = boundary_scores([["a b"]], [["a b"]])
    assert (none.precision, none.recall, none.f1, none.identical) == (1, 1, 1, 1)
    missed = boundary_scores([["a b"]], [["a", "b"]])
    assert (missed.precision, missed.recall, missed.f1, missed.identical) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("found", "gold", "message"),
    [
        ([["a"]], [["a"], ["b"]], "1 texts are segmented but 2"),
        ([], [], "no texts"),
        ([["a"], ["b c"]], [["a"], ["b", "d"]], "text 2 is 'b c' on one side, 'bd' in gold"),
    ],
)
def test_segmentations_of_other_texts_are_refused(found: list[list[str]], gold: list[list[str]], message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        boundary_scores(found, gold)


@given(st.lists(st.tuples(st.text("ab ", min_size=1), st.booleans(), st.booleans()), min_size=1))
def test_swapping_the_sides_swaps_precision_and_recall(pieces: list[tuple[str, bool, bool]]) -> None:
    def cut(side: int) -> list[str]:
        facts = [""]
        for piece in pieces:
            facts[-1] += piece[0]
            if piece[side]:
                facts.append("")
        return facts

    there, back = boundary_scores([cut(1)], [cut(2)]), boundary_scores([cut(2)], [cut(1)])
    assert (there.precision, there.recall) == (back.recall, back.precision)
    assert there.f1 == back.f1 and there.identical == back.identical
    assert boundary_scores([cut(1)], [cut(1)]).f1 == 1
