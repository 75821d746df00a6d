"""Faults other than incomplete values: invented, repeated, swapped, misplaced values, values of other facts."""

import pytest

from agggen.records import Record
from agggen.verification.check import Checker, passes
from agggen.verification.lexicon import Lexicon
from agggen.verification.results import TextCheck
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import PLAIN, record

RF = record(
    "group = 4",
    "period = 7",
    "symbol = Rf",
    "namedAfter = Ernest Rutherford",
    "discoveryPlace = Soviet Union",
    "stateAtRoomTemperature = solid",
    "meltingPoint = 2400 K",
    "discoveryYear = 1964",
    subject="Rutherfordium",
)
GROUP, PERIOD, SYMBOL, NAMED, PLACE, STATE, MELTS, YEAR = range(8)


@pytest.fixture(params=["without a lexicon", "with the shipped corpus'"])
def checker(request: pytest.FixtureRequest, elements: Learned) -> Checker:
    return PLAIN if request.param == "without a lexicon" else elements[0]


# --- invented --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "invented"),
    [
        ("It melts at 2400 K and boils at 5800 K.", ["5800"]),
        ("It melts at -2400 K.", ["-2400"]),
        ("It is the 2nd of group 4.", ["2nd"]),
        ("It was found by Marie Curie in 1964.", ["Marie", "Curie"]),
        ("It has the symbol Rg.", ["Rg"]),
        ("It was found on 3 May 1964.", ["3 May 1964"]),
        ("It was found in 1964, 1965 and 1965.", ["1965"]),
        # forms of the record's own words
        ("It was found in 1964 in the Soviet Union. The Soviets found it.", []),
        ("Named after Rutherford, it is a SOLID.", []),
        ("Group 4, Period 7: Rutherfordium's places.", []),
        ("Two people saw it melt.", []),
        # words that open a sentence
        ("Furthermore, rutherfordium is a solid. In 1964 it was found. It is a solid. The symbol is Rf.", []),
    ],
)
def test_numbers_and_names_that_the_record_lacks_are_invented(checker: Checker, text: str, invented: list[str]) -> None:
    assert list(checker.check(RF, text).invented) == invented


FAMILY = {"yes": ("family friendly",), "no": ("not family friendly",)}
ORDERED = {truth: (f"{truth}ish",) for truth in ("yes", "true", "no", "false")}
FAA = Lexicon(wordings={"icao location": ("faa",)}, booleans={"family": FAMILY, "friendly": ORDERED})


@pytest.mark.parametrize(
    ("lexicon", "triples", "text", "invented"),
    [
        # words of a predicate's own wording
        (Lexicon(), ["icao location = UTAA"], "Its ICAO code is UTAA.", ()),
        (Lexicon(), ["icao location = UTAA"], "Its FAA code is UTAA.", ("FAA",)),
        (FAA, ["icao location = UTAA"], "Its FAA code is UTAA.", ()),
        # truth values that the record does not have
        (FAA, ["eatType = pub"], "Zyx is a pub.", ()),
        (FAA, ["eatType = pub"], "Zyx is a family-friendly pub.", ("family-friendly",)),
        (FAA, ["eatType = pub", "family = yes"], "Zyx is a family-friendly pub.", ()),
        (FAA, ["eatType = pub", "family = yes"], "Zyx is a pub, not family-friendly.", ("family-friendly",)),
        # Regression: the order depended on the hash seed of the process
        (FAA, ["eatType = pub"], "Zyx: falseish, noish, trueish, yesish.", ("yesish", "trueish", "noish", "falseish")),
        # names that open a sentence and value words, without and with a lexicon
        (Lexicon(), ["period = 7"], "Zyx, a noble gas, is in period 7. Berlin saw it first.", ()),
        (None, ["period = 7"], "Zyx, a noble gas, is in period 7. Berlin saw it first.", ("noble", "gas", "Berlin")),
        (None, ["period = 7"], "Located in period 7, it is the Zyx.", ()),
    ],
)
def test_the_lexicon_decides_which_words_are_invented(
    lexicon: Lexicon | None, triples: list[str], text: str, invented: tuple[str, ...], elements: Learned
) -> None:
    checker = elements[0] if lexicon is None else Checker(lexicon)
    assert checker.check(record(*triples), text).invented == invented


