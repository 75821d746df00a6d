"""Tokenisation with offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.facts.words import split_sentences

WORDS = ["Ann", "doesn't", "it's", "U.S.", "F.C.", "3,800.5", "O'Brien", "18R/36L", "\u00e9", "e\u0301", "\u00bd"]
MARKS = ["(", ")", '"', "'", "\u201c", "\u2019", "-", "--", "\u2014", ".", ",", "..."]
PIECES = st.sampled_from(WORDS + MARKS)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=20).map(" ".join), st.lists(PIECES, max_size=20).map("".join))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann's dog doesn't bark.", "Ann 's dog does n't bark ."),
        ("He can\u2019t; they\u2019ll see.", "He ca n\u2019t ; they \u2019ll see ."),
        ("It has 3,800.5 m and No. 5.", "It has 3,800.5 m and No . 5 ."),
        ("A.F.C. Fylde (the U.S. club)", "A.F.C. Fylde ( the U.S. club )"),
        ('the 16,000-seat "Arena"...', 'the 16,000 - seat " Arena " ...'),
        ("O'Brien and D'Angelo's", "O'Brien and D'Angelo 's"),
        ("\u00c6thelwald\u2014\u4e2d\u6587", "\u00c6thelwald \u2014 \u4e2d\u6587"),
    ],
)
def test_words_follow_treebank_tokenisation(text: str, words: str) -> None:
    sentences = split_sentences(text)
    assert [word for sentence in sentences for word in sentence.words] == words.split()
    assert [text[start:end] for sentence in sentences for start, end in sentence.spans] == words.split()


@given(text=TEXTS)
def test_every_visible_character_is_in_one_word(text: str) -> None:
    spans = [span for sentence in split_sentences(text) for span in sentence.spans]
    covered = {position for start, end in spans for position in range(start, end)}
    assert len(covered) == sum(end - start for start, end in spans)
    assert {position for position, character in enumerate(text) if not character.isspace()} <= covered
