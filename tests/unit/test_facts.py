"""Segmentation into clauses and sentences; facts concatenate to the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import AggGenError
from agggen.facts import check_facts, cut
from agggen.facts.config import segmenter

PIECES = (
    "Bolt who is and was written by J. R. R. Tolkien , it It serves food; but while which has near U.S. 3.5 . ! \n \t "
    "« » The they that located in serving - \u00a0 \u2003 Ünï"
)
NAMES = ("embedded", "clauses", "sentences")  # the segmenters that need nothing
WORDS = st.sampled_from(PIECES.split(" "))


@pytest.mark.parametrize("name", NAMES)
@given(text=st.one_of(st.text(), st.lists(WORDS, max_size=30).map(" ".join)))
def test_facts_concatenate_to_the_text(name: str, text: str) -> None:
    (facts,) = segmenter(name).segment([text])
    assert "".join(facts) == (text if text.strip() else "")
    assert all(fact.strip() for fact in facts)
    assert bool(facts) == bool(text.strip())


@given(text=st.text(), starts=st.lists(st.integers(0, 40)))
def test_whitespace_at_a_boundary_belongs_to_the_fact_before_it(text: str, starts: list[int]) -> None:
    facts = cut(text, [start for start in starts if start <= len(text)])
    assert "".join(facts) == (text if text.strip() else "")
    assert not any(fact[0].isspace() for fact in facts[1:])


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("J. R. R. Tolkien wrote it. He died.", ["J. R. R. Tolkien wrote it. ", "He died."]),
        ("Dr. Who met Mr. Bean. Fine!", ["Dr. Who met Mr. Bean. ", "Fine!"]),
        (
            "The U.S. Navy sails. It is in the U.S. It floats.",
            ["The U.S. Navy sails. ", "It is in the U.S. ", "It floats."],
        ),
        ("It is 3.5 m long. 20 people fit.", ["It is 3.5 m long. ", "20 people fit."]),
        ('He said "No." Then he left.', ['He said "No." ', "Then he left."]),
        ("Opened in 1990.It has a bar.", ["Opened in 1990.", "It has a bar."]),
        ("St. Louis is in the U.S., e.g. near water.", ["St. Louis is in the U.S., e.g. near water."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert segmenter("sentences").segment([text]) == [tuple(sentences)]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        (
            "The Fig is a pub near Café Rouge that serves Thai food and it has a low rating, but kids aren't welcome.",
            [
                "The Fig is a pub near Café Rouge ",
                "that serves Thai food ",
                "and it has a low rating, ",
                "but kids aren't welcome.",
            ],
        ),
        (
            "Bolt, who was drawn by Ann Roe, is a comic character and was published in 1990; its editor is Jo Poe.",
            [
                "Bolt, who was drawn by Ann Roe, ",
                "is a comic character ",
                "and was published in 1990; ",
                "its editor is Jo Poe.",
            ],
        ),
        ("The Fig serves fish and chips.", ["The Fig serves fish and chips."]),
        ("Salt and water are ingredients of bread.", ["Salt and water are ingredients of bread."]),
        (
            "The Fig is a pub located in the city centre. It is family friendly.",
            ["The Fig is a pub ", "located in the city centre. ", "It is family friendly."],
        ),
        ("The fan sold No. 5. Then he left.", ["The fan sold No. 5. ", "Then he left."]),
        ("The town, in which Ann was born, is big.", ["The town, in which Ann was born, ", "is big."]),
    ],
)
def test_clauses(text: str, clauses: list[str]) -> None:
    assert segmenter("clauses").segment([text]) == [tuple(clauses)]


@pytest.mark.parametrize(
    ("text", "facts", "message"),
    [
        ("a b", ["a", "b"], "do not concatenate"),
        ("a b", ["a b", ""], "fact 2 .* is blank"),
        ("a b", [], "at least one"),
        (" ", [" "], "blank text has no facts"),
    ],
)
def test_invalid_segmentations_are_refused(text: str, facts: list[str], message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        check_facts(text, facts)