# --- of another fact -------------------------------------------------------------------------------------------------

MENU = record("food = raisin", "country = Mexico", "size = 3 m", "kind = dessert", "like = Mexico City")
CREW = record("school = Ulm College, M.S. 1963", "chosen by NASA = 1963", "employer = NASA")


@pytest.mark.parametrize(
    ("item", "own", "text", "elsewhere"),
    [
        (RF, [GROUP], "Rutherfordium is in group 7.", ("7",)),
        (RF, [GROUP], "Rutherfordium, symbol Rf, is in group 4.", ("Rf",)),
        (RF, [YEAR], "It was found in 1964 in the Soviet Union.", ("Soviet", "Union")),
        (RF, [SYMBOL], "Named after Ernest Rutherford, it has the symbol Rf.", ("Ernest",)),
        (RF, [], "It is in group 4.", ("4",)),
        (MENU, [0], "Zyx has raisin and Mexico.", ("Mexico",)),
        (MENU, [0], "Zyx has raisin and 3 m.", ("3",)),
        (MENU, [0, 4], "Zyx has raisin of Mexico City.", ()),
        (MENU, [0, 1], "Zyx has raisin and Mexico.", ()),
        # words of the fact's own predicates and values
        (CREW, [0], "Zyx has an M.S. of 1963 from Ulm College.", ()),
        (CREW, [1], "Zyx was chosen by NASA in 1963.", ()),
        (CREW, [0], "Zyx of NASA has an M.S. of 1963 from Ulm College.", ("NASA",)),
        (CREW, [2], "Zyx works for NASA since 1963.", ("1963",)),
    ],
)
def test_words_that_only_other_triples_have_belong_to_another_fact(
    checker: Checker, item: Record, own: list[int], text: str, elsewhere: tuple[str, ...]
) -> None:
    result = checker.check(item, text, own, subjects=())
    assert (result.elsewhere, result.invented) == (elsewhere, ())
    assert [value.triple for value in result.values] == [item.triples[index] for index in own]


def test_ordinary_words_of_a_lexicon_may_be_a_name_of_another_fact() -> None:
    ordinary = Checker(Lexicon(lower=frozenset(("mexico", "city"))))
    assert ordinary.check(MENU, "Zyx has raisin and Mexico.", [0]).elsewhere == ("Mexico",)
    assert ordinary.check(MENU, "Zyx, a dessert, has raisin of Mexico City.", [0, 4]).elsewhere == ()


# --- repeated --------------------------------------------------------------------------------------------------------

TWICE = record("by = Duran Duran", "city = New York", "state = York", "publisher = Faber and Faber")


@pytest.mark.parametrize(
    ("item", "text", "repeated"),
    [
        (RF, "It is is a solid.", ["is is"]),
        (RF, "It is a solid a solid.", ["a solid a solid"]),
        (RF, "It was found in 1964 in 1964.", ["in 1964 in 1964"]),
        (RF, "It is in the soviet union, the Soviet Union.", ["the soviet union the Soviet Union"]),
        (RF, "It is of Ernest Rutherford, Ernest Rutherford.", ["Ernest Rutherford Ernest Rutherford"]),
        (RF, "It is a solid. A solid it is.", []),
        (RF, "It is a solid and a solid.", []),
        # in a name, and between two values
        (TWICE, "Zyx is by Duran Duran of New York, York.", []),
        (TWICE, "Zyx is in in New York, York.", ["in in"]),
        (TWICE, "Zyx is by Faber and Faber and known.", []),
        (TWICE, "Zyx is by Faber and Faber and and known.", ["and and"]),
        (record("album = In Rainbows"), "Zyx is heard in In Rainbows.", []),
        (record("album = In Rainbows"), "Zyx is heard in in In Rainbows.", ["in in"]),
        # a name beside one of its own words
        (record("by = William Anders"), "Zyx is by Anders William Anders.", ["Anders William Anders"]),
        (record("by = William Anders"), "Zyx is by William Anders. Anders is known.", []),
        (record("on = 1969-09-01"), "Zyx is on 1 September 1969 1969.", ["1 September 1969 1969"]),
        (record("on = 1969-09-01"), "Zyx is on September 1 September 1969.", ["September 1 September 1969"]),
        (record("at = 1/19"), "Zyx is at 1/19/19.", ["1/19/19"]),
    ],
)
def test_words_that_occur_twice_in_a_row_are_repeated(
    checker: Checker, item: Record, text: str, repeated: list[str]
) -> None:
    assert list(checker.check(item, text).repeated) == repeated


