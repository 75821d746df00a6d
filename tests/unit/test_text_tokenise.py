"""Tokenisation: exact tokens, offsets, normalised spacing."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.text import JOINER, detokenise, detokenise_with_offsets, tokenise

AWKWARD = st.text(
    st.sampled_from("ab1.,;:-'\u2019\"()[]%nts \t\n\u00a0\u200b￭▁@_é\u0301ß😀👩\u200d🇩2e0£")
    | st.characters(exclude_categories=["Cs"]),
    max_size=40,
)


def tokens_of(text: str) -> list[str]:
    return [token.text for token in tokenise(text)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("(Ohio's) 16,000-seat hall.", "(￭ Ohio ￭'s ￭) 16,000 ￭-￭ seat hall ￭."),
        ("It costs £3.50, they're told.", "It costs £￭ 3.50 ￭, they ￭'re told ￭."),
        ("They don't; CAN\u2019T!", "They do ￭n't ￭; CA ￭N\u2019T ￭!"),
        ("5.2e3 on 2006-12-31", "5.2e3 on 2006 ￭-￭ 12 ￭-￭ 31"),
        ('said "Ajo blanco".', 'said "￭ Ajo blanco ￭" ￭.'),
        ("U.S. 3.5kg 1990s", "U ￭.￭ S ￭. 3.5 ￭kg 1990s"),
        ("I\u0307stanbul", "I\u0307stanbul"),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert tokens_of(text) == tokens.split(" ")


@given(AWKWARD)
def test_offsets_are_the_spans_of_the_tokens(text: str) -> None:
    previous = 0
    for token in tokenise(text):
        assert previous <= token.start < token.end <= len(text)
        previous = token.end
        assert text[token.start : token.end] == token.text.strip(JOINER)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("Arion , otherwise known", "Arion, otherwise known"),
        ("dish,which is ;hot", "dish, which is; hot"),
        ("AS Roma 's ground ( in Rome )", "AS Roma's ground (in Rome)"),
        ("  two  spaces\n\nhere ", "two spaces here"),
        ("is it so ? 5 % of it .", "is it so? 5% of it."),
        ('the " Ajo blanco " dish', 'the " Ajo blanco " dish'),
        ("a￭b", "a b"),
        (" \n", ""),
    ],
)
def test_normalised_spacing(text: str, normalised: str) -> None:
    assert detokenise(tokens_of(text)) == normalised


@given(AWKWARD)
def test_tokens_have_every_visible_character_and_a_normalised_text(text: str) -> None:
    tokens = tokens_of(text)
    visible = "".join(char for char in text if not char.isspace() and char != JOINER)
    assert "".join(token.strip(JOINER) for token in tokens) == visible
    once, spans = detokenise_with_offsets(tokens)
    assert detokenise_with_offsets(tokens_of(once)) == (once, spans)
    assert spans == [(token.start, token.end) for token in tokenise(once)]


@given(st.lists(st.sampled_from(["a", "￭", "￭a", "a￭", "￭￭￭", ""])))
def test_any_token_sequence_has_a_text_and_spans(tokens: list[str]) -> None:
    text, spans = detokenise_with_offsets(tokens)
    assert len(spans) == len(tokens)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


@settings(deadline=None)
@given(st.sampled_from(["20-" * 100_000, "1" * 300_000, "n" * 300_000, " " * 300_000, "1." * 150_000, "'" * 300_000]))
def test_time_is_linear_in_the_length(text: str) -> None:
    began = time.process_time()
    assert detokenise(tokens_of(text)) == text.strip()
    assert time.process_time() - began < 20
