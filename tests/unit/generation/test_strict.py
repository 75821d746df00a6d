"""Constrained generation: texts pass the strict check even with an untrained model."""

from dataclasses import replace
from typing import Any

import pytest

from agggen.bundle import load_bundle
from agggen.datasets import load_dataset
from agggen.generation.fallbacks import fallback_sentences
from agggen.generation.generator import Generation, Generator
from agggen.generation.hypotheses import PlanPrefix
from agggen.generation.planner import unknown_groups
from agggen.generation.record_constraints import RecordConstraints
from agggen.records import Plan, Record, Triple
from agggen.training.data import bundle_folder
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from tests.unit.generation.test_generator import RECORDS, SHORT, STRANGE, generator
from tests.unit.generation.test_judge import word_ids
from tests.unit.verification.texts import example
from tests.unit.verification.texts import record as record_of

STRICT = replace(SHORT, verify="strict", beam=replace(SHORT.beam, max_fact_tokens=12))


def constrained_text(record: Record, plan: str | None = None, **settings: Any) -> Generation:
    plans = [Plan.parse(plan)] if plan else None
    ((text,),) = generator().generate([record], plans, config=replace(STRICT, **settings))
    return text


@pytest.mark.usefixtures("improbable_facts")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("copying", [0.0, 6.0])
def test_no_text_has_a_fault(seed: int, copying: float) -> None:
    for record, result in zip(RECORDS, generator(seed, copying=copying).generate(RECORDS, config=STRICT), strict=True):
        (text,) = result
        assert text.fulfilled, text.faults
        assert Checker().check(record, text.text).faults == ()
        assert text.unknown_predicates == (("never-seen",) if record is STRANGE else ())
        assert sorted(text.plan.predicates) == sorted(record.predicates)


@pytest.mark.parametrize(
    ("triples", "expected"),
    [
        ("leaderName = Ann; leaderName = Bob", "The leaders of Zyx are Ann and Bob."),
        ("isPartOf = Oslo; isPartOf = Norway", "Zyx is part of Oslo and Norway."),
        ("cityServed = Ulm; cityServed = Bonn Co.", "The cities served by Zyx are Ulm and Bonn Co."),
        ("awards = Gold Cup; awards = Silver Cup", "Zyx received Gold Cup and Silver Cup."),
        ("prizes = Gold Cup; prizes = Silver Cup", "The prizes of Zyx are Gold Cup and Silver Cup."),
        ("club = Voss F.C.; heir = Una; club = Bo", "The clubs of Zyx are Voss F.C. and Bo and the heir is Una."),
        ("hasChild = Una; hasChild = Vera", "The children of Zyx are Una and Vera."),
        ("height = 3 cm; height = 5 cm", "Zyx has a height of 3 cm and has a height of 5 cm."),
        ("number of wings = two; number of wings = many", "The numbers of wings of Zyx are two and many."),
        ("leader = Ann; floorCount = 2; birthPlace = Ulm", "Zyx has 2 floors, was born in Ulm, and the leader is Ann."),
        # facts about a value in a relative clause, if "who" or "which" is not needed or known; not after a list
        (
            "country = Norway; form = red; Norway | elevation = 7 m",
            "The form of Zyx is red and the country is Norway, which has an elevation of 7 m.",
        ),
        (
            "director = Ann; Ann | birthPlace = Ulm; Ann | residence = Bonn",
            "The director of Zyx is Ann, who was born in Ulm and resides in Bonn.",
        ),
        (
            "location = Ulm; Ulm | language = German; Ulm | isPartOf = Bavaria",
            "Zyx is located in Ulm, which is part of Bavaria and whose language is German.",
        ),
        (
            "heir = Bo; Bo | instrument = bass; Bo | precededBy = Una",
            "The heir of Zyx is Bo, Bo is preceded by Una, and the instrument is bass.",
        ),
        (
            "heir = Bo; heir = Una; Una | taste = bitter",
            "The heirs of Zyx are Bo and Una and the taste of Una is bitter.",
        ),
        ("clubs = Ulm FC; clubs = Labour Party", "The clubs of Zyx are Ulm FC and the Labour Party."),
        # only compatible sentences are joined; lists come last
        (
            "uses = salt, glue; is sold = yes; taste = bitter",
            "The taste of Zyx is bitter and the uses are salt, glue. Zyx: is sold: yes.",
        ),
    ],
)
def test_triples_of_unknown_predicates_share_a_sentence(triples: str, expected: str) -> None:
    record = record_of(*triples.split("; "))
    _, (group,) = unknown_groups(record, (), 3)
    assert " ".join(text for _, text in fallback_sentences(Checker(), [record.triples[i] for i in group])) == expected
    assert Checker().check(record, expected).faults == ()


