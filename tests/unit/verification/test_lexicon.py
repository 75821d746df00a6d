"""The lexicon: learning from training texts, its file, and files of user-defined paraphrases and sentences."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.errors import BundleError, ConfigError
from agggen.records import Record, Triple
from agggen.verification.check import Checker
from agggen.verification.clauses import plain_clause
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon, read_templates, read_wordings
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import CITIES, example, record, value_check, whole

NOUNS = ("city", "town", "port", "place", "site", "spot", "hub", "seat")


def corpus(countries: dict[str, tuple[str, int]]) -> list[Record]:
    """Texts about `count` cities per country: one with the country's adjective and one with its name for each city."""
    return [
        example(f"{city} {country}", "country", country, text)
        for country, (word, count) in countries.items()
        for city, noun in zip(CITIES[:count], NOUNS, strict=False)
        for text in (f"{city} is a {word} {noun}.", f"{city} lies in {country}.")
    ]


def in_lands() -> list[Record]:
    """Records with the predicates country, state and district."""
    names = ("country", "state", "district")
    return [example(city, name, f"{city}land", f"{city} lies in {city}land.") for name in names for city in CITIES]


# --- wordings of values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wording", "min_texts"), [("Netherish", 3), ("Dutch", 5)])
def test_a_wording_without_a_stem_of_its_value_needs_more_texts(wording: str, min_texts: int) -> None:
    for texts, learned in ((min_texts - 1, {}), (min_texts, {"Netherlands": (wording,)})):
        assert learn(corpus({"Netherlands": (wording, texts), "Norway": ("polar", 2)})).variants == learned


def test_wordings_of_one_subject_beside_the_value_or_with_half_of_it_are_not_learned() -> None:
    assert learn([record("country = Norway")]) == Lexicon() == learn([]), "without references"
    one_subject = [example("Oslo", "country", "Netherlands", f"Oslo is a Netherish city{'!' * n}.") for n in range(6)]
    assert learn(one_subject).variants == {}
    records = corpus({"Netherlands": ("Netherish", 6)})
    text = "{0}, a Netherish city, lies in the Netherlands."
    beside = [example(f"{city} X", "country", "Netherlands", text.format(city)) for city in CITIES]
    assert learn(records).variants == {"Netherlands": ("Netherish",)}
    assert learn(records + beside).variants == {}
    half = [example(f"{city}ium", "by", "Jöns Jacob Berzelius", f"{city}ium: Jöns Berzelius.") for city in CITIES]
    assert not whole("Jöns Jacob Berzelius", "It was by Jöns Berzelius.", Checker(learn(half)), "by")


def test_neither_another_value_nor_a_wording_of_another_predicate_is_learned() -> None:
    def inns(kind: str, predicate: str, value: str, text: str, **others: str) -> list[Record]:
        names = [f"{city} {kind}" for city in CITIES[:6]]
        return [example(name, predicate, value, f"{name} {text}", **others) for name in names]

    false = inns("Inn", "area", "riverside", "is in the city centre.")
    true = example("Graz Hut", "area", "city centre", "Graz Hut is in the city centre.")
    assert "riverside" not in learn([*false, true]).variants
    stars = inns("Inn", "area", "riverside", "has a star.", rating="1")
    assert learn(stars).variants["riverside"] == ("star",), "no text distinguishes the two predicates"
    assert "riverside" not in learn([*stars, *inns("Hut", "rating", "1", "has a star.")]).variants


def test_learned_and_a_users_wordings_match_as_lexicon() -> None:
    learned = learn(corpus({"Peru": ("Incan", 8), "Netherlands": ("Dutch", 8), "Norway": ("polar", 2)}))
    assert list(learned.variants) == ["Netherlands", "Peru"], "Regression: the order depended on the hash seed"
    lexicon = learned.merged(Lexicon(variants={"Netherlands": ("the low lands",), "Norway": ("Norge",)}))
    assert lexicon.variants == {"Netherlands": ("Dutch", "the low lands"), "Peru": ("Incan",), "Norway": ("Norge",)}
    checker = Checker(lexicon)
    for value, text, kind in (
        ("Netherlands", "It is a Dutch city.", "lexicon"),
        ("Netherlands", "A city of the low lands.", "lexicon"),
        ("Netherlands", "It is a Dutchman's city.", "missing"),
        ("Netherlands", "It lies in the Netherlands.", "literal"),
        ("Norway", "It is a Dutch city.", "missing"),
    ):
        assert value_check(value, text, checker).kind == kind, text
    assert checker.check(record("country = Norway"), "Zyx is in Norge.").faults == ()


