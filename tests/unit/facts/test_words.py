"""Words with offsets: they cover the text, and the words of other tokenisers are located in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import AggGenError
from agggen.facts.words import align_words, split_sentences, split_words

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
def test_words_are_cut_like_a_treebank_does(text: str, words: str) -> None:
    result = split_words(text)
    assert list(result.words) == words.split()
    assert [text[start:end] for start, end in result.spans] == words.split()


@given(text=TEXTS)
def test_every_visible_character_is_in_one_word(text: str) -> None:
    spans = [span for sentence in split_sentences(text) for span in sentence.spans]
    covered = {place for start, end in spans for place in range(start, end)}
    assert len(covered) == sum(end - start for start, end in spans)
    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered


@given(text=st.lists(PIECES, max_size=20).map(" ".join))
def test_split_words_are_aligned_to_their_offsets(text: str) -> None:
    sentences = split_sentences(text)
    assert align_words(text, [sentence.words for sentence in sentences], "t") == sentences


@pytest.mark.parametrize(
    ("text", "words", "pieces"),
    [
        ("Bolt (1990) won.", "Bolt -LRB- 1990 -RRB- won .", ["Bolt", "(", "1990", ")", "won", "."]),
        ('He said "no".', "He said `` no '' .", ["He", "said", '"', "no", '"', "."]),
        ("He said ``no''.", 'He said " no " .', ["He", "said", "``", "no", "''", "."]),
        (
            "\u201cNo\u201d \u2014 Ann\u2019s",
            '" No " -- Ann \'s',
            ["\u201c", "No", "\u201d", "\u2014", "Ann", "\u2019s"],
        ),
        ("either\u2013or", "either - or", ["either", "\u2013", "or"]),
        ("18R/36L", "18R\\/36L", ["18R/36L"]),
        ("a , b", "a, b", ["a ,", "b"]),
        ("wait\u2026 ok", "wait ... ok", ["wait", "\u2026", "ok"]),
        ("cafe\u0301 x", "caf\u00e9 x", ["cafe\u0301", "x"]),
        ("CAF\u00c9\u00a0X", "caf\u00e9 x", ["CAF\u00c9", "X"]),
        ("zero\u200bwidth \ufeffmark", "zerowidth mark", ["zero\u200bwidth", "mark"]),
        ("the -LRB- token", "the -LRB- token", ["the", "-LRB-", "token"]),
    ],
)
def test_words_that_a_tokeniser_changed_are_aligned(text: str, words: str, pieces: list[str]) -> None:
    (result,) = align_words(text, [words.split()], "t")
    assert result.words == tuple(words.split())
    assert [text[start:end] for start, end in result.spans] == pieces


def test_offsets_are_those_of_the_whole_text() -> None:
    text = "  It ends.  It starts. "
    first, second = align_words(text, [["It", "ends", "."], ["It", "starts", "."]], "t")
    assert text[first.spans[0][0] : first.spans[-1][1]] == "It ends."
    assert text[second.spans[0][0] : second.spans[-1][1]] == "It starts."


@pytest.mark.parametrize(
    ("text", "sentences", "message"),
    [
        ("Ann sings.", [["Ann"], ["sang", "."]], "line 7: the word 'sang' of sentence 2 .* 'sings.'"),
        ("Ann sings.", [["Ann", "sings"]], r"line 7: the words end before the text, .* '\.'"),
        ("Ann", [["Ann", "sings"]], "line 7: the word 'sings' of sentence 1 .* ''"),
        ("Ann", [["Ann", ""]], "line 7: the word ''"),
        ("1\u00bd m", [["11", "\u20442", "m"]], "line 7: the word '11'"),
        ("", [["Ann"]], "line 7: the word 'Ann'"),
    ],
)
def test_words_of_another_text_are_refused(text: str, sentences: list[list[str]], message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        align_words(text, sentences, "line 7")
