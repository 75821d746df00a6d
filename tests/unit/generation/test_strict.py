"""Constrained generation passes the strict check even with an untrained model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agggen.bundle import load_bundle
from agggen.datasets import load_dataset
from agggen.generation.fallbacks import sentences
from agggen.generation.generator import Generator
from agggen.generation.hypotheses import PlanPrefix
from agggen.generation.planner import unknown_groups
from agggen.generation.search import BeamSearch, Task
from agggen.generation.truth import RecordConstraints, watched_words
from agggen.records import Plan, Record, Triple
from agggen.text.tokenise import tokenise
from agggen.training.data import bundle_folder
from agggen.verification.check import Checker
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from tests.unit.generation.test_generator import NILS, ODA, RECORDS, SHORT, STRANGE, TRAIN, VOSS, generator

STRICT = replace(SHORT, verify="strict", beam=replace(SHORT.beam, max_fact_tokens=12))
FORMULA = Record("formula", (Triple("Zyx", "never-seen", "Qwert 7.5"), Triple("Zyx", "successor to", "Plugh")))
"""No predicate of it was in training."""


@pytest.mark.usefixtures("improbable_facts")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("copying", [0.0, 6.0])
def test_every_text_is_true(seed: int, copying: float) -> None:
    for record, result in zip(RECORDS, generator(seed, copying=copying).generate(RECORDS, config=STRICT), strict=True):
        (text,) = result
        assert text.fulfilled, text.faults
        assert Checker().check(record, text.text).faults == ()


def test_an_unconstrained_text_says_that_it_is_unfulfilled() -> None:
    free = [result[0] for result in generator().generate(RECORDS, config=SHORT)]
    assert not any(text.fulfilled for text in free)
    assert all(text.faults or any(fact.missing for fact in text.facts) for text in free)


def test_predicates_that_training_never_saw_are_named_and_said_by_plain_clauses() -> None:
    ((subset,), (none,)) = generator().generate([STRANGE, FORMULA], config=STRICT)
    assert subset.unknown_predicates == ("never-seen",)
    assert none.unknown_predicates == ("never-seen", "successor to")
    assert none.text == "The never-seen of Zyx is Qwert 7.5. Zyx: successor to: Plugh."
    for text in (subset, none):
        clauses = [fact for fact in text.facts if {*fact.predicates} & {*text.unknown_predicates}]
        assert all(fact.fallback for fact in clauses)
        assert [fact.predicates for fact in clauses] == [(name,) for name in text.unknown_predicates]
        assert text.fulfilled


def test_unknown_predicates_of_one_group_share_a_sentence() -> None:
    values = {"colour": "red", "taste": "bitter", "form": "powder", "interacts with": "water"}
    record = Record("zyx", tuple(Triple("Zyx", name, value) for name, value in values.items()))
    plan = Plan.parse('[colour] [taste form "interacts with"]')
    ((pairs,), (human,), (level,)) = (
        generator().generate([record], [plan], config=config)[0]
        for plan, config in ((None, STRICT), (plan, STRICT), (None, replace(STRICT, level=1)))
    )
    assert str(pairs.plan) == '[colour taste] [form "interacts with"]'
    assert pairs.text == (
        "The colour of Zyx is red and the taste is bitter. Zyx interacts with water and the form is powder."
    )
    assert human.text == (
        "The colour of Zyx is red. Zyx interacts with water, the taste is bitter, and the form is powder."
    )
    assert level.text.count(".") == 4
    for text in (pairs, human, level):
        assert [[*fact.predicates] for fact in text.facts] == [[*group] for group in text.plan.states]
        assert text.fulfilled and Checker().check(record, text.text).faults == ()


def test_unknown_predicates_are_said_subject_by_subject() -> None:
    said = [("Zyx", "colour", "red"), ("Plugh", "taste", "bitter"), ("Zyx", "form", "powder"), ("Zyx", "age", "7")]
    record = Record("2", tuple(Triple(*triple) for triple in said))
    ((text,),) = generator().generate([record], config=STRICT)
    assert text.text.endswith(" The colour of Zyx is red and the form is powder. The taste of Plugh is bitter.")
    assert str(text.plan) == "[age] [colour form] [taste]" and text.fulfilled


def test_unknown_predicates_of_a_value_follow_the_record_that_has_it() -> None:
    said = [("Plugh", "taste", "bitter"), ("Zyx", "partner", "Plugh")]
    record = Record("2", tuple(Triple(*triple) for triple in said))
    ((text,),) = generator().generate([record], config=STRICT)
    assert text.text == "The partner of Zyx is Plugh. The taste of Plugh is bitter." and text.fulfilled


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([("leaderName", "Ann"), ("leaderName", "Bob")], "The leaders of Zyx are Ann and Bob."),
        ([("isPartOf", "Oslo"), ("isPartOf", "Norway")], "Zyx is part of Oslo and Norway."),
        ([("cityServed", "Ulm"), ("cityServed", "Bonn Co.")], "The cities served by Zyx are Ulm and Bonn Co."),
        ([("awards", "Gold Cup"), ("awards", "Silver Cup")], "The awards of Zyx are Gold Cup and Silver Cup."),
        (
            [("club", "Voss F.C."), ("heir", "Una"), ("club", "Molde")],
            "The clubs of Zyx are Voss F.C. and Molde and the heir is Una.",
        ),
        ([("hasChild", "Una"), ("hasChild", "Vera")], "The children of Zyx are Una and Vera."),
        ([("number of wings", "two"), ("number of wings", "many")], "The numbers of wings of Zyx are two and many."),
        (
            [("leaderName", "Ann"), ("floorCount", "2"), ("birthPlace", "Ulm")],
            "Zyx has 2 floors, was born in Ulm, and the leader is Ann.",
        ),
    ],
)
def test_several_values_of_an_unknown_predicate_are_one_statement(said: list[tuple[str, str]], expected: str) -> None:
    record = Record("2", tuple(Triple("Zyx", *pair) for pair in said))
    assert [
        text for _, text in sentences(Checker(), [record.triples[i] for i in unknown_groups(record, (), 3)[0]])
    ] == [expected]
    assert Checker().check(record, expected).faults == ()


def test_triples_that_share_no_sentence_have_one_each() -> None:
    record = Record("2", (Triple("Zyx", "successor to", "Plugh"), Triple("Zyx", "taste", "bitter")))
    ((text,),) = generator().generate([record], config=STRICT)
    assert text.text == "Zyx: successor to: Plugh. The taste of Zyx is bitter."
    assert len(text.facts) == 2 and text.fulfilled


def test_no_clause_without_a_subject_follows_a_clause_of_another_subject() -> None:
    said = [("Zyx", "isMadeOf", "tin"), ("Plugh", "isMadeOf", "salt"), ("Zyx", "isSoldIn", "Ulm")]
    record = Record("2", tuple(Triple(*triple) for triple in said))
    ((text,),) = generator().generate([record], [Plan((record.predicates,))], config=STRICT)
    assert text.text == "Zyx is made of tin, is sold in Ulm, and Plugh is made of salt."
    assert text.fulfilled


def test_a_joined_clause_keeps_the_full_stop_of_its_value() -> None:
    said = [("Zyx", "country", "the U.S."), ("Zyx", "owner", "Plugh Inc.")]
    record = Record("2", tuple(Triple(*triple) for triple in said))
    ((text,),) = generator().generate([record], config=STRICT)
    assert text.text == "Zyx is owned by Plugh Inc. and the country is the U.S."


Judge = Callable[[str, str], bool]


def judge_of(record: Record, *groups: Sequence[int], lexicon: Lexicon | None = None) -> Judge:
    """Whether the last of these facts may have a text after a text of the others: ``judge(before, fact)``."""
    encoder = generator().encoder
    extras: list[str] = []
    known = watched_words(encoder.vocabulary, Checker(lexicon))

    def ids_of(text: str) -> list[int]:
        tokens = [token.text for token in tokenise(text)]
        extras.extend(word for word in dict.fromkeys(tokens) if word not in (*known.ids, *extras))
        ids = known.ids | {word: len(encoder.vocabulary) + number for number, word in enumerate(extras)}
        return [ids[token] for token in tokens]

    def judge(before: str, fact: str) -> bool:
        first, second = ids_of(before), ids_of(f"{before} {fact}")
        prefix = PlanPrefix(0, tuple(map(frozenset, groups)), last=False)
        return RecordConstraints(known, record, extras)(prefix).judge(second[len(first) :], first)

    return judge


@pytest.mark.parametrize(
    ("value", "text", "passes"),
    [
        ("ray (Latin)", "It is named after ray (Latin).", True),
        ("ray (Latin)", "It is named after ray.", True),
        ("ray (Latin)", "It is named after ray ().", False),
        ("ray (Latin)", "It is named after ray (Latin.", False),
        ('"Ulma"', 'It is named after "Ulma".', True),
        ('"Ulma"', 'It is named after Ulma".', False),
        ("6' 2\" Bob", "It is named after 6' 2\" Bob.", True),
    ],
)
def test_brackets_and_quotation_marks_come_in_pairs(value: str, text: str, passes: bool) -> None:
    assert judge_of(Record("1", (Triple("Radium", "namedAfter", value),)), [0])("", text) is passes


@pytest.mark.parametrize(
    ("before", "fact", "passes"),
    [
        ("The leader of Oz is Ann.", "The leader of Oz is Bob.", True),
        ("The leader of Oz is Ann", "The leader of Oz is Bob.", False),
        ("Ann leads Oz", "It is led by Bob.", False),
        ("Ann leads Oz and", "it is led by Bob.", True),
        ("Ann leads Oz and", "The Hut is in it.", True),
        ("The leader of Oz is Ann Smith.", "and Bob leads Oz.", False),
        ("The leader of Oz is Ann Jr.", "and Bob leads Oz.", True),
        ("ann leads oz since 1990.", "and Bob leads Oz.", True),
    ],
)
def test_a_sentence_does_not_begin_inside_another(before: str, fact: str, passes: bool) -> None:
    value = "The Hut" if "Hut" in fact else "Bob"
    record = Record("oz", (Triple("Oz", "leader", "Ann"), Triple("Oz", "leader-2", value)))
    assert judge_of(record, [0], [1])(before, fact) is passes


def test_a_name_that_nearly_always_has_the_has_it_after_a_preposition() -> None:
    texts = {"She lives in the Hague.": True, "She lives in Hague.": False, "She left Hague.": True}
    judge = judge_of(Record("r", (Triple("She", "home", "Hague"),)), [0], lexicon=Lexicon(articles={"Hague": 0.95}))
    assert {text: judge("", text) for text in texts} == texts
    judge = judge_of(Record("r", (Triple("She", "home", "Hague"),)), [0], lexicon=Lexicon(articles={"Hague": 0.8}))
    assert all(judge("", text) for text in texts)


def test_an_unknown_predicate_keeps_its_place_in_a_human_plan() -> None:
    for plan in ("[never-seen] [age]", "[age] [never-seen]", "[age never-seen]"):
        ((text,),) = generator().generate([STRANGE], [Plan.parse(plan)], config=STRICT)
        assert str(text.plan) == plan and text.fulfilled
        assert text.text.index("7.5") < text.text.rindex("Plugh") if plan.startswith("[n") else True


def test_a_fallback_is_the_corpus_s_own_wording_of_the_predicate() -> None:
    people = [Record(name, (Triple(name, "age", str(30 + place)),)) for place, name in enumerate(("Ida", "Jon", "Kai"))]
    told = [
        Record(
            r.id, r.triples, tuple(type(ODA.references[0])(f"{r.id} is {r.triples[0].object} years old.") for _ in "ab")
        )
        for r in people
    ]
    machine = generator()
    taught = Generator(machine.model, machine.encoder, STRICT, learn(told))
    record = Record("una", (Triple("Una Berg", "age", "77"),))
    ((text,),) = taught.generate([record], config=replace(STRICT, beam=replace(STRICT.beam, max_fact_tokens=1)))
    assert text.text == "Una Berg is 77 years old."
    assert text.facts[0].fallback and text.fulfilled
    plain_clause = Generator(machine.model, machine.encoder, STRICT, Lexicon())
    ((text,),) = plain_clause.generate([record], config=replace(STRICT, beam=replace(STRICT.beam, max_fact_tokens=1)))
    assert text.text == "The age of Una Berg is 77."


def test_the_answer_says_what_was_checked() -> None:
    ((text,),) = generator().generate([STRANGE], config=STRICT)
    data = text.as_dict()
    assert data["fulfilled"] is True
    assert data["unknown_predicates"] == ["never-seen"]
    assert [fact.get("fallback", False) for fact in data["facts"]] == [fact.fallback for fact in text.facts]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("improbable_facts")
def test_two_facts_may_say_the_same_long_value() -> None:
    """Blocked n-grams are those of the model's words, not of names."""
    long = "Saint Mary of the Lake"
    record = Record("same", (Triple("Voss", "leader", long), Triple("Voss", "isPartOf", long)))
    plan = Plan.parse("[leader] [isPartOf]")
    ((text,),) = generator(copying=6.0).generate([record], [plan], config=STRICT)
    assert text.fulfilled and text.text.count(long) == 2


