"""Facts of tokenised texts: boundaries carried over to raw texts, and rows of the release."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.corpora.annotated import aligned_reference, attach_facts
from agggen.errors import RecordError
from agggen.records import Fact


@pytest.mark.parametrize(
    ("text", "facts", "pieces"),
    [
        ("A row, in B.  It is old.", ["A row , in B .", "It is old ."], ("A row, in B.  ", "It is old.")),
        ("One fact", ["One fact"], ("One fact",)),
        (" a b ", ["a", "", "b"], (" a ", "b ")),
        ("Nice.It is old", ["Nice .", "It is old"], ("Nice.", "It is old")),
        # Quotes and dashes that a tokeniser swapped.
        (
            'The "Mill" \u2013 as always \u2013 is open, isn\u2019t it',
            ["The `` Mill ''", "- as always - is open ,", "isn't it"],
            ('The "Mill" ', "\u2013 as always \u2013 is open, ", "isn\u2019t it"),
        ),
        # A comma that the segmenter dropped stays with the fact before it, a word goes to the next.
        (
            "It was built in 1901, which makes it the oldest.",
            ["It was built in 1901", "which makes it the oldest ."],
            ("It was built in 1901, ", "which makes it the oldest."),
        ),
        (
            "This comes from a large island and is a fried dish.",
            ["This comes from a large island and is", "fried dish ."],
            ("This comes from a large island and is ", "a fried dish."),
        ),
        ("Nothing alike here", ["Quite", "another text"], None),
        ("a", [""], None),
        (" ", ["a"], None),
    ],
)
def test_boundaries_are_carried_over(text: str, facts: list[str], pieces: tuple[str, ...] | None) -> None:
    assert attach_facts(text, facts) == pieces


@given(st.text(max_size=40), st.lists(st.text(max_size=12), max_size=5))
def test_pieces_concatenate_to_the_text_whatever_the_facts(text: str, facts: list[str]) -> None:
    pieces = attach_facts(text, facts)
    assert pieces is None or ("".join(pieces) == text and all(piece.strip() for piece in pieces))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), min_size=1, max_size=5)
)
def test_facts_of_the_text_itself_are_found_again(facts: list[str]) -> None:
    pieces = attach_facts(" ".join(facts), facts)
    assert pieces is not None
    assert ["".join(piece.split()) for piece in pieces] == ["".join(fact.split()) for fact in facts]


def test_a_row_of_the_release_has_facts_with_their_predicates() -> None:
    columns = ["(S)", "part&&part_2||league", "In A B and C .", "indeed", "it plays ."]
    assert aligned_reference(columns).facts == (
        Fact("In A B and C . ", ("part", "part_2")),
        Fact("indeed ", ()),
        Fact("it plays .", ("league",)),
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["t", "b|b", "one ."], "2 groups for 1 facts"), (["t", "r"], "at least one fact")],
)
def test_a_bad_row_of_the_release_is_refused(columns: list[str], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        aligned_reference(columns)
