"""Facts cut by someone else: boundaries carried to raw texts, and the released files as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.corpora.rejects import split_rejects
from agggen.corpora.segmented import attach_facts, attach_release_facts, read_segmented, release_facts
from agggen.errors import CorpusError
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


def pair(tmp_path: Path, source: str, target: str) -> tuple[Path, Path]:
    (tmp_path / "src").write_text(source, encoding="utf-8")
    (tmp_path / "tgt").write_text(target, encoding="utf-8")
    return tmp_path / "src", tmp_path / "tgt"


def test_the_released_form_is_read_with_its_alignment(tmp_path: Path) -> None:
    source = "The League league Old league\tThe League part A B\tThe League part C\tleague|part|part_2\n" * 2
    target = "(S)\tpart&&part_2||league\tIn A B and C .\tindeed\tit plays .\n(S)\t\tHello .\n"
    records, rejects = split_rejects(read_segmented(*pair(tmp_path, source, target), "toy", "dev"))
    assert rejects == []
    (record,) = records
    assert record.id == "toy-dev-00001"
    assert record.triples == (
        Triple("The League", "league", "Old league"),
        Triple("The League", "part", "A B"),
        Triple("The League", "part", "C"),
    )
    assert record.references[0].facts == (
        Fact("In A B and C . ", ("part", "part_2")),
        Fact("indeed ", ()),
        Fact("it plays .", ("league",)),
    )
    assert record.references[1].facts == (Fact("Hello .", ()),)


def test_bad_rows_are_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    source = "a b c\tb\na b c\tb\nx y\ty\na b c\td\tb\nq r s\tr\n"
    target = "t\tb|b\tone .\nt\tb\tone .\nt\ty\tone .\nt\tb\tone .\nt\tr\n"
    records, rejects = split_rejects(read_segmented(*pair(tmp_path, source, target), "toy", "dev"))
    assert [(record.id, len(record.references)) for record in records] == [("toy-dev-00001", 1), ("toy-dev-00004", 0)]
    assert [reject.line for reject in rejects] == [1, 3, 4, 5]
    assert "2 groups for 1 facts" in rejects[0].reason
    assert "does not hold 'y'" in rejects[1].reason
    assert "2 triples but 1 relations" in rejects[2].reason
    assert "at least one fact" in rejects[3].reason


def test_files_of_different_length_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"src has 1 lines, .*tgt has 2"):
        list(read_segmented(*pair(tmp_path, "a b c\tb\n", "t\tb\tx\nt\tb\ty\n"), "toy", "dev"))


def test_a_split_without_released_facts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no facts for e2e test; it has webnlg train"):
        release_facts(tmp_path, "e2e", "test")
    with pytest.raises(CorpusError, match=r"e2e_dev_tgt\.jsonl is missing; the released facts are not fetched"):
        release_facts(tmp_path, "e2e", "dev")