LIST = record("by = Ann Lee, Bob Ray and Eve Orr")
INCOMPLETE = "'Ann Lee, Bob Ray and Eve Orr' (by) is incomplete"
ICE = record("of = sponge cake and ice cream")
PLACES = record("born = Oslo", "died = Oslo")


@pytest.mark.parametrize(
    ("item", "own", "text", "faults"),
    [
        (RF, [STATE], "It is a solid and a solid.", ["'solid' is repeated"]),
        (RF, [SYMBOL], "Its symbol is Rf; so Rf stands for it.", ["'Rf' is repeated"]),
        (RF, [GROUP], "It is in group 4 of period 4.", ["'4' is repeated"]),
        # once for each triple, and within a name
        (PLACES, [0, 1], "Born in Oslo, she died in Oslo.", []),
        (PLACES, [0, 1], "Born in Oslo, Oslo being far, she died in Oslo.", ["'Oslo' is repeated"]),
        (record("city = Baku", subject="Baku Memorial"), [0], "Baku Memorial is in Baku.", []),
        # a subject directly before a value
        (record("by = Ann"), [0], "The head of Zyx is Zyx Ann.", ["'Zyx' is repeated"]),
        (record("by = Ann"), [0], "Zyx Ann is here.", []),
        # list items repeated, or without a separator
        (ICE, [0], "Zyx is ice cream, sponge cake and Ice cream.", ["'ice cream' is repeated"]),
        (LIST, [0], "By Bob Ray, Eve Orr and Ann Lee.", []),
        (LIST, [0], "By Ann Lee Bob Ray and Eve Orr.", [INCOMPLETE]),
        (LIST, [0], "By Bob Ray, Eve Orr Ann Lee.", [INCOMPLETE]),
        (LIST, [0], "By Ann Lee, Bob Ray, Eve Orr, Lee Bob.", ["'Lee' is repeated", "'Bob' is repeated"]),
        (LIST, [0], "By Bob Ray, Eve Orr, Bob and Ann Lee.", ["'Bob' is repeated"]),
    ],
)
def test_values_that_a_fact_mentions_twice_are_repeated(
    item: Record, own: list[int], text: str, faults: list[str], elements: Learned
) -> None:
    assert list(PLAIN.check(item, text, own, ()).faults) == faults
    assert passes(PLAIN.findings(item, text, own, (), True)) is (not faults)
    repeated = [fault for fault in elements[0].check(item, text, own).faults if "repeated" in fault]
    assert repeated == [fault for fault in faults if "repeated" in fault]
    assert PLAIN.check(item, text).repeated == ()


# --- swapped -------------------------------------------------------------------------------------------------------


METALS = record("Gold | group = 11", "Silver | group = 12")
LANDS = record("East, Oz | leader = Ann", "Oz | leader = Bo")
CHAIN = record("Oz | next = Ulm", "Ulm | next = Bo")


