"""Faults besides incomplete values: invented, of another fact, repeated, swapped or misplaced values."""

from __future__ import annotations

from itertools import product

import pytest

from agggen.records import NO_SUBJECT, Record, Triple
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.results import TextCheck
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import CITIES, PLAIN, example, record

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
        ("Rutherfordium was found in 1965.", ["1965"]),
        ("Rutherfordium has the atomic number 104.", ["104"]),
        ("It melts at 2400 K and boils at 5800 K.", ["5800"]),
        ("It melts at -2400 K.", ["-2400"]),
        ("It is the 2nd of group 4.", ["2nd"]),
        ("It was found in Berlin.", ["Berlin"]),
        ("It was found by Marie Curie in 1964.", ["Marie", "Curie"]),
        ("It has the symbol Rg.", ["Rg"]),
        ("It was found on 3 May 1964.", ["3 May 1964"]),
        ("It was found in 1964, 1965 and 1965.", ["1965"]),
        # forms of the record's own words
        ("It was found in 1964 in the Soviet Union.", []),
        ("The Soviets found it.", []),
        ("Named after Rutherford, it is a SOLID.", []),
        ("Group 4, Period 7: Rutherfordium's places.", []),
        ("Two people saw it melt.", []),
        # words that open a sentence
        ("Furthermore, rutherfordium is a solid.", []),
        ("Additionally it melts at 2400 K. However, it is a solid. Moreover, it is in group 4.", []),
        ("In 1964 it was found. It is a solid. The symbol is Rf.", []),
    ],
)
def test_numbers_and_names_that_the_record_lacks_are_invented(checker: Checker, text: str, invented: list[str]) -> None:
    assert list(checker.check(RF, text).invented) == invented


def test_with_a_lexicon_names_that_open_a_sentence_and_value_words_may_be_invented(elements: Learned) -> None:
    assert elements[0].check(RF, "Berlin saw it first.").invented == ("Berlin",)
    assert elements[0].check(RF, "Located in period 7, it is a solid.").invented == ()
    assert elements[0].check(RF, "It is a silvery noble gas.").invented == ("silvery", "noble", "gas")
    assert PLAIN.check(RF, "It is a silvery noble gas.").invented == ()


def test_words_of_a_predicates_own_wording_are_not_invented() -> None:
    item = record("icaoLocationIdentifier = UTAA")
    assert PLAIN.check(item, "Its ICAO code is UTAA.").invented == ()
    assert PLAIN.check(item, "Its FAA code is UTAA.").invented == ("FAA",)
    learned = Checker(Lexicon(wordings={"icaoLocationIdentifier": ("faa",)}))
    assert learned.check(item, "Its FAA code is UTAA.").invented == ()


def test_a_truth_value_that_the_record_does_not_have_is_invented() -> None:
    lexicon = Lexicon(booleans={"familyFriendly": {"yes": ("family friendly",), "no": ("not family friendly",)}})
    checker = Checker(lexicon)
    pub, friendly = record("eatType = pub"), record("eatType = pub", "familyFriendly = yes")
    assert checker.check(pub, "Zyx is a family-friendly pub.").invented == ("family-friendly",)
    assert checker.check(friendly, "Zyx is a family-friendly pub.").faults == ()
    assert checker.check(friendly, "Zyx is a pub, not family-friendly.").invented == ("family-friendly",)
    assert checker.check(pub, "Zyx is a pub.").faults == ()


def test_phrases_of_truth_values_are_invented_in_the_order_of_the_lexicon() -> None:
    """Regression: the order depended on the hash seed of the process."""
    values = {truth: (f"{truth}ish",) for truth in ("yes", "true", "no", "false")}
    text = "Zyx is falseish, noish, trueish, yesish."
    invented = Checker(Lexicon(booleans={"friendly": values})).check(record("eatType = pub"), text).invented
    assert invented == ("yesish", "trueish", "noish", "falseish")


# --- of another fact -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "text", "elsewhere"),
    [
        ([GROUP], "Rutherfordium is in group 4.", []),
        ([GROUP], "Rutherfordium is in group 7.", ["7"]),
        ([GROUP], "Rutherfordium is in group 4 and period 7.", ["7"]),
        ([GROUP], "Rutherfordium, symbol Rf, is in group 4.", ["Rf"]),
        ([GROUP], "Rutherfordium, found in 1964, is in group 4.", ["1964"]),
        ([PLACE, YEAR], "It was found in 1964 in the Soviet Union.", []),
        ([YEAR], "It was found in 1964 in the Soviet Union.", ["Soviet", "Union"]),
        ([NAMED], "It is named after Ernest Rutherford.", []),
        ([SYMBOL], "Named after Ernest Rutherford, it has the symbol Rf.", ["Ernest"]),
        ([], "It is in group 4.", ["4"]),
    ],
)
def test_words_that_only_other_triples_have_belong_to_another_fact(
    checker: Checker, own: list[int], text: str, elsewhere: list[str]
) -> None:
    result = checker.check(RF, text, own, subjects=())
    assert list(result.elsewhere) == elsewhere
    assert result.invented == ()
    assert [value.triple for value in result.values] == [RF.triples[index] for index in own]


