"""Values of several predicates, and values that are ordinary words, are checked by their contexts."""

from __future__ import annotations

import pytest

from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from tests.unit.verification.texts import CITIES, example, record

INNS = [
    example(f"{city} {kind}", predicate, value, text.format(f"{city} {kind}", value))
    for city in CITIES
    for kind in ("Inn", "Bar", "Hall")
    for predicate, values, text in (
        ("price", ("low", "high"), "{} is a {} priced place."),
        ("rating", ("low", "poor", "high"), "{} has a {} customer rating."),
    )
    for value in values
]


@pytest.mark.parametrize(
    ("triples", "text", "misplaced"),
    [
        (["rating = high"], "Zyx is a high priced place.", {"rating"}),
        (["rating = high"], "Zyx has a high customer rating.", set()),
        (["rating = high"], "Zyx is a high priced place and has a high customer rating.", set()),
        (
            ["rating = high", "price = low"],
            "Zyx is a high priced place with a low customer rating.",
            {"rating", "price"},
        ),
        (["rating = poor"], "Zyx is a poor priced place.", set()),  # no price is poor, so it may be another wording
    ],
)
def test_a_value_in_the_context_of_another_predicate_is_misplaced(
    triples: list[str], text: str, misplaced: set[str]
) -> None:
    assert {triple.predicate for triple in Checker(learn(INNS)).check(record(*triples), text).misplaced} == misplaced


@pytest.mark.parametrize(
    ("text", "misplaced"),
    [
        ("Zyx is cheap.", ()),
        ("Zyx has a fair rating and is a priced place of 3 dollars.", ()),
        ("Zyx is a fair priced place of 3 dollars.", ("rating",)),
        ("Zyx has a fair. Priced place of 3 dollars.", ()),
        ("Zyx has a fair, priced place of 3 dollars.", ()),
        ("Zyx is a fair priced place of 3 dollars with a fair rating.", ()),
    ],
)
def test_a_value_in_a_pair_of_words_of_another_predicate_is_misplaced(text: str, misplaced: tuple[str, ...]) -> None:
    """Regression: "a low price range of less than £20" was accepted for a low customer rating."""
    priced = [
        example(f"{city} {kind}", "price", value, f"{city} {kind} is a fair priced place of {value} dollars.")
        for city in CITIES
        for kind, value in (("Inn", "1"), ("Bar", "3"), ("Hall", "5"), ("Mill", "7"))
    ]
    rated = [
        example(f"{city} {kind}", "rating", value, f"{city} {kind} has a {value} rating.")
        for city in CITIES
        for kind, value in (("Inn", "fair"), ("Bar", "poor"), ("Hall", "fair"), ("Mill", "poor"))
    ]
    lexicon = learn([*priced, *rated])
    assert lexicon.unrelated_pairs == {"rating": ("fair priced",)} == lexicon.merged(Lexicon()).unrelated_pairs
    result = Checker(lexicon).check(record("rating = fair", "price = 3"), text)
    assert tuple(triple.predicate for triple in result.misplaced) == misplaced


@pytest.mark.parametrize(
    ("triples", "text", "invented"),
    [
        (["rating = poor"], "Zyx is a high priced place with a poor customer rating.", ("high",)),
        (["rating = poor"], "Zyx has a poor customer rating and a high tower.", ()),
        (["rating = poor"], "Zyx is high. Priced alike, it has a poor customer rating.", ()),
        (["rating = poor", "price = high"], "Zyx is a high priced place with a poor customer rating.", ()),
    ],
)
def test_ordinary_words_are_invented_values_in_pairs_of_a_predicate_that_the_record_lacks(
    triples: list[str], text: str, invented: tuple[str, ...]
) -> None:
    """Regression: "a high-priced venue" was accepted for a record without a price."""
    towers = [example(f"{city} A", "height", "9", f"{city} A has a high tower of 9 m.") for city in CITIES]
    checker = Checker(learn([*INNS, *towers]))
    assert checker.check(record(*triples), text).invented == invented
