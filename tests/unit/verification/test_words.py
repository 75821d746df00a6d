"""The words of a text: their offsets and normal forms."""

import unicodedata
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agggen.verification.normal import MONTHS, letters, words
from agggen.verification.values import TextIndex

PIECES = (
    *"abcdeimnorstyACIKNOSUÄéøßŁ\u0301\u0308 0123456789   .,-\u2013\u2212/()'\u2019\"&%+:;!?£\u00b2\u2082\n",
    *(" the", " The", " a ", "An ", " five", " minus ", " -7", "1,234.50", "1st", " third ", " million", " per cent"),
    *(" km", " kelvin", " square ", "metres", " degrees ", " K ", "30 May 1999", "1999-05-30", " May ", "30.5.1999"),
    *("'s ", "1e50", " Ann", "Jöns", "U.S.", " A.C. Milan", "water-forming", "H\u2082O", "5 km\u00b2", "twenty five"),
)
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)
SUBSCRIPTS = {0x2080 + digit: str(digit) for digit in range(10)}
LATIN = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyzàáâãäåçèéêëìíñòóôõöøúüýžščǿłđ"), min_size=3, max_size=9)
DATES = st.dates(date(1000, 1, 1), date(2999, 12, 31))


def forms(text: str) -> list[str]:
    return [word.form for word in words(text)]


def without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


# --- offsets -------------------------------------------------------------------------------------------------------


@given(TEXTS | st.text(), st.booleans(), st.booleans())
def test_words_have_increasing_offsets(text: str, initial: bool, dates: bool) -> None:
    position = 0
    for word in words(text, initial, dates):
        assert position <= word.start < word.end <= len(text)
        assert word.form
        if not any(char.isspace() for char in word.raw):
            assert text[word.start : word.end].translate(SUBSCRIPTS) == word.raw
        position = word.end


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_words_within_spans_are_covered(text: str, spans: list[tuple[int, int]]) -> None:
    index = TextIndex(text)
    expected = [
        any(start <= word.start and word.end <= end for start, end in spans) for word in index.dates_joined.words
    ]
    assert index.covered(spans) == expected


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("In 1863 it was found.", ["In"]),
        ("It was found. In 1863, at last.", ["It", "In"]),
        ('It was found. "In 1863!" It was.', ["It", "In", "It"]),
        ("It melts, At last", ["It"]),
    ],
)
def test_initial_words_of_sentences(text: str, opening: list[str]) -> None:
    assert [word.raw for word in words(text) if word.initial] == opening


# --- accents and Unicode forms -----------------------------------------------------------------------------------


@example(["tw\u00f2"])  # decomposed, it was once the number two
@given(st.lists(LATIN, max_size=6))
def test_accents_and_unicode_forms_do_not_change_words(expected: list[str]) -> None:
    text = " ".join(expected)
    assert forms(unicodedata.normalize("NFC", text)) == forms(unicodedata.normalize("NFD", text)) == forms(text)
    assume(all(word.kind == "word" for word in words(without_accents(text))))  # "tw\u00f2" is no number, "two" is
    assert forms(without_accents(text)) == forms(text)
    assert forms(text.replace("ø", "o").replace("ł", "l").replace("đ", "d").replace("ǿ", "o")) == forms(text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("\uff11\uff12", "12"),
        ("H\u2082O", "H2O"),
        ("\u212bngstr\u00f6m", "angstrom"),
        ("\u01ff", "o\u0338\u0301"),
        ("İstanbul", "istanbul"),
        ("Ελλάδα", "ΕΛΛΑΔΑ"),
        # Regression: KeyError or ValueError for letters that match only case-insensitively
        ("17 Augu\u017ft 1752, \u017fix-\u017fided", "17 August 1752, six-sided"),
        ("F\u0130VE-star, f\u0131ve-star", "five-star, five-star"),
        ("\u0663rd and \u0664th", "3rd and 4th"),
    ],
)
def test_equivalent_characters_have_one_normal_form(first: str, second: str) -> None:
    assert letters(words(first), 0) == letters(words(second), 0)


# --- numbers -------------------------------------------------------------------------------------------------------


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**12, places=6))
def test_numbers_are_compared_by_value(number: Decimal) -> None:
    spellings = [f"{number:f}", f"{number:,f}", f"{number:f}000", f"{number:e}"]
    assert len({tuple(forms(text)) for text in spellings}) == 1
    assert Decimal(forms(spellings[0])[0]) == number
    (negative,) = forms(f"-{number:f}")
    assert forms(f"\u2212{number:,f}") == forms(f"minus {number:f}") == forms(f"Negative {number:f}") == [negative]
    assert Decimal(negative) == -number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5.3 million", ["5300000"]),
        ("1e50 million", ["1" + 56 * "0"]),
        ("1e99999999999999999999 of them", ["1", "e", 20 * "9", "of", "them"]),
        ("-12345678901234567890123456789012345", ["-12345678901234567890123456789012345"]),
        ("twenty five", ["25"]),
        ("-0", ["0"]),
        ("1999-13-45, 45.13.1999", ["1999", "13", "45", "45", "13", "1999"]),  # no dates
        ("2010\u201315", ["2010", "15"]),
        ("(-3)", ["-3"]),
        ("1st, 2nd and third", ["1th", "2th", "and", "3th"]),
        (5000 * "1" + "st", [5000 * "1" + "th"]),  # Regression: ValueError
        ("1,234,56", ["1", "234", "56"]),
        ("300 K and 300 kelvin", ["300", "K", "and", "300", "K"]),
        ("5 km\u00b2, 5 square kilometres, 5 sq km", 3 * ["5", "km2"]),
        ("10%, ten percent, 10 per cent", 3 * ["10", "%"]),
        ("20 degrees Celsius", ["20", "C"]),
        ("20 degrees north, 5 degrees.", ["20", "degrees", "north", "5", "degrees"]),
        ("a K in it", ["a", "k", "in", "it"]),
    ],
)
def test_numbers_and_their_units(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


# --- dates -----------------------------------------------------------------------------------------------------------


@given(DATES)
def test_a_date_is_one_word_in_every_usual_spelling_or_three_separate_words(day: date) -> None:
    month, suffix = MONTHS[day.month - 1].capitalize(), {1: "st", 2: "nd", 3: "rd"}.get(day.day, "th")
    spellings = [
        day.isoformat(),
        f"{day:%Y/%m/%d}",
        f"{day.day}.{day.month}.{day.year}",
        f"{day.day} {month} {day.year}",
        f"the {day.day}{suffix} of {month}, {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{month[:3]}. {day.day}{suffix} {day.year}",
        f"{month.upper()} {day.day} in {day.year}",
    ]
    result = {word.form for text in spellings for word in words(text) if word.kind != "word"}
    assert result == {f"{day.year}-{day.month}-{day.day}"}
    for text in spellings[:5]:
        apart = {word.form for word in words(text, dates=False)} - {"the", "of"}
        assert apart == {str(day.day), str(day.year), MONTHS[day.month - 1] if month in text else str(day.month)}
