"""Sentences for single triples: templates, phrases of another corpus, plain clauses; articles of names."""

from itertools import chain, cycle
from pathlib import Path

import pytest

from agggen.generation.fallbacks import fallback_sentence
from agggen.records import NO_SUBJECT, Record, Reference, Triple
from agggen.verification.check import Checker
from agggen.verification.clauses import fill_template, plain_clause
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon, common_phrases
from agggen.verification.templates import learn_phrases
from tests.unit.verification.conftest import Learned, records_of
from tests.unit.verification.texts import CITIES, example


def inns(*texts: str, predicate: str = "food", values: str = "Thai", **others: str) -> list[Record]:
    """For each text a record about ``Oslo Inn``, ``Rome Inn``, ...; `values` take turns."""
    items = zip(texts, cycle(CITIES), cycle(values.split()), strict=False)
    return [
        example(f"{city} Inn", predicate, value, text.format(f"{city} Inn", value), **others)
        for text, city, value in items
    ]


def test_a_template_is_the_most_frequent_text_of_one_triple() -> None:
    records = [
        *inns(*["{} is in period {}."] * 8, predicate="period", values="0 1 2 3 4 5 6 7"),
        *inns(*["{} stands in period {}."], *["{} is in period {} with Berlin."] * 20, predicate="period", values="9"),
        *inns(*["{0} is in period {1}, a {0}."] * 20, predicate="period", values="9"),
        *inns(*["{}, in period {} and group 7."] * 20, predicate="period", values="9", group="7"),
    ]
    template = learn(records).templates["period"]
    assert template == "{subject} is in period {object}."
    assert fill_template(template, Triple("Radium", "period", "7"), {}) == "Radium is in period 7."


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Ulm Inn opened in 1973.", "They began to build Ulm Inn in 1973."), 1),
        (("Ulm Inn was put up in 1973.", "Ulm Inn opened in 1973."), 1),
        (("Ulm Inn is 1973.", "Ulm Inn build begin is 1973."), 0),
        (('Ulm Inn began "1973".', "Ulm Inn is 1973."), 1),
    ],
)
def test_of_equally_frequent_templates_the_one_with_most_words_of_the_predicate_is_best(
    texts: tuple[str, ...], expected: int
) -> None:
    """Unless it is doubtful; the shorter of two with equally many words."""
    records = [example("Ulm Inn", "buildBegin", "1973", text) for text in texts]
    best = texts[expected].replace("Ulm Inn", "{subject}").replace("1973", "{object}")
    assert learn(records).templates == {"buildBegin": best}


def test_with_few_texts_of_one_triple_a_template_is_a_frequent_sentence_with_one_triple() -> None:
    """Excluded: sentences that also express another triple, or that are in fewer than three texts."""
    frequent = inns(*["{} serves {} food. It is a pub."] * 3, values="Thai French Greek", eatType="pub")
    rare = ["The food of {} is {}. It is a pub."] * 2
    others = inns(*["{} serves {} food in the pub."] * 2, *rare, eatType="pub")
    single = example("Ulm Inn", "food", "Thai", "Ulm Inn is Thai.")
    for records, template in (
        ([*frequent, *others], "{subject} serves {object} food."),
        ([*frequent[1:], *others], None),
        ([*frequent[1:], *others, single], "{subject} is {object}."),
        ([*frequent, *others, single], "{subject} serves {object} food."),  # more frequent
        ([*frequent, *others, single, single, single], "{subject} is {object}."),
    ):
        assert learn(records).templates == ({"food": template} if template else {})


def test_a_template_has_no_value_of_another_predicate() -> None:
    """Such a template would express this value for all subjects. Values of few records count as ordinary words."""
    prices = "low moderate high"
    records = inns(*["{} is a {} priced, average inn."] * 8, predicate="price", values=prices)
    records += inns(*["{} costs {}."] * 3, predicate="price", values=prices)
    assert learn(records).templates["price"] == "{subject} is a {object} priced, average inn."
    rated = inns(*["{} is rated {}."] * 6, predicate="rating", values="average average average average average high")
    assert learn([*records, *rated]).templates["price"] == "{subject} costs {object}."