def test_a_fact_may_have_invented_words_and_words_of_other_facts(checker: Checker) -> None:
    result = checker.check(RF, "Rutherfordium is in group 8, period 7.", [GROUP])
    assert (result.invented, result.elsewhere, result.whole) == (("8",), ("7",), False)


# --- repeated --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("It is is a solid.", ["is is"]),
        ("It is a solid a solid.", ["a solid a solid"]),
        ("It was found in 1964 in 1964.", ["in 1964 in 1964"]),
        ("It is the the solid.", ["the the"]),
        ("It is in the soviet union, the Soviet Union.", ["the soviet union the Soviet Union"]),
        ("It was named after Ernest Rutherford, Ernest Rutherford.", ["Ernest Rutherford Ernest Rutherford"]),
        ("It is a solid. A solid it is.", []),
        ("It is a solid. Solid it is.", []),
        ("It is a solid and a solid.", []),
    ],
)
def test_words_that_occur_twice_in_a_row_are_repeated(checker: Checker, text: str, repeated: list[str]) -> None:
    assert list(checker.check(RF, text).repeated) == repeated


def test_a_name_or_two_values_may_repeat_a_word() -> None:
    duran = record("by = Duran Duran", "city = Wagga Wagga")
    assert PLAIN.check(duran, "Zyx is by Duran Duran of Wagga Wagga.").repeated == ()
    beside = record("city = New York", "state = York")
    assert PLAIN.check(beside, "Zyx is in New York, York.").repeated == ()
    assert PLAIN.check(beside, "Zyx is in in New York, York.").repeated == ("in in",)
    faber = record("publisher = Faber and Faber")
    assert PLAIN.check(faber, "Zyx is by Faber and Faber and known.").repeated == ()
    assert PLAIN.check(faber, "Zyx is by Faber and Faber and and known.").repeated == ("and and",)


@pytest.mark.parametrize(
    ("own", "text", "repeated"),
    [
        ([STATE], "It is a solid and a solid.", ["solid"]),
        ([SYMBOL], "Its symbol is Rf; so Rf stands for it.", ["Rf"]),
        ([GROUP], "It is in group 4 of period 4.", ["4"]),
        ([GROUP, STATE], "It is a solid in group 4.", []),
    ],
)
def test_a_value_that_a_fact_mentions_twice_is_repeated(
    checker: Checker, own: list[int], text: str, repeated: list[str]
) -> None:
    assert list(checker.check(RF, text, own).repeated) == repeated
    assert checker.check(RF, text).repeated == ()


def test_list_items_without_a_separator_or_repeated_are_faults() -> None:
    item = record("by = Ann Lee, Bob Ray and Eve Orr")
    for text, faults in (
        ("By Bob Ray, Eve Orr and Ann Lee.", ()),
        ("By Ann Lee Bob Ray and Eve Orr.", ("'Ann Lee, Bob Ray and Eve Orr' (by) is incomplete",)),
        ("By Bob Ray, Eve Orr Ann Lee.", ("'Ann Lee, Bob Ray and Eve Orr' (by) is incomplete",)),
        ("By Ann Lee, Bob Ray, Eve Orr, Lee Bob.", ("'Lee' is repeated", "'Bob' is repeated")),
        ("By Bob Ray, Eve Orr, Bob and Ann Lee.", ("'Bob' is repeated",)),
    ):
        assert PLAIN.check(item, text, [0], ()).faults == faults


@pytest.mark.parametrize(
    ("triple", "text", "repeated"),
    [
        ("by = William Anders", "Zyx is by Anders William Anders.", ["Anders William Anders"]),
        ("by = William Anders", "Zyx is by William Anders. Anders is known.", []),
        ("on = 1969-09-01", "Zyx is on 1 September 1969 1969.", ["1 September 1969 1969"]),
        ("on = 1969-09-01", "Zyx is on September 1 September 1969.", ["September 1 September 1969"]),
        ("at = 1/19", "Zyx is at 1/19/19.", ["1/19/19"]),
    ],
)
def test_a_name_beside_one_of_its_own_words_is_repeated(triple: str, text: str, repeated: list[str]) -> None:
    assert list(PLAIN.check(record(triple), text).repeated) == repeated