def test_known_records_are_planned_by_the_model_alone() -> None:
    assert {record.id for record in TRAIN} == {"oda", "nils", "voss"}
    for record, result in zip([ODA, NILS, VOSS], generator().generate([ODA, NILS, VOSS], config=STRICT), strict=True):
        assert result[0].unknown_predicates == ()
        assert sorted(result[0].plan.predicates) == sorted(record.predicates)


TWO = Record("two", (Triple("Voss", "leader", "Tone Vik"), Triple("Nils", "leader", "Siv Dahl")))


@pytest.mark.usefixtures("improbable_facts")
@pytest.mark.parametrize("seed", range(3))
def test_a_value_is_not_given_to_another_subject(seed: int) -> None:
    """Once true by the check: "Voss ... It was discovered by", where "It" was to be the other subject."""
    plan = Plan.parse("[leader] [leader_2]")
    ((text,),) = generator(seed, copying=6.0).generate([TWO], [plan], config=STRICT)
    first, second = (text.text[fact.start : fact.end] for fact in text.facts)
    assert "Voss" in first and "Tone Vik" in first
    assert "Nils" in second and "Siv Dahl" in second


@pytest.mark.parametrize(
    "value",
    [
        "2020-13-01",
        "2020-00-10",
        "\u09e9rd",
        "x in " * 400 + "y",
        "(a " * 600,
        "word " * 300 + "end",
        "-",
        "\U0001f525",
    ],
    ids=lambda value: value[:12],
)
def test_odd_values_are_said_or_marked(value: str) -> None:
    record = Record("odd", (Triple("Voss", "leader", value), Triple("Voss", "population", "7")))
    ((text,),) = generator().generate([record], config=STRICT)
    assert text.fulfilled or text.faults
    assert len(text.faults) < 9


