"""Values that several predicates have, and values that are ordinary words: what the words beside them say."""

from __future__ import annotations

import pytest

from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from tests.unit.verification.texts import CITIES, record, told

INNS = [
    told(f"{city} {kind}", predicate, value, text.format(f"{city} {kind}", value))
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
def test_a_value_of_several_predicates_stands_where_its_own_predicate_has_it(
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
def test_a_value_is_not_said_by_words_that_speak_of_another_predicate(text: str, misplaced: tuple[str, ...]) -> None:
    """Once true by the check: "a low price range of less than £20" for a low customer rating."""
    dear = [
        told(f"{city} {kind}", "price", value, f"{city} {kind} is a fair priced place of {value} dollars.")
        for city in CITIES
        for kind, value in (("Inn", "1"), ("Bar", "3"), ("Hall", "5"), ("Mill", "7"))
    ]
    rated = [
        told(f"{city} {kind}", "rating", value, f"{city} {kind} has a {value} rating.")
        for city in CITIES
        for kind, value in (("Inn", "fair"), ("Bar", "poor"), ("Hall", "fair"), ("Mill", "poor"))
    ]
    lexicon = learn([*dear, *rated])
    assert lexicon.unrelated_pairs == {"rating": ("fair priced",)} == lexicon.merged(Lexicon()).unrelated_pairs
    given = record("rating = fair", "price = 3")
    assert tuple(triple.predicate for triple in Checker(lexicon).check(given, text).misplaced) == misplaced


@pytest.mark.parametrize(
    ("triples", "text", "invented"),
    [
        (["rating = poor"], "Zyx is a high priced place with a poor customer rating.", ("high",)),
        (["rating = poor"], "Zyx has a poor customer rating and a high tower.", ()),
        (["rating = poor"], "Zyx is high. Priced alike, it has a poor customer rating.", ()),
        (["rating = poor", "price = high"], "Zyx is a high priced place with a poor customer rating.", ()),
    ],
)
def test_values_of_ordinary_words_are_invented_beside_words_that_go_with_the_value(
    triples: list[str], text: str, invented: tuple[str, ...]
) -> None:
    """Once true by the check: "a high-priced venue" of a record that has no price."""
    towers = [told(f"{city} A", "height", "9", f"{city} A has a high tower of 9 m.") for city in CITIES]
    checker = Checker(learn([*INNS, *towers]))
    assert checker.check(record(*triples), text).invented == invented