# --- truth values ----------------------------------------------------------------------------------------------------


def pubs() -> list[Record]:
    texts = (
        *(("yes", "{} is a family friendly pub."), ("yes", "{}, family friendly, is by the river.")),
        *(("no", "{} is not family friendly."), ("no", "{} is a pub that isn't family friendly.")),
    )
    names = [f"The {city}" for city in CITIES]
    return [example(name, "familyFriendly", value, text.format(name)) for name in names for value, text in texts]


def test_truth_values_have_phrases_with_their_negation() -> None:
    lexicon = learn(pubs())
    assert set(lexicon.booleans) == {"familyFriendly"}
    assert "family friendly" in lexicon.booleans["familyFriendly"]["yes"]
    assert "not family friendly" in lexicon.booleans["familyFriendly"]["no"]


def test_a_truth_value_without_a_phrase_is_whole_in_a_plain_clause() -> None:
    """Regression: not even a plain clause expressed it."""
    people = [example(f"{city}o", "isAlive", value, f"{city}o acts.") for city in CITIES for value in ("true", "false")]
    checker = Checker(learn(people))
    for value, other in (("true", "false"), ("false", "true")):
        oda = Triple("Oda", "isAlive", value)
        assert checker.check(Record("oda", (oda,)), plain_clause(oda, {})).faults == ()
        assert not checker.check(Record("oda", (replace(oda, object=other),)), plain_clause(oda, {})).whole


def test_a_predicate_with_other_values_has_no_truth_values() -> None:
    symbols = [example(f"{city}ium", "symbol", city[:2], f"{city}ium has the symbol {city[:2]}.") for city in CITIES]
    symbols += [example(f"Nobelium{n}", "symbol", "No", f"Nobelium{n} has the symbol No.") for n in range(5)]
    lexicon = learn(symbols)
    assert lexicon.booleans == {}
    checker = Checker(lexicon)
    assert whole("No", "It has the symbol No.", checker, "symbol")
    assert not whole("No", "It has no symbol.", checker, "symbol")


# --- the words of predicates -----------------------------------------------------------------------------------------


def test_every_predicate_of_the_shipped_corpus_has_a_template_and_contexts(elements: Learned) -> None:
    lexicon = elements[0].lexicon
    predicates = {triple.predicate for item in elements[1] for triple in item.triples}
    assert lexicon.templates.keys() == lexicon.contexts.keys() == predicates
    assert all(text.count("{subject}") == text.count("{object}") == 1 for text in lexicon.templates.values())


def test_names_of_a_predicates_wording_are_learned_from_different_values() -> None:
    codes = [example(city, "code", f"{n}", f"{city} has the ICAO code {n}.") for n, city in enumerate(CITIES, start=1)]
    lexicon = learn([*codes, *in_lands()])
    assert lexicon.wordings == {"code": ("icao",)}
    assert Checker(lexicon).check(record("code = 77"), "Zyx has the ICAO code 77.").faults == ()
    assert Checker(lexicon).check(record("country = Peru"), "Zyx, ICAO, is in Peru.").invented == ("ICAO",)


def test_a_name_that_is_seldom_in_lower_case_is_still_a_name() -> None:
    """Regression: "created by the American Ann" passed, since eight texts of thousands have "american"."""
    text = "{0} was made by {0}ov, an {1} who likes {2}."
    records = [
        example(city, "maker", f"{city}ov", text.format(city, "American", "Tea")) for city in CITIES for _ in "abc"
    ]
    records += [example("Ulm", "maker", "Ulmov", text.format("Ulm", "american", "tea")) for _ in "a"]
    records += [example("Ulm", "maker", "Ulmov", text.format("Ulm", "American", "tea")) for _ in "abc"]
    lexicon = learn(records)
    assert "american" not in lexicon.lower and "tea" in lexicon.lower


def test_values_of_a_predicate_and_words_of_other_predicates_are_no_wordings() -> None:
    """Regression: "avocado" was a wording of ``ingredient``, so that texts could invent it."""
    foods, text = ("Rye", "Salt", "Avocado", "Rice", "Fish"), "{0}er {1} has {1} and {2}, by its ISBN {3}."
    records = [
        example(f"{city}er {food}", "ingredient", food, text.format(city, food, other, n), ISBN=str(n))
        for n, (city, food, other) in enumerate(zip(CITIES, foods * 2, foods[1:] * 2, strict=False))
    ]
    assert learn([*records, *in_lands()]).wordings == {}