SUBSTANCE = "colour = red; taste = bitter; form = powder; interacts with = water"


@pytest.mark.parametrize(
    ("triples", "plan", "sentences"),
    [
        (
            SUBSTANCE,
            '[colour taste] [form "interacts with"]',
            "The colour of Zyx is red and the taste is bitter. Zyx interacts with water and the form is powder.",
        ),
        (
            SUBSTANCE,
            'human: [colour] [taste form "interacts with"]',
            "The colour of Zyx is red. Zyx interacts with water, the taste is bitter, and the form is powder.",
        ),
        (  # at most two triples per sentence in this model
            "heir = Bo; age = 7; Bo | taste = bitter",
            "[heir age] [taste]",
            "The heir of Zyx is Bo and the age is 7. The taste of Bo is bitter.",
        ),
        (  # full stops of values
            "country = the U.S.; owner = Plugh Inc.",
            "[country owner]",
            "Zyx is owned by Plugh Inc. and the country is the U.S.",
        ),
        (  # a clause after a clause of another subject names its subject
            "isMadeOf = tin; Plugh | isMadeOf = salt; isSoldIn = Ulm",
            "human: [isMadeOf isMadeOf_2 isSoldIn]",
            "Zyx is made of tin, is sold in Ulm, and Plugh is made of salt.",
        ),
    ],
)
def test_texts_of_unknown_predicates(triples: str, plan: str, sentences: str) -> None:
    _, human, plan = plan.rpartition("human: ")
    text = constrained_text(record_of(*triples.split("; ")), plan if human else None)
    assert text.text.endswith(sentences) and text.fulfilled
    assert str(text.plan) == plan
    assert [fact.predicates for fact in text.facts] == [*text.plan.states]


def test_unknown_predicates_that_introduce_a_subject_of_known_ones_come_first() -> None:
    record = record_of("Bo | taste = bitter", "Bo | age = 7", "Zyx | colour = red", "Zyx | partner = Bo")
    ((planned,),) = generator().planner.plan([record], 1, STRICT)
    assert str(planned.plan) == "[colour partner] [age] [taste]"


def test_unknown_predicates_have_own_sentences_at_level_1() -> None:
    text = constrained_text(record_of(*SUBSTANCE.split("; ")), level=1)
    assert text.text.count(".") == len(text.facts) == len(text.plan.states) == 4


def test_an_unknown_predicate_keeps_its_position_in_a_human_plan() -> None:
    for plan in ("[never-seen] [age]", "[age] [never-seen]", "[age never-seen]"):
        text = constrained_text(STRANGE, plan)
        assert str(text.plan) == plan and text.fulfilled
        assert text.text.index("7.5") < text.text.rindex("Plugh") if plan.startswith("[n") else True


def test_a_fallback_is_a_training_sentence_or_else_a_plain_clause() -> None:
    ages = {"Ida": "30", "Jon": "31", "Kai": "32"}
    people = [example(name, "age", age, f"{name} is {age} years old.") for name, age in ages.items() for _ in "ab"]
    config = replace(STRICT, beam=replace(STRICT.beam, max_fact_tokens=1))
    for lexicon, expected in ((learn(people), "Una Berg is 77 years old."), (None, "The age of Una Berg is 77.")):
        untrained = Generator(generator().model, generator().encoder, config, lexicon)
        ((text,),) = untrained.generate([record_of("age = 77", subject="Una Berg")])
        assert text.text == expected
        assert text.facts[0].fallback and text.fulfilled