def record_of_elements(name: str) -> Record:
    return next(record for record in load_dataset("elements", splits=("dev",)).dev if record.id == name)


def test_constraints_only_write_what_the_model_does_not_write_by_itself() -> None:
    """Neon's best free text lacks values, another is right; no free text about astatine is right."""
    shipped = load_bundle(bundle_folder("elements")).generator()
    records = [record_of_elements("elements-dev-Ne-04"), record_of_elements("elements-dev-At-03")]
    free = shipped.generate(records, n_best=99, config=replace(shipped.config, verify="off", choice="score"))
    ((neon,), (astatine,)) = shipped.generate(records)
    assert not free[0][0].fulfilled and any(text.fulfilled for text in free[0])
    assert neon.fulfilled and neon.text in [text.text for text in free[0]]
    assert not any(text.fulfilled for text in free[1])
    assert astatine.fulfilled


def test_the_full_stop_before_a_fallback_belongs_to_the_fact_that_it_ends() -> None:
    shipped = load_bundle(bundle_folder("elements")).generator()
    hydrogen = {
        "stateAtRoomTemperature": "gas",
        "discoveryYear": "1766",
        "meltingPoint": "14 K",
        "category": "nonmetal",
    }
    record = Record("H", tuple(Triple("Hydrogen", *pair) for pair in hydrogen.items()))
    plan = Plan.parse("[category] [meltingPoint] [discoveryYear] [stateAtRoomTemperature]")
    ((text,),) = shipped.generate([record], [plan])
    first, second, *_ = text.facts
    assert second.fallback and not first.fallback
    assert text.text[: first.end].endswith(". ") and text.text[second.start :].startswith("Hydrogen melts")