# --- files -----------------------------------------------------------------------------------------------------------


def test_the_json_round_trip_of_a_lexicon_is_lossless(elements: Learned, tmp_path: Path) -> None:
    for lexicon in (Lexicon(), elements[0].lexicon, learn(pubs()), Lexicon(variants={"Côte": ("Küste",)})):
        path = tmp_path / "lexicon.json"
        path.write_text(json.dumps(lexicon.as_dict(), ensure_ascii=False), encoding="utf-8")
        assert Lexicon.read(path) == lexicon
    assert Lexicon.of({"lower": ["a"]}) == Lexicon(lower=frozenset("a")), "parts missing in the file must be empty"


def test_lexicons_are_merged(elements: Learned) -> None:
    old = Lexicon({"US": ("American",)}, {"kids": {"yes": ("for kids",)}}, {"p": ("a",)}, {"p": "{subject}: {object}."},
                  {"p": {"L1 in": 4, "": 8}}, frozenset(("pilot", "thai")), frozenset(("city",)))  # fmt: skip
    new = Lexicon({"US": ("States", "American")}, {"kids": {"yes": ("no", "for kids")}}, {"q": ("b",)},
                  {"p": "{object} is.", "q": "{subject} {object}."}, {"p": {"L1 in": 2, "L1 on": 1, "": 6}},
                  frozenset(("city", "ulm")), frozenset(("pilot",)))  # fmt: skip
    both = Lexicon({"US": ("American", "States")}, {"kids": {"yes": ("for kids", "no")}}, {"p": ("a",), "q": ("b",)},
                   {"p": "{subject}: {object}.", "q": "{subject} {object}."}, {"p": {"L1 in": 4, "L1 on": 1, "": 8}},
                   frozenset(("thai", "ulm")), frozenset(("city", "pilot")))  # fmt: skip
    assert old.merged(new) == both
    learned = elements[0].lexicon
    assert learned.merged(learned) == learned == learned.merged(Lexicon())


@pytest.mark.parametrize(
    ("read", "content", "expected"),
    [
        (Lexicon.read, "[]", "a valid lexicon: Input should be .*; its parts are variants, booleans"),
        (Lexicon.read, '{"variant": {}}', "a valid lexicon: variant: "),
        (Lexicon.read, "{\n'a'", "not valid JSON: .* line 2"),
        (Lexicon.read, b"\xff\xfe{}", "not valid JSON: .* decode byte 0xff"),
        (read_wordings, '{"Norway": ["Norge", "the fjords"]}', {"Norway": ("Norge", "the fjords")}),
        (read_wordings, '\ufeff{"Norway": ["Norge"]}', {"Norway": ("Norge",)}),
        (read_wordings, "{}", "at least 1 item"),
        (read_wordings, "[]", "must be JSON like .*: Input should be"),
        (read_wordings, '{"Norway": []}', "Norway: .* at least 1 item"),
        (read_wordings, '{"Norway": ["?!"]}', "contains no word"),
        (read_wordings, "{", "must be JSON like"),
        (read_wordings, None, "cannot read"),
        # Regression: the byte order mark was part of the first predicate
        (read_templates, "\ufeffborn\t{subject} was born in {object}\n", {"born": "{subject} was born in {object}."}),
        (read_templates, "seat\t{object} seats {subject}.", {"seat": "{object} seats {subject}."}),
        (read_templates, "", "is empty"),
        (read_templates, "birthPlace {subject} was born in {object}.", "line 1"),
        (read_templates, "seat\t{subject} {object}.\nbirthPlace\tIt was {object}.", "line 2"),
        (read_templates, "seat\t{subject} {subject} {object}.", "each once"),
        (read_templates, None, "cannot read"),
    ],
)
def test_lexicons_and_a_users_wordings_and_sentences_are_read_or_refused(
    tmp_path: Path, read: Callable[[Path], object], content: str | bytes | None, expected: dict[str, object] | str
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if isinstance(expected, dict):
        assert read(path) == expected
        return
    with pytest.raises(BundleError if read == Lexicon.read else ConfigError, match=expected) as error:
        read(path)
    assert str(path) in str(error.value)
