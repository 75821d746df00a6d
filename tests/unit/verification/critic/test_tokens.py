"""The critic's inputs: words in normal form with their spans, and batches of them."""

import pytest

from agggen.verification.critic.tokens import Role, collate, predicate_words, text_words, value_words


def test_words_of_a_text_have_normal_forms_and_characters() -> None:
    text = "Zoë's pub opened on 5 May 1999, with 1,200.0 seats! It is cheap"
    forms, spans = text_words(text)
    expected = "zoe s pub opened on @1999-5-5 , with #1200 seats . it is cheap ."
    assert forms == expected.split()
    assert [text[start:end] for start, end in spans][:2] == ["Zoë", "'s"]
    assert text[slice(*spans[5])] == "5 May 1999"
    assert all(start <= end for start, end in spans)
    assert text_words("") == ([], [])


def test_a_sound_mark_without_a_letter_is_a_word() -> None:
    """Regression: its empty normal form made batches fail."""
    assert text_words("5\uff9e")[0] == ["#5", "\uff9e", "."]


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (value_words("Nord_(Year_of_No_Light_album)"), "nord year of no light album"),
        (value_words("Nord_(Year_of_No_Light_album)", qualifier=False), "nord"),
        (value_words('"Governator"'), "governator"),
        (value_words("(a)", qualifier=False), "a"),
        (value_words("!"), "!"),
        (value_words("89.0"), "#89"),
        (predicate_words("birthPlace"), "birth place"),
        (predicate_words("location/city"), "city"),
        (predicate_words("is_part_of"), "is part of"),
    ],
)
def test_words_of_values_and_predicates(actual: tuple[str, ...], words: str) -> None:
    assert actual == tuple(words.split())


def test_a_batch_names_the_part_of_each_word() -> None:
    inputs = collate([([("A b", "isIn", "C")], ["a", "b", "."]), ([("D", "x", "E"), ("D", "y", "F")], [])], {"b": 1})
    assert inputs.roles.tolist()[0] == [Role.TRIPLE, 1, 1, 2, 2, 3, 4, 4, 4, 4]
    assert inputs.words.tolist()[0] == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert inputs.triples.tolist() == [[0] * 6 + [-1] * 4, [0] * 4 + [1] * 4 + [-1] * 2]
    assert inputs.padding.tolist()[1] == [False] * 9 + [True]
    assert inputs.content.tolist()[0] == [0, 1, 1, 1, 1, 1, 0, 1, 1, 0]
    assert len(inputs.offsets) == 20
