"""Slot errors: missed, added and wrong values of an E2E record."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agggen.errors import RecordError
from agggen.records import Record, Triple
from agggen.verification.e2e import Reading, slot_errors, slot_of

READINGS: tuple[Reading, ...] = ("published", "plain")


def record(*slots: tuple[str, str], name: str = "Zizzi") -> Record:
    return Record("r1", tuple(Triple(name, slot, value) for slot, value in slots))


def errors(record: Record, text: str, reading: Reading = "published") -> list[str]:
    """The slot errors of a text as ``kind slot: value / value in the text``."""
    result = slot_errors(record, text, reading)
    kinds = {"added": result.added, "missed": result.missed, "wrong": result.wrong}
    return [f"{kind} {error.slot}: {error.value} / {error.said}" for kind, found in kinds.items() for error in found]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    ("slot", "value", "phrase"),
    [
        ("eatType", "coffee shop", "a café"),
        ("food", "Fast food", "fast-food"),
        ("food", "English", "British dishes"),
        ("priceRange", "cheap", "low-priced"),
        ("priceRange", "less than £20", "under 20 pounds"),
        ("priceRange", "£20-25", "£ 20 - 25"),
        ("priceRange", "£20-25", "moderately priced"),
        ("customerRating", "5 out of 5", "highly rated"),
        ("customerRating", "3 out of 5", "three out of five stars"),
        ("area", "riverside", "by the river"),
        ("area", "city center", "in the centre of the city"),
        ("familyFriendly", "yes", "families are welcome"),
        ("familyFriendly", "no", "is n't kid friendly"),
        ("near", "Café Rouge", "near cafe rouge"),
        ("near", "Joe's Diner & Grill", "close to joe \u2019s diner & grill"),
    ],
)
def test_phrases_express_their_values(slot: str, value: str, phrase: str, reading: Reading) -> None:
    """Each phrase expresses only its value, in any letter case and position."""
    zizzi = record((slot, value))
    for text in (f"Zizzi is {phrase}.", f"{phrase} : zizzi .", f"ZIZZI, {phrase.upper()}, IS HERE"):
        assert errors(zizzi, text, reading) == [], text
    assert errors(zizzi, "Zizzi is here.", reading)[0].startswith(f"missed {slot}: ")


@pytest.mark.parametrize(
    ("slot", "value", "phrase", "published"),
    [
        ("familyFriendly", "no", "they aren't child friendly", "yes"),
        ("familyFriendly", "no", "a place for adults", None),
        ("familyFriendly", "yes", "a place for the entire family", None),
        ("priceRange", "moderate", "mid-priced", None),
        ("priceRange", "more than £30", "£30 and up", None),
        ("customerRating", "average", "moderately rated", None),
        ("customerRating", "low", "not highly rated", "high"),
        ("area", "city centre", "downtown", None),
    ],
)
def test_phrases_of_the_plain_reading_only(slot: str, value: str, phrase: str, published: str | None) -> None:
    zizzi, text = record((slot, value)), f"Zizzi: {phrase}."
    assert errors(zizzi, text, "plain") == []
    assert errors(zizzi, text) == [f"{'wrong' if published else 'missed'} {slot}: {value} / {published}"]


def test_errors_of_the_published_reading_only() -> None:
    zizzi = record(("priceRange", "high"), ("customerRating", "average"))
    text = "Zizzi has a high price range and an average customer rating."
    assert errors(zizzi, text, "plain") == []
    assert errors(zizzi, text) == ["added priceRange: None / moderate"]
    assert slot_errors(zizzi, text).added[0].phrase == "price range and an average"


TWO_TYPES = {"eatType": "pub", "eatType_2": "restaurant", "area": "riverside"}
FOUR = {"food": "Italian", "area": "riverside", "near": "Avalon", "priceRange": "cheap"}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    ("name", "slots", "text", "expected"),
    [
        # names do not express slots
        ("The Rice Boat", {"near": "Raja Indian Cuisine"}, "The Rice Boat is near Raja Indian Cuisine.", ""),
        ("Zizzi", {"near": "Café Rouge"}, "Zizzi is near Cafe Rouge.", ""),
        ("Zizzi", {"near": "The Rice Boat"}, "Zizzi is near The Rice Boat.", ""),
        ("The English Pub", {"food": "English"}, "the english pub", "missed food: English / None"),
        # another name is wrong, an absent one is missed
        ("Zizzi", {"food": "Thai"}, "Strada serves Thai food.", "wrong name: Zizzi / Strada"),
        ("Zizzi", {"food": "Thai"}, "It serves Thai food.", "missed name: Zizzi / None"),
        # several values of a slot
        ("Zizzi", TWO_TYPES, "Zizzi, a pub and restaurant by the river", ""),
        ("Zizzi", TWO_TYPES, "Zizzi, a pub by the river", "missed eatType: restaurant / None"),
        (
            *("Zizzi", TWO_TYPES, "Zizzi, a coffee shop by the river in the city centre"),
            "added area: None / city centre, missed eatType: restaurant / None, wrong eatType: pub / coffee shop",
        ),
        (
            *("Zizzi", FOUR, "Zizzi is a cheap pub with Indian food near Ranch and Burger King. It is cheap."),
            "added eatType: None / pub, added near: None / Burger King, missed area: riverside / None, "
            "wrong food: Italian / Indian, wrong near: Avalon / Ranch",
        ),
        # other numbers are not prices
        ("Zizzi", {"name": "Zizzi"}, "Zizzi opened in 2025, takes 20-25 minutes and seats over 30 people.", ""),
    ],
)
def test_slot_errors_of_a_text(name: str, slots: dict[str, str], text: str, expected: str, reading: Reading) -> None:
    assert ", ".join(errors(record(*slots.items(), name=name), text, reading)) == expected


def test_an_error_has_the_values_of_text_and_record() -> None:
    result = slot_errors(record(*FOUR.items()), "Zizzi is a cheap pub with Indian food near Avalon.")
    assert list(map(str, result.all)) == [
        "food: 'Indian' means 'Indian', the record has 'Italian'",
        "area: 'riverside' is missing",
        "eatType: 'pub' means 'pub', the record has nothing",
    ]


def test_a_vague_word_beside_an_exact_value_adds_nothing() -> None:
    text = "Zizzi has a decent rating of 5 out of 5 and reasonable prices, less than £20."
    zizzi = record(("customerRating", "5 out of 5"), ("priceRange", "less than £20"))
    assert errors(zizzi, text, "plain") == []


def test_spelling_variants_of_predicates_are_read() -> None:
    assert slot_of("customer rating") == slot_of("customer_rating") == slot_of("customerRating_2") == "customerRating"
    assert slot_of("EatType") == "eatType"
    assert slot_of("birthPlace") is None
    zizzi = record(("Customer Rating", "5 OUT OF 5"), ("price_range", "Cheap"))
    assert errors(zizzi, "Zizzi is cheap and rated 5 out of 5.") == []


def test_decomposed_accents_are_read() -> None:
    text = unicodedata.normalize("NFD", "Zizzi is near Café Rouge, a pub.")
    result = slot_errors(record(("near", "Café Rouge")), text)
    (error,) = result.all
    assert error.span and unicodedata.normalize("NFC", text)[slice(*error.span)] == error.said == "pub"


@given(st.text(max_size=80), st.sampled_from(READINGS))
@example("Zizzi is a cheap pub with Indian food near Ranch. It is by the river.", "plain")
def test_counts_and_spans_are_consistent_for_any_text(text: str, reading: Reading) -> None:
    zizzi = record(("food", "Italian"), ("area", "riverside"), ("familyFriendly", "no"))
    result = slot_errors(zizzi, text, reading)
    assert len(result.missed) + len(result.wrong) <= result.slots == 4
    normal = unicodedata.normalize("NFC", text)
    assert all(error.span and normal[slice(*error.span)] == error.phrase for error in (*result.added, *result.wrong))


def test_other_predicates_are_refused() -> None:
    message = "record 'r1': 'birthPlace' is not a slot of E2E; its slots are name, eatType"
    with pytest.raises(RecordError, match=message):
        slot_errors(record(("birthPlace", "Rome")), "Zizzi")
