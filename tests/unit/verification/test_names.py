"""Names and other words: which texts contain the complete value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon
from tests.unit.verification.texts import PLAIN, record, value_check, whole


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        # --- all words in order next to each other
        ("Jöns Jacob Berzelius", "by Jöns Jacob Berzelius", True),
        ("Jöns Jacob Berzelius", "by Jöns Berzelius", False),
        ("Alan Bean", "Alan LaVern Bean", False),
        ("the Greek words for water-forming", "from the Greek words for water-forming", True),
        ("the Greek words for water-forming", "from the Greek words for water-water", False),
        # case, accents, Unicode forms
        ("Serie A", "plays in serie a", True),
        ("Jo\u0308ns", "by J\u00f6ns", True),
        ("Straße", "the strasse", True),
        ("H\u2082O", "made of H2O", True),
        # articles and punctuation
        ("The Who", "a song by The Who.", True),
        ("Marriage: A History", "Marriage, a History", True),
        ("A.C._Milan", "plays for AC Milan", True),
        ('"Rock & Roll"', "rock and roll", True),
        # hyphens and possessives
        ("silvery-white", "a silvery white metal", True),
        ("Bimonthly", "a bi-monthly journal", True),
        ("Women's Cricket", "Women\u2019s Cricket", True),
        # the border of a word
        ("Rome", "Jerome sings", False),
        ("C++", "written in C", False),
        ("C", "written in C++", False),
        ("C", "written in C#.", False),
        ("C#", "written in C.", False),
        ("C#", "written in C#.", True),
        ("C sharp", "written in C#.", True),
        # nothing to say
        ("?!", "what", False),
        ("Yes", "", False),
        # --- a remark may be left out but not exchanged
        ("23rd Street (Manhattan)", "on 23rd Street.", True),
        ("23rd Street (Manhattan)", "on 23rd Street (Manhattan).", True),
        ("23rd Street (Manhattan)", "on 23rd Street in Manhattan.", True),
        ("23rd Street (Manhattan)", "on 23rd Street (Queens).", False),
        ("Bolt_(comicsCharacter)", "Bolt did it", True),
        ("English_language", "English is spoken", True),
        # --- addresses and lists are said with all their parts
        ("Austin,_Texas", "in Austin, Texas.", True),
        ("Austin,_Texas", "in Austin in Texas.", True),
        ("Austin,_Texas", "in Texas, in Austin.", True),
        ("Austin,_Texas", "in Austin, Minnesota, not Texas.", False),
        ("Austin,_Texas", "in Austin.", False),
        ("Austin,_Texas", "She was in Austin once. He was in Texas.", False),
        ('"Rutland Arms, Bakewell, in 1820"', "in 1820 at the Rutland Arms, Bakewell.", True),
        ('"Rutland Arms, Bakewell, in 1820"', "in 1821 at the Rutland Arms, Bakewell.", False),
        ("Cleveland,_Ohio_44114", "in Cleveland, Ohio 44114", True),
        ("Cleveland,_Ohio_44114", "in Cleveland, Ohio 44115", False),
        ("Pierre Curie, Marie Curie and Gustave Bémont", "by Pierre Curie, Marie Curie and Gustave Bemont", True),
        ("Pierre Curie, Marie Curie and Gustave Bémont", "by Gustave Bémont, Pierre Curie and Marie Curie", True),
        ("Pierre Curie, Marie Curie and Gustave Bémont", "by Pierre, Marie Curie and Gustave Bémont", False),
        ("red / blue", "red and blue", True),
    ],
)
def test_names_and_words(value: str, text: str, expected: bool) -> None:
    assert whole(value, text) is expected


NAMES = st.lists(
    st.text("bcdfgjklmpqrtvwxz", min_size=3, max_size=6).map(str.capitalize), min_size=2, max_size=4, unique=True
)


@given(NAMES, st.data())
def test_no_name_is_whole_with_a_word_missing_added_or_moved(name: list[str], data: st.DataObject) -> None:
    assert whole(" ".join(name), f"It was by {' '.join(name)} there.")
    left_out = data.draw(st.integers(0, len(name) - 1))
    rest = name[:left_out] + name[left_out + 1 :]
    assert not whole(" ".join(name), f"It was by {' '.join(rest)} there.")
    moved = data.draw(st.permutations(name))
    assert whole(" ".join(name), f"It was by {' '.join(moved)} there.") is (moved == name)
    apart = data.draw(st.integers(1, len(name) - 1))
    assert not whole(" ".join(name), f"It was by {' '.join([*name[:apart], 'old', *name[apart:]])} there.")


@pytest.mark.parametrize(
    ("symbol", "text", "expected"),
    [
        ("In", "Indium was found in 1863.", False),
        ("In", "Indium is soft. In 1863 it was found.", False),
        ("In", "Indium has the symbol In.", True),
        ("In", "Indium (In) is a metal.", True),
        ("In", "Indium is an element with the symbol In the periodic table.", False),
        ("At", "Astatine has the symbol At group 17.", False),
        ("At", "Astatine has the symbol At 85.", False),
        ("In", "Its symbol is In, the shortest of all.", True),
        ("As", "As a metalloid, arsenic is grey.", False),
        ("As", "Arsenic has the symbol As and is a solid.", True),
        ("At", "It is a solid. At 300 K it melts.", False),
        ("At", "Astatine, symbol At, is a halogen.", True),
        ("No", "No one has seen it.", False),
        ("No", "Nobelium, whose symbol is No, is an actinide.", True),
        ("He", "He found helium.", False),
        ("I", "I melt.", False),
        ("K", "It melts at 300 K.", False),
        ("K", "Potassium has the symbol K and melts at 337 K.", True),
        ("S", "It is an s-block element.", False),
        ("S", "It was found in the U.S. in 1940.", False),
        ("K", "The books of J.K. Rowling", False),
        ("Co", "Cobalt has the symbol CO.", False),
        ("Rf", "Rutherfordium has the symbol Rg.", False),
    ],
)
def test_a_symbol_is_no_ordinary_word(symbol: str, text: str, expected: bool) -> None:
    assert whole(symbol, text, predicate="symbol") is expected


FRIENDLY = Lexicon(booleans={"familyFriendly": {"yes": ("family friendly",), "no": ("not family friendly",)}})


@pytest.mark.parametrize("checker", [PLAIN, Checker(FRIENDLY)])
@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("No", "It is not family friendly.", False),
        ("No", "Its symbol is No.", True),
        ("Yes", "It is family friendly.", False),
        ("Yes", "The band is called Yes.", True),
    ],
)
def test_yes_and_no_of_other_predicates_are_words(checker: Checker, value: str, text: str, expected: bool) -> None:
    assert whole(value, text, checker, "symbol") is expected


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("yes", "It is a family-friendly pub.", True),
        ("yes", "It is not family friendly.", False),
        ("yes", "It is non-family-friendly.", False),
        ("yes", "Yes.", False),
        ("no", "It is not family friendly.", True),
        ("no", "It isn\u2019t a family-friendly pub.", True),
        ("no", "It has no food.", False),
        ("no", "It is not cheap. It is a very nice pub, family friendly.", False),
    ],
)
def test_truth_values_match_by_learned_phrases(value: str, text: str, expected: bool) -> None:
    result = value_check(value, text, Checker(FRIENDLY), "familyFriendly")
    assert result.whole is expected
    assert (result.how == "phrase") is expected


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("United_States", "in the U.S.", True),
        ("United_States", "it is in the u.s. , by a lake .", True),
        ("United_States", "it is in the us .", True),
        ("United_States", "It was given to us in the us.", False),
        ("United_Kingdom", "it is in the uk .", True),
        ("United_States", "for us", False),
        ("United_Kingdom", "in the UK", True),
        ("Massachusetts Institute of Technology", "of MIT", True),
        ("Indonesia", "an Indonesian dish", True),
        ("noble gas", "one of the noble gases", True),
        ("gas", "two gases", True),
        ("gas", "gaseous", False),
    ],
)
def test_other_spellings_by_rule(value: str, text: str, expected: bool) -> None:
    result = value_check(value, text)
    assert result.whole is expected
    assert (result.how == "rule") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bacon cob, bacon and piece 'n bacon", True),
        ("piece 'n bacon and bacon cob", False),  # no word is part of two items
        ("piece 'n bacon cob and bacon", False),
        ("bacon cob, piece 'n bacon and bacon", True),
    ],
)
def test_each_item_of_a_list_has_words_of_its_own(text: str, expected: bool) -> None:
    assert value_check("piece 'n bacon, bacon cob, bacon", f"It is {text}.").whole is expected


AZERBAIJAN = ("country = Azerbaijan", "league = Azerbaijan Premier League")
METAL = ("Pt | group = 10", "Pt | meltingPoint = 1766 K", "Pt | period = 6")


@pytest.mark.parametrize(
    ("triples", "text", "incomplete"),
    [
        (AZERBAIJAN, "It plays in the Azerbaijan Premier League.", ["country"]),
        (("city = Baku", "country = Azerbaijan"), "It is in Baku, Azerbaijan.", []),
        (("city = Baku, Azerbaijan", "country = Azerbaijan"), "It is in Baku, Azerbaijan.", []),
        (("grain = rice", "dish = white rice"), "It is white rice.", []),
        # two names cannot share words, except after a comma
        (("club = Torino F.C.", "club = F.C. Bari"), "He plays for Torino F.C. Bari.", ["club"]),
        (("club = Torino F.C.", "club = F.C. Bari"), "He plays for Torino F.C. and F.C. Bari.", []),
        (("place = Akita, Akita", "part = Akita Prefecture"), "It is in Akita, Akita Prefecture.", []),
        (("namedAfter = Rutherford", "by = Ernest Rutherford"), "It was found by Ernest Rutherford.", ["namedAfter"]),
        (("namedAfter = Rutherford", "by = Ernest Rutherford"), "Rutherford; found by Ernest Rutherford.", []),
        (("Curium | namedAfter = Curium",), "Curium is a metal.", []),
        (("Ada Lovelace | namedAfter = Lovelace",), "Ada Lovelace is a crater.", ["namedAfter"]),
        # a small number of two predicates must occur twice, a large one once
        (("group = 14", "period = 14"), "It is in group 14.", ["period"]),
        (("group = 14", "period = 14"), "It is in group 14 and period 14.", []),
        (("born = 1913", "died = 1913"), "She was born and died in 1913.", []),
        # numbers of other values or without their unit
        (METAL, "Pt has a melting point of 10 and is a period 6 element in group 1766, a gas.", ["meltingPoint"]),
        (METAL, "Pt is in group 14 and period 6, a gas with a melting point of 1766.", ["group", "meltingPoint"]),
        (METAL, "Pt is in group 10 and period 6 and melts at 176 K.", ["meltingPoint"]),
        (METAL, "Pt is in group 10 and period 6 and melts at 1766 K.", []),
    ],
)
def test_values_inside_other_names_and_numbers_are_incomplete(
    triples: tuple[str, ...], text: str, incomplete: list[str]
) -> None:
    values = PLAIN.check(record(*triples), text).values
    assert [value.triple.predicate for value in values if not value.whole] == incomplete


@pytest.mark.parametrize(
    ("value", "text", "expected"), [("-", "Its sign is -.", True), ("🎉", "It is 🎉.", True), ("🎉", "It is -.", False)]
)
def test_a_value_without_words_is_compared_literally(value: str, text: str, expected: bool) -> None:
    assert whole(value, text) is expected


@pytest.mark.parametrize(
    ("others", "text", "named"),
    [
        ((), "Ulm is part of Bo County, Oz.", True),
        ((), "Ulm is in Bo County in Oz.", True),
        ((), "Ulm, Bo County, Oz is old.", True),
        ((), "Ulm is in Bo County. Oz is large.", False),
        ((), "Ulm, Iowa is part of Bo County, Oz.", False),
        (("team = Ulm Town",), "Ulm Town is in Bo County, Oz.", False),
        (("twin = Ulm, Iowa",), "Ulm is part of Bo County, Oz.", False),
    ],
)
def test_a_subject_is_named_in_parts_in_a_sentence(others: tuple[str, ...], text: str, named: bool) -> None:
    item = record("isPartOf = Bo County, Oz", *others, subject="Ulm, Oz")
    assert PLAIN.unnamed(item, text) == (() if named else ("Ulm, Oz",))
    assert PLAIN.check(item, text).unnamed == PLAIN.unnamed(item, text)


def test_a_preposition_before_a_name_that_begins_with_it_is_no_repetition() -> None:
    album = record("album = In Rainbows")
    assert PLAIN.check(album, "Zyx is heard in In Rainbows.").repeated == ()
    assert PLAIN.check(album, "Zyx is heard in in In Rainbows.").repeated == ("in in",)
