"""Numbers, signs, units, money and dates: which texts contain the complete value."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.verification.lenient import verify
from tests.unit.verification.texts import misjudged, record, value_check, whole


@pytest.mark.parametrize(
    ("value", "complete", "incomplete"),
    [
        # --- numbers by value
        ("1234.5", ["1,234.5 people"], []),
        ("16,000", [], ["16,000,000 people"]),
        ("1.0E9", ["1,000,000,000 people"], []),
        ('"5.0"^^xsd:double', ["5 of them"], []),
        ("5.3", [], ["5.3 million people"]),
        # the border of a number
        ("12", [], ["it has 12.5 of them", "it has 12,000 of them", "the 12th of them"]),
        ("1", [], ["one of the noble gases", "no one knows which one"]),
        ("1st", ["the first period"], []),
        ("5 out of 5", [], ["3 out of 5"]),
        ("1 out of 5", ["one out of five"], []),
        ("C-130", ["the C130"], []),
        # signs
        ("-5", [], ["It is 5 degrees.", "It has 4-5 of them."]),
        ("5", ["five of them", "It has 4-5 of them."], ["It is -5 degrees."]),
        ("-3.3528", [], ["It lies 3.3528 metres high."]),
        ('"-3.3528"^^xsd:double', ["It lies at -3.3528."], []),
        ("-5 metres", ["It lies 5 metres below the sea."], ["It lies 5 metres above the sea."]),
        # --- a number has its own unit
        ("1235 K", ["It melts at 1235 K.", "It melts at 1,235 Kelvins."], ["It melts at 1235 kg."]),
        ("18.0 g", ["18g of it"], []),
        ("22.35 square metres", ["It has 22.35 sq m."], ["It has 22.35 cubic metres."]),
        # a unit in the value's remark may be omitted but not replaced
        ("22.35 (square metres)", ["It has 22.35 square metres.", "It has 22.35."], ["It has 22.35 square feet."]),
        ("4387.0 (cubicCentimetres)", ["4387 cubic centimetres of water"], ["4387 kilometres of road"]),
        ("57 (centimetres)", ["57 cm"], []),
        # money
        ("£20-25", ["at £20-£25"], ["at $20-25"]),
        ("less than £20", [], ["less than $20"]),
        ("more than £30", [], ["less than £30"]),
        ("$5", ["for 5 dollars"], ["for 5 euros"]),
        ("€5", ["for 5 euros", "5€"], []),
        # --- dates in their usual spellings
        ("1999-05-30", ["on may 30 , 1999 .", "on 30 th may , 1999 .", "on 05/30/1999"], ["in May 1999"]),
        ("1999-05-30", [], ["born in may , 30 people , 1999 ."]),
        ('"1999-05-30"^^xsd:date', ["born on 30 May 1999"], []),
        ("30 May 1999", ["born on 1999-05-30"], []),
        ("1999", ["born on 30 May 1999"], []),
        ("30", [], ["born on 30 May 1999"]),
        ("5", [], ["born on 1999-05-30"]),
        ("January, 2014", [], ["begun in January 2009"]),
        # --- seasons
        ("2014\u201315_Serie_A", ["in the 2014-15 Serie A season"], []),
        ("2014-15 Serie A", ["in the Serie A in 2014-15"], ["in the 2013-14 Serie A"]),
        ("2014-15 Serie A", [], ["It was in Serie B in 2014-15 or so. It was in Serie A before."]),
        ("2014-15", ["in 2014-2015"], []),
    ],
)
def test_numbers_units_and_dates(value: str, complete: list[str], incomplete: list[str]) -> None:
    assert misjudged(value, complete, incomplete) == []


def test_number_words_with_unusual_letters_are_mentioned() -> None:
    """Regression: KeyError, since these letters match only without regard to case."""
    assert verify(record("age = 16", "size = 15"), "Zyx, \u017fixteen, is FİFTEEN tall.").missing == ()


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_number_matches_only_itself(first: int, second: int) -> None:
    assert whole(f"{first}", f"It has {first:,} of them.")
    assert whole(f"{first:,}", f"It has {second} of them.") is (first == second)
    assert not whole(f"{first + 1}", f"It has -{first + 1} of them.")


@given(st.dates(date(1000, 1, 1)), st.dates(date(1000, 1, 1)))
def test_a_date_matches_only_itself(first: date, second: date) -> None:
    for day in (first, second):
        text = f"Born on {day.day} {day:%B} {day.year}."
        assert whole(first.isoformat(), text) is (day == first)


@pytest.mark.parametrize(
    ("value", "text", "how", "where"),
    [
        ("1235 K", "It melts at 1235 K.", "literal", "1235 K"),
        ("1235 K", "It melts at 1235 kelvin.", "literal", "1235 kelvin"),
        ("22.35 (square metres)", "It has 22.35 square metres.", "literal", "22.35 square metres"),
        ("22.35 (square metres)", "It has 22.35.", "rule", "22.35"),
        ("1999-05-30", "On 30 May 1999 it was.", "literal", "30 May 1999"),
        ("1999-05-30", "On 30/5/1999 it was.", "rule", "30/5/1999"),
        ("1235 K", "It melts at 1235.", "part", None),
        ("1235 K", "It melts.", "missing", None),
    ],
)
def test_the_kind_and_span_of_a_number(value: str, text: str, how: str, where: str | None) -> None:
    result = value_check(value, text)
    assert (result.how, result.span and text[slice(*result.span)]) == (how, where)
