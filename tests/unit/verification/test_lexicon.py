"""Learning of the lexicon from training texts, its files, and the files of a user's wordings and sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.errors import BundleError, ConfigError
from agggen.records import Record, Triple
from agggen.verification.check import Checker
from agggen.verification.clauses import clause
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon, read_templates, read_wordings
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import CITIES, example, record, value_check, whole

NOUNS = ("city", "town", "port", "place", "site", "spot", "hub", "seat")


def corpus(countries: dict[str, tuple[str, int]]) -> list[Record]:
    """For each country and its number of cities: texts with its word, and texts with its name."""
    return [
        example(f"{city} {country}", "country", country, text)
        for country, (word, count) in countries.items()
        for city, noun in zip(CITIES[:count], NOUNS, strict=False)
        for text in (f"{city} is a {word} {noun}.", f"{city} lies in {country}.")
    ]


def in_lands() -> list[Record]:
    """Records of three other predicates."""
    names = ("country", "state", "district")
    return [example(city, name, f"{city}land", f"{city} lies in {city}land.") for name in names for city in CITIES]


# --- wordings of values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wording", "min_texts"), [("Netherish", 3), ("Dutch", 5)])
def test_a_wording_without_a_stem_of_its_value_needs_more_texts(wording: str, min_texts: int) -> None:
    for texts, learned in ((min_texts - 1, {}), (min_texts, {"Netherlands": (wording,)})):
        assert learn(corpus({"Netherlands": (wording, texts), "Norway": ("polar", 2)})).variants == learned


def test_a_wording_of_one_subject_is_not_learned() -> None:
    records = [example("Oslo", "country", "Netherlands", f"Oslo is a Netherish city{'!' * n}.") for n in range(6)]
    assert learn(records).variants == {}


def test_a_wording_that_is_frequent_beside_the_value_is_not_learned() -> None:
    records = corpus({"Netherlands": ("Netherish", 6)})
    more = [
        example(f"{city} X", "country", "Netherlands", f"{city}, a Netherish city, lies in the Netherlands.")
        for city in CITIES
    ]
    assert learn(records).variants == {"Netherlands": ("Netherish",)}
    assert learn(records + more).variants == {}


def test_a_wording_with_half_of_a_value_is_not_learned() -> None:
    records = [example(f"{city}ium", "by", "Jöns Jacob Berzelius", f"{city}ium: Jöns Berzelius.") for city in CITIES]
    lexicon = learn(records)
    assert not whole("Jöns Jacob Berzelius", "It was by Jöns Berzelius.", Checker(lexicon), "by")


def test_neither_another_value_nor_a_wording_of_another_predicate_is_learned() -> None:
    false = [example(f"{city} Inn", "area", "riverside", f"{city} Inn is in the city centre.") for city in CITIES[:6]]
    true = [example("Graz Inn", "area", "city centre", "Graz Inn is in the city centre.")]
    assert "riverside" not in learn([*false, *true]).variants
    stars = [example(f"{city} Inn", "area", "riverside", f"{city} Inn has a star.", rating="1") for city in CITIES[:6]]
    others = [example(f"{city} Hut", "rating", "1", f"{city} Hut has a star.") for city in CITIES[:6]]
    assert learn(stars).variants["riverside"] == ("star",), "no text has only one of the two predicates"
    assert "riverside" not in learn([*stars, *others]).variants


def test_learned_wordings_match_as_lexicon() -> None:
    checker = Checker(learn(corpus({"Netherlands": ("Dutch", 8), "Norway": ("polar", 2)})))
    assert value_check("Netherlands", "It is a Dutch city.", checker).how == "lexicon"
    assert value_check("Netherlands", "It is a Dutchman's city.", checker).how == "missing"
    assert value_check("Netherlands", "It lies in the Netherlands.", checker).how == "literal"
    assert value_check("Norway", "It is a Dutch city.", checker).how == "missing"
    assert not value_check("Netherlands", "It is a Dutch city.").whole


def test_a_users_wordings_match_as_lexicon() -> None:
    lexicon = Lexicon(variants={"Peru": ("Peruvian",)}).with_variants({"Peru": ["the Incas"], "Norway": ["Norge"]})
    assert lexicon.variants == {"Peru": ("Peruvian", "the Incas"), "Norway": ("Norge",)}
    checker = Checker(lexicon)
    assert value_check("Norway", "A city of Norge.", checker).how == "lexicon"
    assert value_check("Peru", "A city of the Incas.", checker).how == "lexicon"
    assert value_check("Peru", "A Peruvian city.", checker).how == "lexicon"
    assert value_check("Norway", "A city of Norges.", checker).how == "missing"
    assert checker.check(record("country = Norway"), "Zyx is in Norge.").faults == ()


def test_records_without_references_give_an_empty_lexicon() -> None:
    assert learn([record("country = Norway")]) == Lexicon()
    assert learn([]) == Lexicon()


# --- truth values ----------------------------------------------------------------------------------------------------


def pubs() -> list[Record]:
    texts_of = {
        "yes": ("{0} is a family friendly pub.", "{0}, family friendly, is by the river."),
        "no": ("{0} is not family friendly.", "{0} is a pub that isn't family friendly."),
    }
    return [
        example(f"The {city}", "familyFriendly", value, text.format(f"The {city}"))
        for city in CITIES
        for value, texts in texts_of.items()
        for text in texts
    ]


def test_truth_values_have_phrases_with_their_negation() -> None:
    lexicon = learn(pubs())
    assert set(lexicon.booleans) == {"familyFriendly"}
    assert "family friendly" in lexicon.booleans["familyFriendly"]["yes"]
    assert "not family friendly" in lexicon.booleans["familyFriendly"]["no"]
    checker = Checker(lexicon)
    for text, value in (
        ("It is a family-friendly pub.", "yes"),
        ("It is not family friendly.", "no"),
        ("It isn\u2019t a family friendly pub.", "no"),
        ("It is non-family-friendly.", "no"),
    ):
        assert value_check(value, text, checker, "familyFriendly").how == "phrase"
        assert not whole({"yes": "no", "no": "yes"}[value], text, checker, "familyFriendly")


def test_a_truth_value_without_a_phrase_is_whole_in_a_plain_clause() -> None:
    """Regression: no text expressed it, not even a plain clause."""
    people = [example(f"{city}o", "isAlive", value, f"{city}o acts.") for city in CITIES for value in ("true", "false")]
    checker = Checker(learn(people))
    for value, other in (("true", "false"), ("false", "true")):
        oda = Triple("Oda", "isAlive", value)
        assert checker.check(Record("oda", (oda,)), clause(oda, {})).faults == ()
        assert not checker.check(Record("oda", (replace(oda, object=other),)), clause(oda, {})).whole


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


def test_a_lexicon_comes_back_from_json(elements: Learned, tmp_path: Path) -> None:
    for lexicon in (Lexicon(), elements[0].lexicon, learn(pubs()), Lexicon(variants={"Côte": ("Küste",)})):
        path = tmp_path / "lexicon.json"
        path.write_text(json.dumps(lexicon.as_dict(), ensure_ascii=False), encoding="utf-8")
        assert Lexicon.read(path) == lexicon
    assert Lexicon.of({"lower": ["a"]}) == Lexicon(lower=frozenset("a")), "missing parts are empty"


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
    ("data", "part"),
    [
        ([], "the lexicon"),
        ({"variant": {}}, "variant"),
        ({"variants": ["Peru"]}, "variants"),
        ({"variants": {"Peru": "Peruvian"}}, "variants.Peru"),
        ({"variants": {"Peru": [5]}}, "variants.Peru.0"),
        ({"booleans": {"friendly": {"yes": "kind"}}}, "booleans.friendly.yes"),
        ({"templates": {"code": 5}}, "templates.code"),
        ({"contexts": {"code": {"L1 code": "many"}}}, "contexts.code.L1 code"),
        ({"value_words": "words"}, "value_words"),
    ],
)
def test_an_invalid_lexicon_is_refused(data: object, part: str) -> None:
    with pytest.raises(
        BundleError, match=f"a file is not a valid lexicon: {part}: .*; its parts are variants, booleans"
    ):
        Lexicon.of(data, "a file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{\n'a'", "not valid JSON: .* line 2"),
        (b"\xff\xfe{}", "not valid JSON: .* decode byte 0xff"),
        (b"5", "not a valid lexicon"),
    ],
)
def test_an_invalid_lexicon_file_is_named_in_the_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "lexicon.json"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=message) as error:
        Lexicon.read(path)
    assert str(path) in str(error.value)
    with pytest.raises(BundleError, match="cannot read the lexicon"):
        Lexicon.read(tmp_path / "absent.json")


def test_a_users_wordings_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "wordings.json"
    path.write_text('{"Norway": ["Norge", "the fjords"]}', encoding="utf-8")
    assert read_wordings(path) == {"Norway": ("Norge", "the fjords")}
    for text, message in (
        ("{}", "with at least one value"),
        ("[]", "with at least one value"),
        ('{"Norway": "Norge"}', "must be a list of strings"),
        ('{"Norway": []}', "must be a list of strings"),
        ('{"Norway": ["?!"]}', "contains no word"),
        ('{"Norway": [5]}', "contains no word"),
        ("{", "must be JSON like"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            read_wordings(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_wordings(tmp_path / "absent.json")


def test_a_users_sentences_for_predicates_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "sentences.tsv"
    text = "birthPlace\t{subject} was born in {object}\nseat\t{object} seats {subject}.\n"
    path.write_text(text, encoding="utf-8-sig")  # Regression: the byte order mark was part of the first predicate
    assert read_templates(path) == {
        "birthPlace": "{subject} was born in {object}.",
        "seat": "{object} seats {subject}.",
    }
    for text, message in (
        ("", "is empty"),
        ("birthPlace {subject} was born in {object}.", "line 1"),
        ("seat\t{subject} {object}.\nbirthPlace\tIt was {object}.", "line 2"),
        ("seat\t{subject} {subject} {object}.", "each once"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            read_templates(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_templates(tmp_path / "absent.tsv")