@pytest.mark.parametrize(
    ("triple", "text", "repeated"),
    [
        ("by = Ann", "The head of Zyx is Zyx Ann.", ["Zyx"]),
        ("by = Ann", "Zyx Ann is here.", []),
        ("of = sponge cake and ice cream", "Zyx is ice cream, sponge cake and Ice cream.", ["ice cream"]),
    ],
)
def test_list_items_and_subjects_that_a_fact_mentions_twice_are_repeated(
    triple: str, text: str, repeated: list[str]
) -> None:
    assert list(PLAIN.check(record(triple), text, [0], ()).repeated) == repeated


def test_names_and_numbers_of_other_facts_belong_to_them() -> None:
    item = record("food = raisin", "country = Mexico", "size = 3 m", "kind = dessert", "like = Mexico City")
    for own, text, elsewhere in (
        ([0], "Zyx has raisin and Mexico.", ("Mexico",)),
        ([0], "Zyx has raisin and 3 m.", ("3",)),
        ([0], "Zyx, a dessert, has raisin.", ()),
        ([0, 4], "Zyx has raisin of Mexico City.", ()),
        ([0, 1], "Zyx has raisin and Mexico.", ()),
    ):
        for checker in (PLAIN, Checker(Lexicon(lower=frozenset(("mexico", "city"))))):
            assert checker.check(item, text, own).elsewhere == elsewhere, text


def test_words_of_a_fact_s_own_predicates_and_values_may_also_be_those_of_other_facts() -> None:
    item = record("school = Ulm College, M.S. 1963", "chosen by NASA = 1963", "employer = NASA")
    for own, text, elsewhere in (
        ([0], "Zyx has an M.S. of 1963 from Ulm College.", ()),
        ([1], "Zyx was chosen by NASA in 1963.", ()),
        ([0], "Zyx of NASA has an M.S. of 1963 from Ulm College.", ("NASA",)),
        ([2], "Zyx works for NASA since 1963.", ("1963",)),
    ):
        assert PLAIN.check(item, text, own).elsewhere == elsewhere, text


def test_a_fact_may_mention_a_value_once_for_each_triple_and_within_a_name() -> None:
    both = record("born = Oslo", "died = Oslo")
    assert PLAIN.check(both, "Born in Oslo, she died in Oslo.", [0, 1]).repeated == ()
    assert PLAIN.check(both, "Born in Oslo, Oslo being far, she died in Oslo.", [0, 1]).repeated == ("Oslo",)
    named = record("city = Baku", subject="Baku Memorial")
    assert PLAIN.check(named, "Baku Memorial is in Baku.", [0]).repeated == ()


# --- swapped -------------------------------------------------------------------------------------------------------


def test_names_in_the_contexts_of_each_other_s_predicates_are_swapped() -> None:
    pairs = product(CITIES, CITIES)
    births = [example(f"{a}o", "born", a, f"{a}o was born in {a} and died in {b}.", died=b) for a, b in pairs]
    checker = Checker(learn(births))
    item = record("born = Oslo", "died = Rome", subject="Ada")
    assert checker.check(item, "Ada was born in Oslo and died in Rome.").swapped == ()
    assert checker.check(item, "Ada was born in Rome and died in Oslo.").swapped == (("born", "died"),)


METALS = record("Gold | group = 11", "Silver | group = 12")


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("Gold is in group 12 and Silver in group 11.", True),
        ("Silver is in group 11. Gold, in turn, is in group 12.", True),
        ("Gold is in group 11 and Silver in group 12.", False),
        ("Gold is in group 11 and Gold is in group 12. Silver shines.", True),
        ("Gold is in group 11 and Gold is in group 12. Silver is in group 12.", False),
        ("Gold and Silver are in groups 11 and 12.", False),
        ("Group 11 has Gold, group 12 has Silver.", False),
        ("Group 12 has Gold, group 11 has Silver.", True),
        ("The group of Gold is 12 and 11 is that of Silver.", True),
        ("The group of Gold is 11 and 12 is that of Silver.", False),
        ("Gold is in group 11.", False),
    ],
)
def test_values_exchanged_between_subjects_are_swapped(text: str, swapped: bool) -> None:
    assert PLAIN.check(METALS, text).swapped == ((("group of Gold", "group of Silver"),) if swapped else ())