def test_a_filled_template_has_the_value_even_if_it_contains_placeholders(elements: Learned) -> None:
    checker = elements[0]
    for predicate, template in checker.lexicon.templates.items():
        for value in ("17", "Jöns Jacob Berzelius", "{subject}", "a {object}", "Tom Jr."):
            triple = Triple("{object}ium", predicate, value)
            text = fill_template(template, triple, {})
            assert checker.values(Record("r", (triple,)), text)[0].whole, text
            assert not text.endswith(".."), text


def test_articles_before_names_are_those_of_the_training_texts() -> None:
    """Mentions inside longer names, and names in fewer than three texts, are ignored."""
    texts = ["Aarhus lies in {}.", "{} has Aarhus.", "Aarhus ({})"]
    references = {
        "Denmark": [text.format("Denmark") for text in texts] + ["Aarhus is on the Denmark Strait."] * 9,
        "United States": [text.format("the United States") for text in texts] + ["Aarhus is in United States."],
        "Peru": [text.format("the Peru") for text in texts[1:]],
        "north": [text.format("the north") for text in texts],
    }
    records = [example("Aarhus", "country", name, text) for name, own in references.items() for text in own]
    assert learn(records).articles == {"Aarhus": 0.0, "Denmark": 0.0, "United States": 0.75}


def test_genders_are_those_of_pronouns_in_texts_about_a_subject_that_is_not_a_value() -> None:
    oz_and_ann = Record(
        "r", (Triple("Ann", "home", "Oz"), Triple("Oz", "leader", "Bo")), (Reference("Her home is Oz."),)
    )
    records = [
        example("Ann", "home", "Oz", "Ann lives in Oz."),
        example("Oz", "leader", "Bo", "Oz is led by Bo."),
        example("Bo", "home", "Oz", "Himself a poet, Bo lives in Oz."),
        oz_and_ann,
    ]
    assert learn(records).genders == {"Ann": ("female",), "Bo": ("male",)}


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
        ("{subject} opened in {object}.", Triple("Ulm", "opened", "1999-05-30"), "Ulm opened on 30 May 1999."),
        ("{subject} opened in {object}.", Triple("Ulm", "opened", "May 30, 1999"), "Ulm opened on May 30, 1999."),
        ("{subject} opened in {object}.", Triple("Ulm", "opened", "May 1999"), "Ulm opened in May 1999."),
        ("{subject} is a {object}.", Triple("Zyx", "category", "metal"), "Zyx is a metal."),
        ("{subject}' fee is {object}.", Triple("Bern", "fee", "9"), "Bern's fee is 9."),
        ("{subject}' fee is {object}.", Triple("Two Inns", "fee", "9"), "Two Inns' fee is 9."),
    ],
)
def test_articles_and_dates_are_adapted_to_the_names_and_values(template: str, triple: Triple, expected: str) -> None:
    assert fill_template(template, triple, {"Denmark": 0.2, "United States": 0.8}) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Ulm", "Bakso is from the Ulm region."),
        ("University of Ulm", "Bakso is from the University of Ulm region."),
        ("Nationwide in Oz", "The region of Bakso is Nationwide in Oz."),
        ("Ulm, but also Oz", "The region of Bakso is Ulm, but also Oz."),
    ],
)
def test_a_phrase_does_not_precede_a_noun_of_a_template(value: str, expected: str) -> None:
    checker = Checker(Lexicon(templates={"region": "{subject} is from the {object} region."}))
    assert fallback_sentence(checker, Triple("Bakso", "region", value)) == expected


