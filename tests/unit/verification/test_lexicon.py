"""What a lexicon learns from training texts, what it does not, and how it is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agggen.errors import BundleError, ConfigError
from agggen.records import Record
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon, read_templates, read_wordings
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import CITIES, record, told, value_check, whole

KINDS = ("city", "town", "port", "place", "site", "spot", "hub", "seat")


def corpus(countries: dict[str, tuple[str, int]]) -> list[Record]:
    """For each country so many cities, of which the texts say its word; and as many that say it literally."""
    records = []
    for country, (word, count) in countries.items():
        for city, kind in zip(CITIES[:count], KINDS, strict=False):
            records.append(told(f"{city} {country}", "country", country, f"{city} is a {word} {kind}."))
            records.append(told(f"{city} {country}", "country", country, f"{city} lies in {country}."))
    return records


# --- wordings of values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("texts", "learned"), [(2, {}), (3, {"Netherlands": ("Netherish",)})])
def test_a_wording_like_its_value_is_learned_from_three_texts(texts: int, learned: dict) -> None:
    records = corpus({"Netherlands": ("Netherish", texts), "Norway": ("polar", 2)})
    assert learn(records).variants == learned


@pytest.mark.parametrize(("texts", "learned"), [(4, {}), (5, {"Netherlands": ("Dutch",)})])
def test_a_wording_unlike_its_value_is_learned_from_five_texts(texts: int, learned: dict) -> None:
    assert learn(corpus({"Netherlands": ("Dutch", texts), "Norway": ("polar", 2)})).variants == learned


def test_a_wording_of_one_subject_is_not_learned() -> None:
    records = [told("Oslo", "country", "Netherlands", f"Oslo is a Netherish city{'!' * n}.") for n in range(6)]
    assert learn(records).variants == {}


def test_a_wording_that_is_common_where_the_value_is_said_is_not_learned() -> None:
    records = corpus({"Netherlands": ("Netherish", 6)})
    more = [
        told(f"{city} X", "country", "Netherlands", f"{city}, a Netherish city, lies in the Netherlands.")
        for city in CITIES
    ]
    assert learn(records).variants == {"Netherlands": ("Netherish",)}
    assert learn(records + more).variants == {}


def test_a_wording_with_half_of_a_value_is_not_learned() -> None:
    """ "Jöns Berzelius is no wording of Jöns Jacob Berzelius, however often it is written."""
    records = [told(f"{city}ium", "by", "Jöns Jacob Berzelius", f"{city}ium: Jöns Berzelius.") for city in CITIES]
    lexicon = learn(records)
    assert not whole("Jöns Jacob Berzelius", "It was by Jöns Berzelius.", Checker(lexicon), "by")


def test_neither_another_value_nor_what_another_predicate_says_is_learned() -> None:
    false = [told(f"{city} Inn", "area", "riverside", f"{city} Inn is in the city centre.") for city in CITIES[:6]]
    true = [told("Graz Inn", "area", "city centre", "Graz Inn is in the city centre.")]
    assert "riverside" not in learn([*false, *true]).variants
    stars = [told(f"{city} Inn", "area", "riverside", f"{city} Inn has a star.", rating="1") for city in CITIES[:6]]
    others = [told(f"{city} Hut", "rating", "1", f"{city} Hut has a star.") for city in CITIES[:6]]
    assert learn(stars).variants["riverside"] == ("star",), "with no text that tells them apart"
    assert "riverside" not in learn([*stars, *others]).variants


def test_what_is_learned_counts_apart() -> None:
    checker = Checker(learn(corpus({"Netherlands": ("Dutch", 8), "Norway": ("polar", 2)})))
    assert value_check("Netherlands", "It is a Dutch city.", checker).how == "lexicon"
    assert value_check("Netherlands", "It is a Dutchman's city.", checker).how == "missing"
    assert value_check("Netherlands", "It lies in the Netherlands.", checker).how == "literal"
    assert value_check("Norway", "It is a Dutch city.", checker).how == "missing"
    assert not value_check("Netherlands", "It is a Dutch city.").whole


def test_wordings_that_a_user_gives_count_as_lexicon() -> None:
    given = Lexicon(variants={"Peru": ("Peruvian",)}).with_variants({"Peru": ["the Incas"], "Norway": ["Norge"]})
    assert given.variants == {"Peru": ("Peruvian", "the Incas"), "Norway": ("Norge",)}
    checker = Checker(given)
    assert value_check("Norway", "A city of Norge.", checker).how == "lexicon"
    assert value_check("Peru", "A city of the Incas.", checker).how == "lexicon"
    assert value_check("Peru", "A Peruvian city.", checker).how == "lexicon"
    assert value_check("Norway", "A city of Norges.", checker).how == "missing"
    assert checker.check(record("country = Norway"), "Zyx is in Norge.").faults == ()


