"""Facts cut by someone else: boundaries carried to raw texts, and the released files as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.corpora.segmented import aligned_reference, attach_facts, attach_release_facts, release_facts
from agggen.errors import CorpusError, RecordError
from agggen.records import Fact, Plan, Record, Reference, Triple


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


def test_records_get_the_facts_of_their_texts() -> None:
    plan = Plan.parse("[b]")
    texts = (
        Reference("It's red, and it's big.", plan=plan),
        Reference("Something else."),
        Reference("The 1 big house is very red."),
    )
    record = Record("1", (Triple("a", "b", "c"),), texts, "Things")
    facts = [("It 's red ,", "and it 's big ."), ("big house is", "very red ."), ("An unused text .",)]
    (got,), missing = attach_release_facts([record], facts)
    assert missing == 1
    assert got.references[0] == Reference(texts[0].text, (Fact("It's red, "), Fact("and it's big.")), plan)
    assert got.references[1] == texts[1]
    # The segmenter lost words: found by similarity.
    assert got.references[2].facts == (Fact("The 1 big house is "), Fact("very red."))
    assert (got.id, got.triples, got.category) == (record.id, record.triples, record.category)


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


def test_a_split_without_released_facts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no facts for e2e test; it has webnlg train"):
        release_facts(tmp_path, "e2e", "test")
    with pytest.raises(CorpusError, match=r"e2e_dev_tgt\.jsonl is missing; released facts cannot be downloaded"):
        release_facts(tmp_path, "e2e", "dev")