def test_constrained_texts_follow_the_free_ones_until_there_are_enough() -> None:
    shipped = load_bundle(bundle_folder("elements")).generator()
    record = record_of_elements("elements-dev-Hg-03")
    (free,) = shipped.generate([record], n_best=99, config=replace(shipped.config, verify="off"))
    (texts,) = shipped.generate([record], n_best=8)
    is_free = [text.text in {other.text for other in free} for text in texts]
    assert len({text.text for text in texts}) == 8 and all(text.fulfilled for text in texts)
    assert is_free == sorted(is_free, reverse=True) and len(set(is_free)) == 2


@pytest.mark.parametrize(
    ("name", "n_best", "expected"),
    [("Hg-03", 3, [1]), ("Hg-03", 8, [1, 4]), ("At-03", 1, [1, 4])],
    ids=["enough texts", "too few texts", "a fact fell back"],
)
def test_the_constrained_search_decodes_other_plans_only_if_the_first_is_not_enough(
    name: str, n_best: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, decoded = BeamSearch.write, list[int]()

    def counted(search: BeamSearch, tasks: Sequence[Task], *rest: Any) -> Any:
        decoded.extend([len(tasks)] if search.constrain else [])
        return write(search, tasks, *rest)

    monkeypatch.setattr(BeamSearch, "write", counted)
    shipped = load_bundle(bundle_folder("elements")).generator()
    shipped.generate([record_of_elements(f"elements-dev-{name}")], n_best=n_best)
    assert decoded == expected
