"""Cue words of predicates, learned from training texts, and sentences that say a value without one."""

from __future__ import annotations

from itertools import product

import pytest

from agggen.records import Record, Reference, Triple
from agggen.verification.cues import unexpressed
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.training_texts import TrainingText
from tests.unit.generation.test_strict import judge_of

LANDS = ["".join(parts) for parts in product(("Ant", "Bel", "Cor", "Dor", "Est"), ("ia", "onia", "land", "mark"))]


def told(number: int, land: str, text: str, *predicates: str) -> Record:
    """A record with a value, such as ``Language7``, of each predicate."""
    triples = tuple(Triple(land, name, f"{name.title()}{number}") for name in predicates)
    values = {triple.predicate: triple.object for triple in triples}
    return Record(f"{land} {predicates}", triples, (Reference(text.format(land, **values)),))


BOTH = "The language of {} is {language}; the currency is {currency}."
TOGETHER = [told(number, land, BOTH, "language", "currency") for number, land in enumerate(LANDS)]
ALONE = [told(number, land, "The language of {} is {language}.", "language") for number, land in enumerate(LANDS)]
NEAR = [told(number, land, "{} is near {region}.", "region") for number, land in enumerate(LANDS[:10])]
OTHERS = [
    told(number, land, f"The {name} in {{}} is {{{name}}}.", name)
    for name in ("river", "mayor", "road", "lake", "hill", "tower")
    for number, land in enumerate(LANDS)
]
LEXICON = learn([*TOGETHER, *ALONE, *NEAR, *OTHERS])


def test_a_word_that_another_predicate_explains_is_no_cue() -> None:
    assert "language" in LEXICON.cues["language"] and "currency" in LEXICON.cues["currency"]
    assert "language" not in LEXICON.cues["currency"] and "currency" not in LEXICON.cues["language"]


def test_rare_predicates_and_those_said_in_many_ways_have_none() -> None:
    assert "region" not in LEXICON.cues, "10 texts"
    wordings = ("{} speaks {language}.", "{} and {language}.", "In {} hear {language}.", "{}: {language}.")
    varied = [told(number, land, wordings[number % 4], "language") for number, land in enumerate(LANDS)]
    assert learn([*varied, *OTHERS]).cues.keys() == learn(OTHERS).cues.keys() != set()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("The language of Oz is Ozish and the currency is Ozo.", []),
        ("The language of Oz is Ozish and the language is Ozo.", ["currency"]),
        ("The language of Oz is Ozish. Its currency is Ozo.", []),
        ("Oz has a currency. The language of Oz is Ozish and Ozo.", ["currency"]),
        ("Ozo is money. The currency of Oz is Ozo.", []),
        ("Oz is near A.F.C. Ozish.", ["language"]),
        ("The language Currency of Oz is Ozish and Ozo.", ["currency"]),  # the name Currency is no cue
        ("Oz is in the east.", []),
    ],
)
def test_values_are_said_in_a_sentence_with_a_cue(text: str, missing: list[str]) -> None:
    record = Record("oz", (Triple("Oz", "language", "Ozish"), Triple("Oz", "currency", "Ozo")))
    found = unexpressed(TrainingText.of(record, text), LEXICON.cues)
    assert [triple.predicate for triple in found] == missing


def test_a_full_stop_inside_a_name_ends_no_sentence() -> None:
    record = Record("oz", (Triple("A.F.C. Oz", "language", "Ozish"),))
    assert unexpressed(TrainingText.of(record, "The language of A.F.C. Oz is Ozish."), LEXICON.cues) == ()


@pytest.mark.parametrize(
    ("before", "fact", "passes"),
    [
        ("", "The language of Oz is Ozish.", True),
        ("", "The currency in Oz is Ozish.", False),
        ("The currency of Oz is Ozo.", "It is Ozish.", False),
        ("The language of Oz, whose currency is Ozo,", "is Ozish.", True),
        ("The currency of Oz is Ozo, its language", "Ozish.", True),
    ],
)
def test_the_search_accepts_no_fact_without_a_cue(before: str, fact: str, passes: bool) -> None:
    triples = (Triple("Oz", "currency", "Ozo"), Triple("Oz", "language", "Ozish"))
    groups = [[0], [1]] if before else [[1]]
    assert judge_of(Record("oz", triples), *groups, lexicon=Lexicon(cues=LEXICON.cues))(before, fact) is passes


def test_cues_of_two_corpora() -> None:
    other = Lexicon(cues={"language": ("spoken",), "food": ("eat",)}, contexts={"currency": {"": 100}})
    for merged in (LEXICON.merged(other), other.merged(LEXICON)):
        assert {"language", "spoken"} <= {*merged.cues["language"]} and merged.cues["food"] == ("eat",)
        assert "currency" not in merged.cues, "the other corpus says it in many ways"


@pytest.mark.parametrize(
    ("corpus", "predicates", "most"), [("elements", 10, 0.015), ("webnlg", 133, 0.075), ("e2e_cleaned", 0, 0.0)]
)
def test_few_texts_of_people_have_no_cue(
    corpus: str, predicates: int, most: float, request: pytest.FixtureRequest
) -> None:
    checker, _, records_of = request.getfixturevalue(corpus)
    texts = [TrainingText.of(item, text.text) for item in records_of("dev") for text in item.references]
    without = sum(bool(unexpressed(text, checker.lexicon.cues)) for text in texts)
    assert len(checker.lexicon.cues) == predicates and without <= most * len(texts)