def test_values_exchanged_between_subjects_with_short_names_are_swapped() -> None:
    lands = record("East, Oz | leader = Ann", "Oz | leader = Bo")
    assert PLAIN.check(lands, "The leader of the East is Bo and Ann is the leader of Oz.").swapped
    assert not PLAIN.check(lands, "The leader of the East is Ann and Bo is the leader of Oz.").swapped
    chain = record("Oz | next = Ulm", "Ulm | next = Bo")
    assert not PLAIN.check(chain, "Next to Ulm and Bo lie Oz and Ulm.").swapped


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("Rutherfordium belongs to period 7 and group 4.", []),
        ("Rutherfordium belongs to period 4 and group 7.", [("group", "period")]),
        ("Rutherfordium belongs to group 4 and period 7.", []),
        ("Rutherfordium belongs to group 7 and period 4.", [("group", "period")]),
        ("It is a group 7 element in period 4.", [("group", "period")]),
        ("It is a group 4 element in period 7.", []),
        ("It was found in 2400 K and melts at 1964.", [("meltingPoint", "discoveryYear")]),
        ("It was found in 1964 and melts at 2400 K.", []),
    ],
)
def test_numbers_in_the_contexts_of_each_others_predicates_are_swapped(
    elements: Learned, text: str, swapped: list
) -> None:
    checker = elements[0]
    result = checker.check(RF, text)
    assert list(result.swapped) == swapped
    assert [fault for fault in result.faults if "swapped" in fault] == [
        f"the values of {first} and {second} are swapped" for first, second in swapped
    ]
    assert PLAIN.check(RF, text).swapped == (), "without a lexicon, predicates have no contexts"


def test_swapped_numbers_in_a_fact_are_detected(elements: Learned) -> None:
    swapped = elements[0].check(RF, "Its place is in group 7, period 4.", [GROUP, PERIOD]).swapped
    assert swapped == (("group", "period"),)
    assert elements[0].check(RF, "Its place is in group 4, period 7.", [GROUP, PERIOD]).faults[1:] == ()


# --- subjects and complete results -----------------------------------------------------------------------------------


def test_subjects_must_be_named_in_full() -> None:
    item = record("Ada King | born = 1815", "Ida Rhodes | born = 1900")
    assert PLAIN.check(item, "Ada King, born 1815, and Rhodes, born 1900.").unnamed == ("Ida Rhodes",)
    assert PLAIN.check(item, "She was born in 1815.", [0]).unnamed == ("Ada King",)
    assert PLAIN.check(item, "She was born in 1815.", [0], subjects=()).unnamed == ()
    assert PLAIN.check(item, "Ada King was born in 1815.", [0], subjects=("Ida Rhodes",)).unnamed == ("Ida Rhodes",)
    assert PLAIN.unnamed(item, "Ada King and ida rhodes") == ()


def test_texts_of_a_record_without_a_subject_need_no_name() -> None:
    pub = Record("p", (Triple(NO_SUBJECT, "eatType", "pub"), Triple(NO_SUBJECT, "food", "Thai")))
    assert PLAIN.check(pub, "The pub has Thai food.").faults == ()
    assert PLAIN.check(pub, "The pub has food.").faults == ("'Thai' (food) is missing",)


def test_an_empty_text_has_only_missing_values_and_subjects(checker: Checker) -> None:
    result = checker.check(RF, "")
    assert result.missing == RF.triples
    assert result.unnamed == ("Rutherfordium",)
    assert result == TextCheck(result.values, result.unnamed)


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


def test_a_capital_at_the_start_of_a_fact_within_a_sentence_is_a_name() -> None:
    assert PLAIN.check(RF, "Berlin saw it", [GROUP], initial=True).invented == ()
    assert PLAIN.check(RF, "Berlin saw it", [GROUP], initial=False).invented == ("Berlin",)


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
    """Regression: "it is a 1766 gas" passed, since its values are whole."""
    result = elements[0].check(RF, text)
    assert {triple.predicate for triple in result.misplaced} == misplaced
    assert all(any(f"in a context of {name}" in fault for fault in result.faults) for name in misplaced)
    assert PLAIN.check(RF, text).misplaced == ()


def test_a_value_at_the_start_of_a_fact_within_a_sentence_is_not_misplaced(elements: Learned) -> None:
    fact = [SYMBOL, PLACE]
    assert elements[0].check(RF, "Rf of the Soviet Union", fact, (), initial=False).misplaced == ()
    assert elements[0].check(RF, "a Rf of the Soviet Union", fact, (), initial=False).misplaced != ()