@pytest.mark.parametrize(
    ("triple", "expected"),
    [
        (Triple("Aromi", "eatType", "pub"), "The eat type of Aromi is pub."),
        (Triple("Aspirin", "interactsWith", "warfarin"), "Aspirin interacts with warfarin."),
        (Triple("The Mill", "near", "Avalon"), "The Mill is near Avalon."),
        (Triple("Oda", "founded_in", "1990"), "Oda was founded in 1990."),
        (Triple("Oda", "broadcastBy", "NRK"), "Oda is broadcast by NRK."),
        (Triple("Oda", "usedIn", "steel making"), "Oda is used in steel making."),
        (Triple("Oda", "waterproof", "true"), "Oda: waterproof: true."),
        (Triple("Oda", "needFor", "salt"), "Oda: need for: salt."),
        (Triple("Oda", "diedOn", "2001-02-03"), "Oda died on 3 February 2001."),
        (Triple("Oda", "diedOn", "2001-02"), "Oda died on 2001-02."),
        (Triple("Oda", "established", "1999"), "Oda was established in 1999."),
        (Triple("Oda", "founded", "1999-05-30"), "Oda was founded on 30 May 1999."),
        (Triple("Oda", "founded", "Ulm"), "Oda: founded: Ulm."),
        (Triple("Oda", "addedToTheRegister", "1988-11-22"), "Oda was added to the register on 22 November 1988."),
        (Triple("Oda", "foundedBy", "1999"), "Oda was founded by 1999."),
        (Triple("Oda", "establishedYear", "1999"), "The established year of Oda is 1999."),
        (Triple("Oda", "height_(in_cm)", "170"), "Oda has a height of 170 cm."),
        (Triple("Oda", "area", "1,200.5 km2"), "Oda has an area of 1,200.5 km2."),
        (Triple("Oda", "speed", "0.5 (kilometrePerSeconds)"), "Oda has a speed of 0.5 kilometres per second."),
        (Triple("Oda", "volume", "3 (cubicCentimetres)"), "Oda has a volume of 3 cubic centimetres."),
        (Triple("Oda", "net_income", "747 (estimate)"), "Oda has a net income of 747 (estimate)."),
        (Triple("Oda", "length", "two feet"), "The length of Oda is two feet."),
        (Triple("Oda", "postal_code", "D 7"), "Oda has the postal code D 7."),
        (Triple("Oda", "floorCount", "3"), "Oda has 3 floors."),
        (Triple("Oda", "employees", "1,200"), "Oda has 1,200 employees."),
        (Triple("Oda", "inStock", "yes"), "Oda: in stock: yes."),
        (Triple("Oda", "awardsWon", "Gold Cup"), "The awards won by Oda include Gold Cup."),
        (Triple("Oda", "floorCount", "1"), "The floor count of Oda is 1."),
        (Triple("Oda", "children", "Una, Vera"), "The children of Oda are Una, Vera."),
        (Triple("Oda", "awards", "two medals"), "The awards of Oda are two medals."),
        (Triple("Oda", "numberOfMembers", "12"), "Oda has 12 members."),
        (Triple("Oda", "hasChild", "Tom Jr."), "The child of Oda is Tom Jr."),
        (Triple("Oda", "hasToItsWest", "Ulm"), "Oda has to its west Ulm."),
        (Triple("Oda", "leaderName", "Ann"), "The leader of Oda is Ann."),
        (Triple("Oda", "formerName", "Ann"), "The former name of Oda is Ann."),
        (Triple("Oda", "awards", "Gold Cup"), "The awards of Oda include Gold Cup."),
        (Triple("Oda", "headquarters", "Ulm"), "The headquarters of Oda is Ulm."),
        (Triple("Oda", "placeBuried", "Ulm"), "The place buried of Oda is Ulm."),
        (Triple("Oda", "firstAired", "1983-10-03"), "Oda was first aired on 3 October 1983."),
        (Triple("Oda", "was selected by NASA", "1962"), "Oda was selected by NASA in 1962."),
        (Triple("Oda", "motto", "Why not?"), "The motto of Oda is Why not?."),
        (Triple("Oda", "isAlive", "false"), "Oda: is alive: false."),
        (Triple(NO_SUBJECT, "mainDishes", "fish, peas"), "The main dishes are fish, peas."),
        # names with articles
        (Triple("United States", "leader", "Ann"), "The leader of the United States is Ann."),
        (Triple("United States", "isPartOf", "UN"), "The United States is part of the UN."),
        (Triple("Denmark", "isPartOf", "Peru"), "Denmark is part of Peru."),
        # names that the training texts lack
        (Triple("Soviet Union", "enemyOf", "German Empire"), "The Soviet Union is enemy of the German Empire."),
        (Triple("Oda", "party", "Labour Party (UK)"), "The party of Oda is the Labour Party (UK)."),
        (Triple("Oda", "party", "The Labour Party"), "The party of Oda is The Labour Party."),
        (Triple("Oda", "motto", "Dad's Army"), "The motto of Oda is Dad's Army."),
        (Triple("Oda", "motto", "War"), "The motto of Oda is War."),
    ],
)
def test_a_clause_consists_of_the_predicate_s_words(triple: Triple, expected: str) -> None:
    assert plain_clause(triple, {"Denmark": 0.0, "United States": 1.0, "UN": 0.6}) == expected


