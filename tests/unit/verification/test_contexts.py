"""Values of several predicates, and values that are ordinary words, are checked by their contexts."""

from __future__ import annotations

import pytest

from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.results import TextCheck
from tests.unit.verification.texts import CITIES, example, record


def inns(predicate: str, text: str, *values: str) -> list[Record]:
    """For each city and value a record of one triple; `text` has placeholders for subject and value."""
    names = [(f"{city} {kind}", value) for city in CITIES for kind in ("Inn", "Bar", "Hall") for value in values]
    return [example(name, predicate, value, text.format(name, value)) for name, value in names]


INNS = [
    *inns("price", "{} is a {} priced place.", "low", "high"),
    *inns("rating", "{} has a {} customer rating.", "low", "poor", "high"),
    *(example(f"{city} A", "height", "9", f"{city} A has a high tower of 9 m.") for city in CITIES),
]
LEXICON = learn(INNS)


def check(lexicon: Lexicon, triples: str, text: str) -> TextCheck:
    return Checker(lexicon).check(record(*triples.split("; ")), text)


@pytest.mark.parametrize(
    ("triples", "text", "misplaced"),
    [
        ("rating = high", "Zyx is a high priced place.", ["rating"]),
        ("rating = high", "Zyx has a high customer rating.", []),
        ("rating = high", "Zyx is a high priced place and has a high customer rating.", []),
        ("rating = high; price = low", "A high priced place, Zyx has a low customer rating.", ["rating", "price"]),
        ("rating = poor", "Zyx is a poor priced place.", []),  # no price is poor, so it may be another wording
    ],
)
def test_a_value_in_the_context_of_another_predicate_is_misplaced(
    triples: str, text: str, misplaced: list[str]
) -> None:
    assert [triple.predicate for triple in check(LEXICON, triples, text).misplaced] == misplaced


@pytest.mark.parametrize(
    ("text", "misplaced"),
    [
        ("Zyx is cheap.", []),
        ("Zyx has a fair rating and is a priced place of 3 dollars.", []),
        ("Zyx is a fair priced place of 3 dollars.", ["rating"]),
        ("Zyx has a fair. Priced place of 3 dollars.", []),
        ("Zyx has a fair, priced place of 3 dollars.", []),
        ("Zyx is a fair priced place of 3 dollars with a fair rating.", []),
    ],
)
def test_a_value_in_a_pair_of_words_of_another_predicate_is_misplaced(text: str, misplaced: list[str]) -> None:
    """Regression: "a low price range of less than £20" was accepted for a low customer rating."""
    priced = inns("price", "{} is a fair priced place of {} dollars.", "1", "3", "5")
    lexicon = learn([*priced, *inns("rating", "{} has a {} rating.", "fair", "poor")])
    assert lexicon.unrelated_pairs == {"rating": ("fair priced",)} == lexicon.merged(Lexicon()).unrelated_pairs
    assert [triple.predicate for triple in check(lexicon, "rating = fair; price = 3", text).misplaced] == misplaced


@pytest.mark.parametrize(
    ("triples", "text", "invented"),
    [
        ("rating = poor", "Zyx is a high priced place with a poor customer rating.", ("high",)),
        ("rating = poor", "Zyx has a poor customer rating and a high tower.", ()),
        ("rating = poor", "Zyx is high. Priced alike, it has a poor customer rating.", ()),
        ("rating = poor; price = high", "Zyx is a high priced place with a poor customer rating.", ()),
    ],
)
def test_ordinary_words_are_invented_values_in_pairs_of_a_predicate_that_the_record_lacks(
    triples: str, text: str, invented: tuple[str, ...]
) -> None:
    """Regression: "a high-priced venue" was accepted for a record without a price."""
    assert check(LEXICON, triples, text).invented == invented