def test_a_text_of_fallbacks_is_grouped_by_subject() -> None:
    record = record_of("population = 7", "Plugh | leader = Ann", "age = 9")
    text = constrained_text(record)
    assert str(text.plan) == "[population age] [leader]"
    assert text.text == "Zyx has a population of 7 and the age is 9. The leader of Plugh is Ann."
    assert all(fact.fallback for fact in text.facts) and text.fulfilled
    ((planned, *_),) = generator().planner.plan([record], 1000, STRICT)
    assert text.plan_log_probability is not None and text.plan_log_probability <= (planned.log_probability or 0)
    assert text.text_log_probability == -19, "-1 per word"
    assert str(constrained_text(record, "[leader age] [population]").plan) == "[leader age] [population]"
    ((*texts,),) = generator().generate([record], n_best=5, config=STRICT)
    assert texts[0].text == text.text
    assert len({other.text for other in texts}) == len(texts) > 1


@pytest.mark.usefixtures("improbable_facts")
def test_two_facts_may_have_the_same_long_value() -> None:
    """N-gram blocking ignores names."""
    name = "Saint Mary of the Lake"
    record = record_of(f"leader = {name}", f"isPartOf = {name}", subject="Voss")
    plan = Plan.parse("[leader] [isPartOf]")
    ((text,),) = generator(copying=6.0).generate([record], [plan], config=STRICT)
    assert text.fulfilled and text.text.count(name) == 2


@pytest.mark.usefixtures("improbable_facts")
@pytest.mark.parametrize("seed", range(3))
def test_facts_name_their_own_subjects(seed: int) -> None:
    """Regression: "Voss ... It was discovered by" was accepted, although "It" meant the other subject."""
    record, plan = record_of("Voss | leader = Tone Vik", "Nils | leader = Siv Dahl"), Plan.parse("[leader] [leader_2]")
    ((text,),) = generator(seed, copying=6.0).generate([record], [plan], config=STRICT)
    first, second = (text.text[fact.start : fact.end] for fact in text.facts)
    assert "Voss" in first and "Tone Vik" in first
    assert "Nils" in second and "Siv Dahl" in second


UNUSUAL = ("2020-13-01", "2020-00-10", "\u09e9rd", "-", "\U0001f525")


@pytest.mark.parametrize(
    "value", [*UNUSUAL, "x in " * 400 + "y", "(a " * 600, "word " * 300 + "end"], ids=lambda value: value[:12]
)
def test_texts_with_unusual_values_are_fulfilled_or_have_faults(value: str) -> None:
    text = constrained_text(Record("unusual", (Triple("Voss", "leader", value), Triple("Voss", "population", "7"))))
    assert text.fulfilled or text.faults
    assert len(text.faults) < 9


# --- the shipped model ---


@pytest.fixture(scope="module")
def shipped() -> Generator:
    return load_bundle(bundle_folder("elements")).generator()


def elements_record(name: str) -> Record:
    return next(item for item in load_dataset("elements", splits=("dev",)).dev if item.id == f"elements-dev-{name}")


HARD = record_of("namedAfter = the and of water, and to in", "meltingPoint = 14 K", "category = metal", subject="Oda")
"""A record whose first value the shipped model cannot generate."""
LIST_VALUES = "discoveredBy = Ann, Bo, Cy, Di and Ed; category = metal; meltingPoint = 14 K; period = 6"
LIST = record_of(*LIST_VALUES.split("; "), subject="Oda")
"""A record whose first value the shipped model only generates with constraints."""


def test_the_constrained_search_runs_only_if_no_unconstrained_text_passes(shipped: Generator) -> None:
    """Of unconstrained texts about neon, the best fails the check and another passes; about `HARD`, all fail."""
    records = [elements_record("Ne-04"), HARD]
    unconstrained = shipped.generate(records, n_best=99, config=replace(shipped.config, verify="off", choice="score"))
    ((neon,), (hard,)) = shipped.generate(records)
    assert not unconstrained[0][0].fulfilled and any(text.fulfilled for text in unconstrained[0])
    assert neon.fulfilled and neon.text in [text.text for text in unconstrained[0]]
    assert not any(text.fulfilled for text in unconstrained[1])
    assert hard.fulfilled