def test_common_phrases_with_in_are_only_for_places_and_times() -> None:
    texts = [
        fallback_sentence(Checker(), Triple("Oda", "location", value)) for value in ("online", "Ulm", "7 Oak Lane")
    ]
    assert texts == ["The location of Oda is online.", "Oda is located in Ulm.", "The location of Oda is 7 Oak Lane."]


def test_templates_take_precedence_over_common_phrases_and_these_over_phrases_of_another_corpus() -> None:
    lexicon = Lexicon(templates={"birthPlace": "A"}, phrases={"birth place": "B", "home": "B", "death place": "B"})
    templates = [lexicon.template(name) for name in ("birthPlace", "home", "placeOfDeath")]
    assert templates == ["A", "B", "{subject} died in {object}."]


def test_every_common_phrase_expresses_its_triple() -> None:
    for name, template in common_phrases().items():
        triple = Triple("Oda Berg", name, "Voss-7")
        text = fill_template(template, triple, {})
        check = Checker().check(Record("oda", (triple,)), text)
        assert [value.kind for value in check.values] == ["literal"] and check.faults == (), text


def test_a_clause_has_no_fault(elements: Learned) -> None:
    for checker in (Checker(), elements[0]):
        for triple in chain.from_iterable(item.triples for item in elements[2]("dev")):
            assert checker.check(Record("r", (triple,)), plain_clause(triple, checker.lexicon.articles)).faults == ()
            nameless = Triple(NO_SUBJECT, triple.predicate, triple.object)
            assert checker.check(Record("r", (nameless,)), plain_clause(nameless, checker.lexicon.articles)).whole


def test_phrases_with_exchanged_subject_and_object_or_other_content_are_not_learned() -> None:
    texts = {
        "place of birth": ("{s} was born in {o}.", "{s} was born in {o}.", "The place of birth of {s} is {o}."),
        "residence": ("{s} lives in {o}.",),
        "region": ("{s} is a region of {o}.", "The region of {s} is {o}."),
        "capital of": ("{s} is the capital of {o}.",),
        "followed by": ("{o} is followed by {s}.",),
        "ethnic group": ("{s} belong to the ethnic group {o}.",),
        "mayor": ("{s} is a pretty old town whose mayor is {o}.",),
        "height": ("{s} and {s} have the height {o}.",),
        "award": ("{s} has the award {o}, of Norway.",),
    }
    records = [
        example(f"Name{n}", predicate, f"Value{n}", text.format(s=f"Name{n}", o=f"Value{n}"))
        for predicate, own in texts.items()
        for n, text in enumerate(own)
    ]
    assert learn_phrases(records) == {
        "birth of place": "{subject} was born in {object}.",
        "region": "The region of {subject} is {object}.",
        "capital of": "{subject} is the capital of {object}.",
    }


def test_phrases_of_single_facts_in_rel2text(data_home: Path) -> None:
    phrases = learn_phrases(records_of("rel2text", "train"))
    assert len(phrases) > 500
    assert phrases["birth place"] == "{subject} was born in {object}."
