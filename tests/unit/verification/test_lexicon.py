"""What a lexicon learns from training texts, what it does not, and how it is kept."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.errors import BundleError, ConfigError
from agggen.records import NO_SUBJECT, Record, Reference, Triple
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon, clause, fill, read_templates, read_wordings
from agggen.verification.templates import learn_phrases
from tests.unit.verification.conftest import Learned
from tests.unit.verification.texts import record, value_check, whole

CITIES = ("Oslo", "Rome", "Bern", "Kyiv", "Lima", "Baku", "Cork", "Graz")
KINDS = ("city", "town", "port", "place", "site", "spot", "hub", "seat")


def told(subject: str, predicate: str, value: str, text: str, **others: str) -> Record:
    triples = [
        Triple(subject, predicate, value),
        *(Triple(subject, name, expected) for name, expected in others.items()),
    ]
    return Record(f"{subject} {text[:20]}", tuple(triples), (Reference(text),))


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


def test_a_template_is_the_most_frequent_text_of_one_triple() -> None:
    records = [told(f"{city}ium", "period", str(n), f"{city}ium is in period {n}.") for n, city in enumerate(CITIES)]
    records += [told("Xium", "period", "9", "Xium stands in period 9.")]
    records += [told("Yium", "period", "9", "Yium is in period 9 with Berlin.") for _ in range(20)]
    records += [told("Zium", "period", "9", "Zium is in period 9, a Zium.") for _ in range(20)]
    records += [told("Qium", "period", "9", "Qium, in period 9 and group 7.", group="7") for _ in range(20)]
    template = learn(records).templates["period"]
    assert template == "{subject} is in period {object}."
    assert fill(template, Triple("Radium", "period", "7"), {}) == "Radium is in period 7."


def test_without_texts_of_one_triple_a_template_is_a_sentence_that_says_one() -> None:
    """Not one that says another triple too, nor one in fewer than three texts."""
    alone, with_other = "{0} Inn serves {1} food. It is a pub.", "{0} Inn serves {1} food in the pub."
    rare = "The food of {0} Inn is {1}. It is a pub."
    records = [
        told(f"{city} Inn", "food", food, text.format(city, food), eatType="pub")
        for text in (alone, with_other, with_other, rare, rare)
        for city, food in zip(CITIES[: 3 if text == alone else 1], ("Thai", "French", "Greek"), strict=False)
    ]
    assert learn(records).templates == {"food": "{subject} serves {object} food."}
    assert learn(records[1:]).templates == {}
    single = told("Ulm Inn", "food", "Thai", "Ulm Inn is Thai.")
    assert learn([*records, single]).templates == {"food": "{subject} is {object}."}


def test_a_filled_template_says_its_triple_whatever_is_in_it(elements: Learned) -> None:
    checker = elements[0]
    for predicate, template in checker.lexicon.templates.items():
        for value in ("17", "Jöns Jacob Berzelius", "{subject}", "a {object}", "Tom Jr."):
            triple = Triple("{object}ium", predicate, value)
            text = fill(template, triple, {})
            assert checker.values(Record("r", (triple,)), text)[0].whole, text
            assert not text.endswith(".."), text


def test_articles_before_names_are_those_of_the_training_texts() -> None:
    """Texts in which the name is part of a longer one, and names in fewer than three texts, teach nothing."""
    texts = ["Aarhus lies in {} {}.", "{0} {1} has Aarhus.", "Aarhus ({} {})"]
    records = [told("Aarhus", "country", "Denmark", text.format("", "Denmark").strip()) for text in texts]
    records += [told("Aarhus", "country", "Denmark", "Aarhus is on the Denmark Strait.") for _ in range(9)]
    records += [told("Aarhus", "country", "United States", text.format("the", "United States")) for text in texts]
    records += [told("Aarhus", "country", "Peru", text.format("the", "Peru")) for text in texts[1:]]
    records += [told("Aarhus", "country", "north", text.format("the", "north")) for text in texts]
    assert learn(records).articles == {"Aarhus": False, "Denmark": False, "United States": True}


@pytest.mark.parametrize(
    ("template", "triple", "expected"),
    [
        ("{subject} is in the {object}.", Triple("Ulm", "country", "Denmark"), "Ulm is in Denmark."),
        ("{subject} is in {object}.", Triple("Ulm", "country", "United_States"), "Ulm is in the United States."),
        ("{subject} is in the {object}.", Triple("Ulm", "country", "United_States"), "Ulm is in the United States."),
        ("{subject} is in the {object}.", Triple("Ulm", "country", "Peru"), "Ulm is in the Peru."),
        ("The {subject}'s area is {object}.", Triple("Denmark", "area", "9"), "Denmark's area is 9."),
        ("{subject}'s area is {object}.", Triple("United States", "area", "9"), "The United States's area is 9."),
        ("{subject} is a {object} city.", Triple("Ulm", "country", "United States"), "Ulm is an United States city."),
        ("Ulm, {subject}, has {object}.", Triple("United States", "has", "9"), "Ulm, United States, has 9."),
    ],
)
def test_a_template_takes_the_article_of_the_name(template: str, triple: Triple, expected: str) -> None:
    assert fill(template, triple, {"Denmark": False, "United States": True}) == expected


def test_a_clause_takes_the_article_of_the_name() -> None:
    for triple, expected in (
        (Triple("United States", "leader", "Ann"), "The leader of the United States is Ann."),
        (Triple("United States", "isPartOf", "UN"), "The United States is part of the UN."),
        (Triple("Denmark", "isPartOf", "Peru"), "Denmark is part of Peru."),
    ):
        assert clause(triple, {"Denmark": False, "United States": True, "UN": True}) == expected


@pytest.mark.parametrize(
    ("triple", "expected"),
    [
        (Triple("Aromi", "eatType", "pub"), "The eat type of Aromi is pub."),
        (Triple("Aspirin", "interactsWith", "warfarin"), "Aspirin interacts with warfarin."),
        (Triple("Voss", "isPartOf", "Norway"), "Voss is part of Norway."),
        (Triple("The Mill", "near", "Avalon"), "The Mill is near Avalon."),
        (Triple("Oda", "madeBy", "Ann"), "Oda is made by Ann."),
        (Triple("Oda", "founded_in", "1990"), "Oda is founded in 1990."),
        (Triple("Oda", "broadcastBy", "NRK"), "Oda is broadcast by NRK."),
        (Triple("Oda", "needFor", "salt"), "Oda: need for: salt."),
        (Triple("Oda", "memberOf", "the crew"), "Oda is member of the crew."),
        (Triple("Oda", "successor to", "Ann"), "Oda: successor to: Ann."),
        (Triple("Oda", "diedOn", "2001-02-03"), "Oda died on 2001-02-03."),
        (Triple("Oda", "worked at", "NRK"), "Oda worked at NRK."),
        (Triple("Oda", "contains", "salt"), "Oda contains salt."),
        (Triple("Oda", "alias", "Od"), "The alias of Oda is Od."),
        (Triple("Oda", "children", "Una, Vera"), "The children of Oda are Una, Vera."),
        (Triple("Oda", "awards", "two medals"), "The awards of Oda are two medals."),
        (Triple("Oda", "numberOfMembers", "12"), "The number of members of Oda is 12."),
        (Triple("Oda", "status", "retired"), "The status of Oda is retired."),
        (Triple("Oda", "hasChild", "Tom Jr."), "Oda has child Tom Jr."),
        (Triple("Oda", "motto", "Why not?"), "The motto of Oda is Why not?."),
        (Triple("Oda", "isAlive", "false"), "Oda: is alive: false."),
        (Triple(NO_SUBJECT, "mainDishes", "fish, peas"), "The main dishes are fish, peas."),
        (Triple(NO_SUBJECT, "eatType", "pub"), "The eat type is pub."),
    ],
)
def test_a_clause_is_made_of_the_predicate_s_words(triple: Triple, expected: str) -> None:
    assert clause(triple, {}) == expected


def test_a_clause_says_its_triple(elements: Learned) -> None:
    for checker in (Checker(), elements[0]):
        for triple in chain.from_iterable(item.triples for item in elements[2]("dev")):
            given = Record("r", (triple,))
            assert checker.check(given, clause(triple, checker.lexicon.articles)).faults == ()
            nameless = Triple(NO_SUBJECT, triple.predicate, triple.object)
            assert checker.check(Record("r", (nameless,)), clause(nameless, checker.lexicon.articles)).whole


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
        ([], "the whole"),
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
        ("", "has no line"),
        ("birthPlace {subject} was born in {object}.", "line 1"),
        ("seat\t{subject} {object}.\nbirthPlace\tIt was {object}.", "line 2"),
        ("seat\t{subject} {subject} {object}.", "each once"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            read_templates(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_templates(tmp_path / "absent.tsv")


def test_phrases_do_not_exchange_subject_and_object() -> None:
    """Texts that exchange subject and object, or say more than the predicate, are not learned."""
    texts = {
        "place of birth": ("{s} was born in {o}.", "{s} was born in {o}.", "The place of birth of {s} is {o}."),
        "residence": ("{s} lives in {o}.",),
        "region": ("{s} is a region of {o}.", "The region of {s} is {o}."),
        "capital of": ("{s} is the capital of {o}.",),
        "followed by": ("{o} is followed by {s}.",),
        "mayor": ("{s} is a pretty old town whose mayor is {o}.",),
        "height": ("{s} and {s} have the height {o}.",),
        "award": ("{s} has the award {o}, of Norway.",),
    }
    records = [
        told(f"Name{number}", predicate, f"Value{number}", text.format(s=f"Name{number}", o=f"Value{number}"))
        for number, (predicate, text) in enumerate((key, text) for key, values in texts.items() for text in values)
    ]
    assert learn_phrases(records) == {
        "birth of place": "{subject} was born in {object}.",
        "region": "The region of {subject} is {object}.",
        "capital of": "{subject} is the capital of {object}.",
    }


def test_phrases_of_single_facts_in_rel2text(data_home: Path) -> None:
    phrases = learn_phrases(split_rejects(load("rel2text", "train", data_home))[0])
    assert len(phrases) > 500
    assert phrases["birth place"] == "{subject} was born in {object}."
    assert Lexicon(phrases=phrases).template("placeOfDeath") == "{subject} died in {object}."