def test_the_full_stop_before_a_fallback_belongs_to_the_preceding_fact(shipped: Generator) -> None:
    values = "stateAtRoomTemperature = gas; discoveryYear = 1766; meltingPoint = 14 of the K; category = nonmetal"
    record = record_of(*values.split("; "), subject="Hydrogen")
    plan = Plan.parse("[stateAtRoomTemperature] [discoveryYear] [meltingPoint] [category]")
    ((text,),) = shipped.generate([record], [plan])
    _, before, fallback, _ = text.facts
    assert fallback.fallback and not before.fallback
    assert text.text[: before.end].endswith(". ") and text.text[fallback.start :].startswith("Hydrogen melts")


@pytest.mark.parametrize("value", ["Serie A Oxford", "Camino a Oaxaca"])
def test_an_article_inside_a_value_is_kept(shipped: Generator, value: str) -> None:
    for predicate in ("discoveryPlace", "never seen"):
        ((text,),) = shipped.generate([record_of(f"{predicate} = {value}", subject="Neon")])
        assert value in text.text and text.fulfilled
        assert text.facts[0].fallback == (predicate == "never seen"), "only the unknown predicate needs a fallback"


@pytest.mark.parametrize(
    ("before", "can_end_sentence"),
    [
        ("Hydrogen is a gas", True),
        ("Hydrogen is a gas, which is", True),  # dropping ", which is" leaves a sentence
        ("Hydrogen, discovered in 1766", False),
        ("Hydrogen is a gas. Its symbol", False),
    ],
)
def test_a_fallback_may_follow_complete_sentences_only(shipped: Generator, before: str, can_end_sentence: bool) -> None:
    record = record_of("stateAtRoomTemperature = gas", "discoveryYear = 1766", subject="Hydrogen")
    restricted = shipped.restricted
    extras = list[str]()
    words = word_ids(restricted, extras, before)
    constraint = RecordConstraints(restricted, record, extras)(PlanPrefix.of(0, [[0]]))
    assert constraint.can_end_sentence(words) is can_end_sentence


def test_constrained_texts_complete_the_n_best_list_after_unconstrained_ones(shipped: Generator) -> None:
    record = elements_record("Pu-05")
    (unconstrained,) = shipped.generate([record], n_best=99, config=replace(shipped.config, verify="off"))
    (texts,) = shipped.generate([record], n_best=8)
    is_free = [text.text in {other.text for other in unconstrained} for text in texts]
    assert len({text.text for text in texts}) == 8 and all(text.fulfilled for text in texts)
    assert is_free == sorted(is_free, reverse=True) and len(set(is_free)) == 2


@pytest.mark.parametrize(
    ("record", "n_best", "expected"),
    [(LIST, 3, [1]), (LIST, 8, [1, 4]), (HARD, 1, [1, 4])],
    ids=["enough texts", "too few texts", "a fallback"],
)
def test_the_constrained_search_decodes_other_plans_only_if_the_first_is_not_enough(
    record: Record, n_best: int, expected: list[int], shipped: Generator, searches: list[Any]
) -> None:
    shipped.generate([record], n_best=n_best)
    assert [len(tasks) for search, tasks, _ in searches if search.constrain] == expected


@pytest.mark.parametrize(("name", "expected"), [("Ne-04", [1, 4]), ("Co-03", [1]), ("Hg-03", [1])])
def test_with_choice_first_other_plans_are_decoded_only_if_all_texts_of_the_first_are_rejected(
    name: str, expected: list[int], shipped: Generator, searches: list[Any]
) -> None:
    record = elements_record(name)
    unverified = replace(shipped.config, plans=1, verify="off")
    (hypotheses,) = shipped.generate([record], n_best=99, config=unverified)
    passing = [text.text for text in hypotheses if shipped.accepts(record, text)]
    assert bool(passing) == (expected == [1])
    searches.clear()
    ((text,),) = shipped.generate([record], config=replace(shipped.config, choice="first"))
    assert [len(tasks) for _, tasks, _ in searches] == expected
    ((by_consensus,),) = shipped.generate([record])
    assert text.text in passing if passing else text == by_consensus