@pytest.mark.parametrize(
    ("item", "text", "swapped"),
    [
        (METALS, "Gold is in group 12 and Silver in group 11.", True),
        (METALS, "Silver is in group 11. Gold, in turn, is in group 12.", True),
        (METALS, "Gold is in group 11 and Silver in group 12.", False),
        (METALS, "Gold is in group 11 and Gold is in group 12. Silver shines.", True),
        (METALS, "Gold is in group 11 and Gold is in group 12. Silver is in group 12.", False),
        (METALS, "Gold and Silver are in groups 11 and 12.", False),
        (METALS, "Group 11 has Gold, group 12 has Silver.", False),
        (METALS, "Group 12 has Gold, group 11 has Silver.", True),
        (METALS, "The group of Gold is 12 and 11 is that of Silver.", True),
        (METALS, "The group of Gold is 11 and 12 is that of Silver.", False),
        # short names
        (LANDS, "The leader of the East is Bo and Ann is the leader of Oz.", True),
        (LANDS, "The leader of the East is Ann and Bo is the leader of Oz.", False),
        (CHAIN, "Next to Ulm and Bo lie Oz and Ulm.", False),
    ],
)
def test_values_exchanged_between_subjects_are_swapped(item: Record, text: str, swapped: bool) -> None:
    pairs = [tuple(f"{triple.predicate} of {triple.subject}" for triple in item.triples)] if swapped else []
    assert list(PLAIN.check(item, text).swapped) == pairs


# --- subjects and complete results -----------------------------------------------------------------------------------


def test_subjects_must_be_named_in_full() -> None:
    item = record("Ada King | born = 1815", "Ida Rhodes | born = 1900")
    assert PLAIN.check(item, "Ada King, born 1815, and Rhodes, born 1900.").unnamed == ("Ida Rhodes",)
    assert PLAIN.check(item, "She was born in 1815.", [0]).unnamed == ("Ada King",)
    assert PLAIN.check(item, "She was born in 1815.", [0], subjects=()).unnamed == ()
    assert PLAIN.check(item, "Ada King was born in 1815.", [0], subjects=("Ida Rhodes",)).unnamed == ("Ida Rhodes",)
    assert PLAIN.unnamed_subjects(item, "Ada King and ida rhodes") == ()


def test_every_fault_has_a_message(elements: Learned) -> None:
    text = "The the element of Berlin is in group 7 and period 4 and melts at 2400 K."
    result = elements[0].check(RF, text, [GROUP, PERIOD, MELTS, YEAR])
    assert result.faults == (
        "'1964' (discoveryYear) is missing",
        "the subject 'Rutherfordium' is not named",
        "'Berlin' is in no triple",
        "'The the' is repeated",
        "the values of group and period are swapped",
        "'4' is not in a context of group",
        "'7' is not in a context of period",
    )
    fact = elements[0].check(RF, "Rutherfordium, symbol Rf, is in group 4.", [GROUP])
    assert fact.faults == ("'Rf' belongs to another fact",)
    empty = elements[0].check(RF, "")
    assert empty == TextCheck(empty.values, ("Rutherfordium",)) and empty.missing == RF.triples


# --- misplaced -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "misplaced"),
    [
        ("Rutherfordium is a 1964 solid with the symbol Rf.", {"discoveryYear"}),
        ("Rutherfordium is a Rf with the symbol 2400 K.", {"symbol", "meltingPoint"}),
        ("Rutherfordium was discovered in 1964, has the symbol Rf and melts at 2400 K.", set()),
        ("Rutherfordium is a 1964 solid. It was discovered in 1964 and has the symbol Rf.", set()),
    ],
)
def test_values_after_words_that_never_precede_them_are_misplaced(
    text: str, misplaced: set[str], elements: Learned
) -> None:
    """Regression: "it is a 1766 gas" passed, since both values are complete."""
    assert {triple.predicate for triple in elements[0].check(RF, text).misplaced} == misplaced
    assert PLAIN.check(RF, text).misplaced == ()


def test_a_fact_within_a_sentence_may_begin_with_a_value_but_a_capital_is_a_name(elements: Learned) -> None:
    fact = [SYMBOL, PLACE]
    assert elements[0].check(RF, "Rf of the Soviet Union", fact, (), initial=False).misplaced == ()
    assert elements[0].check(RF, "a Rf of the Soviet Union", fact, (), initial=False).misplaced != ()
    results = [PLAIN.check(RF, "Berlin saw it", [GROUP], initial=initial).invented for initial in (True, False)]
    assert results == [(), ("Berlin",)]