def test_records_without_references_teach_nothing() -> None:
    assert learn([record("country = Norway")]) == Lexicon()
    assert learn([]) == Lexicon()


# --- truth values ----------------------------------------------------------------------------------------------------


def pubs() -> list[Record]:
    expected = {
        "yes": ("{0} is a family friendly pub.", "{0}, family friendly, is by the river."),
        "no": ("{0} is not family friendly.", "{0} is a pub that isn't family friendly."),
    }
    return [
        told(f"The {city}", "familyFriendly", value, text.format(f"The {city}"))
        for city in CITIES
        for value, texts in expected.items()
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
        second = {"yes": "no", "no": "yes"}[value]
        assert value_check(value, text, checker, "familyFriendly").how == "phrase"
        assert not whole(second, text, checker, "familyFriendly")


@pytest.mark.parametrize("word", ["symbol", "No", "Yes"])
def test_a_predicate_with_other_values_has_no_truth_values(word: str) -> None:
    symbols = [told(f"{city}ium", "symbol", city[:2], f"{city}ium has the symbol {city[:2]}.") for city in CITIES]
    symbols += [told(f"Nobelium{n}", "symbol", "No", f"Nobelium{n} has the symbol No.") for n in range(5)]
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
    records = [told(city, "code", f"{n}", f"{city} has the ICAO code {n}.") for n, city in enumerate(CITIES, start=1)]
    for name in ("country", "state", "district"):
        records += [told(city, name, f"{city}land", f"{city} lies in {city}land.") for city in CITIES]
    assert learn(records).wordings == {"code": ("icao",)}
    assert Checker(learn(records)).check(record("code = 77"), "Zyx has the ICAO code 77.").faults == ()
    assert Checker(learn(records)).check(record("country = Peru"), "Zyx, ICAO, is in Peru.").invented == ("ICAO",)


def test_a_name_that_was_once_written_small_is_still_a_name() -> None:
    """Once, "created by the American Ann" passed, since eight texts of thousands have "american"."""
    text = "{0} was made by {0}ov, an {1} who likes {2}."
    records = [told(city, "maker", f"{city}ov", text.format(city, "American", "Tea")) for city in CITIES for _ in "abc"]
    records += [told("Ulm", "maker", "Ulmov", text.format("Ulm", "american", "tea")) for _ in "a"]
    records += [told("Ulm", "maker", "Ulmov", text.format("Ulm", "American", "tea")) for _ in "abc"]
    lexicon = learn(records)
    assert "american" not in lexicon.lower and "tea" in lexicon.lower


def test_values_of_a_predicate_and_words_of_other_predicates_are_no_wordings() -> None:
    """Once, "avocado" was a wording of ``ingredient``, so that texts could invent it."""
    foods = ("Rye", "Salt", "Avocado", "Rice", "Fish")
    records = [
        told(
            f"{city}er {food}",
            "ingredient",
            food,
            f"{city}er {food} has {food} and {other}, by its ISBN {n}.",
            ISBN=str(n),
        )
        for n, (city, food, other) in enumerate(zip(CITIES, foods * 2, foods[1:] * 2, strict=False))
    ]
    for name in ("country", "state", "district"):
        records += [told(city, name, f"{city}land", f"{city} lies in {city}land.") for city in CITIES]
    assert learn(records).wordings == {}


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_lexicon_comes_back_from_json(elements: Learned, tmp_path: Path) -> None:
    for lexicon in (Lexicon(), elements[0].lexicon, learn(pubs()), Lexicon(variants={"Côte": ("Küste",)})):
        path = tmp_path / "lexicon.json"
        path.write_text(json.dumps(lexicon.as_dict(), ensure_ascii=False), encoding="utf-8")
        assert Lexicon.read(path) == lexicon
    assert Lexicon.of({"lower": ["a"]}) == Lexicon(lower=frozenset("a")), "parts may be left out"


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
        (b"{\n'a'", "line 2 is not JSON"),
        (b"", "line 1 is not JSON"),
        (b"\xff\xfe{}", "cannot read"),
        (b"5", "not a valid lexicon"),
    ],
)
def test_a_file_that_holds_no_lexicon_is_refused_by_its_name(tmp_path: Path, content: bytes, message: str) -> None:
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
    path.write_text("birthPlace\t{subject} was born in {object}\nseat\t{object} seats {subject}.\n", encoding="utf-8")
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
