"""Complete and incomplete mentions of values: names, words, numbers, units, money, dates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.verification.check import Checker
from agggen.verification.lenient import find_mentions
from agggen.verification.lexicon import Lexicon
from tests.unit.verification.texts import PLAIN, record, value_check, whole


@pytest.mark.parametrize(
    ("value", "complete", "incomplete"),
    [
        # --- all words in order next to each other
        ("Jöns Jacob Berzelius", ["by Jöns Jacob Berzelius"], ["by Jöns Berzelius", "Jöns Jacob LaVern Berzelius"]),
        ("the Greek words for water-forming", ["the Greek words for water-forming"], ["Greek words for water-water"]),
        # case, accents, Unicode forms
        ("Straße", ["the strasse"], []),
        # articles and punctuation
        ("The Who", ["a song by The Who."], []),
        ("Marriage: A History", ["Marriage, a History"], []),
        ("A.C._Milan", ["plays for AC Milan"], []),
        ('"Rock & Roll"', ["rock and roll"], []),
        # hyphens and possessives
        ("silvery-white", ["a silvery white metal"], []),
        ("Bimonthly", ["a bi-monthly journal"], []),
        ("Women's Cricket", ["Women\u2019s Cricket"], []),
        # word boundaries
        ("Rome", [], ["Jerome sings"]),
        ("C", [], ["written in C++", "written in C#."]),
        ("C#", ["written in C#."], ["written in C."]),
        ("C sharp", ["written in C#."], []),
        # empty values
        ("?!", [], ["what"]),
        ("Yes", [], [""]),
        # --- a remark in brackets may be omitted but not replaced
        ("23rd Street (Manhattan)", ["23rd Street.", "23rd Street (Manhattan).", "23rd Street in Manhattan."], []),
        ("23rd Street (Manhattan)", [], ["on 23rd Street (Queens)."]),
        ("English_language", ["English is spoken"], []),
        # --- all parts of addresses and lists are required
        ("Austin,_Texas", ["in Austin, Texas.", "in Austin in Texas.", "in Texas, in Austin."], ["in Austin."]),
        ("Lee, Lee and Ray", ["by Lee, Ray and Lee."], ["by Lee and Ray."]),
        ("New York, New York", ["in New York."], []),
        ("Austin,_Texas", [], ["in Austin, Minnesota, not Texas.", "She was in Austin once. He was in Texas."]),
        ('"Rutland Arms, Bakewell, in 1820"', ["in 1820 at the Rutland Arms, Bakewell."], []),
        ('"Rutland Arms, Bakewell, in 1820"', [], ["in 1821 at the Rutland Arms, Bakewell."]),
        ("Cleveland,_Ohio_44114", ["in Cleveland, Ohio 44114"], ["in Cleveland, Ohio 44115"]),
        ("Ann Lee, Eve Lee and Bob Dré", ["by Ann Lee, Eve Lee and Bob Dre", "by Bob Dré, Ann Lee and Eve Lee"], []),
        ("Ann Lee, Eve Lee and Bob Dré", [], ["by Ann, Eve Lee and Bob Dré"]),
        ("red / blue", ["red and blue"], []),
        # a word belongs to one item only
        ("'n bacon, bacon cob, bacon", ["bacon cob, bacon and 'n bacon", "bacon cob, 'n bacon and bacon"], []),
        ("'n bacon, bacon cob, bacon", [], ["'n bacon and bacon cob", "'n bacon cob and bacon"]),
        # without words: compared literally
        ("-", ["Its sign is -."], []),
        ("🎉", ["It is 🎉."], ["It is -."]),
        # --- symbols are not ordinary words
        ("In", ["Indium has the symbol In.", "Indium (In) is a metal.", "Its symbol is In, the shortest of all."], []),
        ("In", [], ["Indium was found in 1863.", "Indium is soft. In 1863 it was found."]),
        ("In", [], ["Indium is an element with the symbol In the periodic table."]),
        ("At", ["Astatine, symbol At, is a halogen."], ["It is a solid. At 300 K it melts."]),
        ("At", [], ["Astatine has the symbol At group 17.", "Astatine has the symbol At 85."]),
        ("No", ["Nobelium, whose symbol is No, is an actinide."], ["No one has seen it."]),
        ("I", [], ["I melt."]),
        ("K", ["Potassium has the symbol K and melts at 337 K."], ["It melts at 300 K.", "The books of J.K. Rowling"]),
        ("S", [], ["It is an s-block element.", "It was found in the U.S. in 1940."]),
        ("Co", [], ["Cobalt has the symbol CO."]),
        # --- numbers by value
        ('"5.0"^^xsd:double', ["5 of them"], []),
        ("5.3", [], ["5.3 million people"]),
        # number boundaries
        ("12", [], ["it has 12.5 of them", "it has 12,000 of them", "the 12th of them", "it has 1 2 of them"]),
        ("1", [], ["one of the noble gases", "no one knows which one"]),
        ("C-130", ["the C130"], []),
        # signs
        ("-5", [], ["It is 5 degrees.", "It has 4-5 of them."]),
        ("5", ["five of them", "It has 4-5 of them."], ["It is -5 degrees."]),
        ("-5 metres", ["It lies 5 metres below the sea."], ["It lies 5 metres above the sea."]),
        # --- a number has its own unit
        ("1235 K", ["It melts at 1235 K.", "It melts at 1,235 Kelvins."], ["It melts at 1235 kg."]),
        ("18.0 g", ["18g of it"], []),
        ("22.35 square metres", ["It has 22.35 sq m."], ["It has 22.35 cubic metres."]),
        # a unit in the value's remark may be omitted but not replaced
        ("22.35 (square metres)", ["It has 22.35 square metres.", "It has 22.35."], ["It has 22.35 square feet."]),
        ("4387.0 (cubicCentimetres)", ["4387 cubic centimetres of water"], ["4387 kilometres of road"]),
        # money
        ("£20-25", ["at £20-£25"], ["at $20-25"]),
        ("$5", ["for 5 dollars"], ["for 5 euros"]),
        ("€5", ["for 5 euros", "5€"], []),
        # --- dates in their usual spellings
        ("1999-05-30", ["on may 30 , 1999 .", "on 30 th may , 1999 .", "on 05/30/1999"], ["in May 1999"]),
        ("1999-05-30", [], ["born in may , 30 people , 1999 ."]),
        ('"1999-05-30"^^xsd:date', ["born on 30 May 1999"], []),
        ("1999", ["born on 30 May 1999"], []),
        ("30", [], ["born on 30 May 1999"]),
        ("5", [], ["born on 1999-05-30"]),
        # --- seasons
        ("2014\u201315_Serie_A", ["in the 2014-15 Serie A season"], []),
        ("2014-15 Serie A", ["in the Serie A in 2014-15"], ["in the 2013-14 Serie A"]),
        ("2014-15 Serie A", [], ["It was in Serie B in 2014-15 or so. It was in Serie A before."]),
        ("2014-15", ["in 2014-2015"], []),
    ],
)
def test_complete_and_incomplete_mentions(value: str, complete: list[str], incomplete: list[str]) -> None:
    assert [text for text in (*complete, *incomplete) if whole(value, text) != (text in complete)] == []


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


FRIENDLY = Checker(Lexicon(booleans={"familyFriendly": {"yes": ("family friendly",), "no": ("not family friendly",)}}))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("It is a family-friendly pub.", "yes"),
        ("It is not family friendly.", "no"),
        ("It isn\u2019t a family-friendly pub.", "no"),
        ("It is non-family-friendly.", "no"),
        ("It is not cheap. It is a very nice pub, family friendly.", "yes"),
        ("Yes.", None),
        ("It has no food.", None),
    ],
)
def test_truth_values_match_by_learned_phrases(text: str, meaning: str | None) -> None:
    kinds = {value: value_check(value, text, FRIENDLY, "familyFriendly").kind for value in ("yes", "no")}
    assert [value for value, kind in kinds.items() if kind == "phrase"] == ([meaning] if meaning else [])
    assert {*kinds.values()} <= {"phrase", "part", "missing"}


@pytest.mark.parametrize(
    ("value", "complete", "incomplete"),
    [
        ("United_States", ["in the U.S.", "it is in the u.s. , by a lake .", "it is in the us ."], ["for us"]),
        ("United_States", [], ["It was given to us in the us."]),
        ("United_Kingdom", ["in the UK", "it is in the uk ."], []),
        ("Massachusetts Institute of Technology", ["of MIT"], []),
        ("Indonesia", ["an Indonesian dish"], []),
        ("noble gas", ["one of the noble gases"], []),
        ("gas", ["two gases"], ["gaseous"]),
    ],
)
def test_other_spellings_by_rule(value: str, complete: list[str], incomplete: list[str]) -> None:
    assert [value_check(value, text).kind for text in complete] == ["rule"] * len(complete)
    assert not any(whole(value, text) for text in incomplete)


AZERBAIJAN = ("country = Azerbaijan", "league = Azerbaijan Premier League")
METAL = ("Pt | group = 10", "Pt | meltingPoint = 1766 K", "Pt | period = 6")


@pytest.mark.parametrize(
    ("triples", "text", "incomplete"),
    [
        (AZERBAIJAN, "It plays in the Azerbaijan Premier League.", ["country"]),
        (("city = Baku", "country = Azerbaijan"), "It is in Baku, Azerbaijan.", []),
        (("city = Baku, Azerbaijan", "country = Azerbaijan"), "It is in Baku, Azerbaijan.", []),
        (("grain = rice", "dish = white rice"), "It is white rice.", []),
        # two mentions may share words only after a comma
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
    assert PLAIN.unnamed_subjects(item, text) == PLAIN.check(item, text).unnamed == (() if named else ("Ulm, Oz",))


def test_number_words_with_unusual_letters_are_mentioned() -> None:
    """Regression: KeyError for letters that match only case-insensitively."""
    assert find_mentions(record("age = 16", "size = 15"), "Zyx, \u017fixteen, is FİFTEEN tall.").missing == ()


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_number_matches_only_itself(first: int, second: int) -> None:
    assert whole(f"{first}", f"It has {first:,} of them.")
    assert whole(f"{first:,}", f"It has {second} of them.") is (first == second)
    assert not whole(f"{first + 1}", f"It has -{first + 1} of them.")


@pytest.mark.parametrize(
    ("value", "text", "kind", "mention"),
    [
        ("1235 K", "It melts at 1235 kelvin.", "literal", "1235 kelvin"),
        ("22.35 (square metres)", "It has 22.35.", "rule", "22.35"),
        ("1999-05-30", "On 30 May 1999 it was.", "literal", "30 May 1999"),
        ("1999-05-30", "On 30/5/1999 it was.", "rule", "30/5/1999"),
        ("1235 K", "It melts at 1235.", "part", None),
    ],
)
def test_the_kind_and_span_of_a_number(value: str, text: str, kind: str, mention: str | None) -> None:
    result = value_check(value, text)
    assert (result.kind, result.span and text[slice(*result.span)]) == (kind, mention)
