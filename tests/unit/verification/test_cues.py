"""Cue words of predicates, learned from training texts, and sentences with a value but without a cue."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from agggen.records import Record, Reference, Triple
from agggen.verification.cues import foreign_words, unexpressed
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.matched import MatchedText
from tests.unit.generation.test_strict import judge_of

LANDS = ["".join(parts) for parts in product(("Ant", "Bel", "Cor", "Dor", "Est"), ("ia", "onia", "land", "mark"))]


def land_text(number: int, land: str, text: str, *predicates: str) -> Record:
    """A record with a value, such as ``Language7``, of each predicate."""
    triples = tuple(Triple(land, name, f"{name.title()}{number}") for name in predicates)
    values = {triple.predicate: triple.object for triple in triples}
    return Record(f"{land} {predicates}", triples, (Reference(text.format(land, **values)),))


BOTH = "The language of {} is {language}; the currency is {currency}."
TOGETHER = [land_text(number, land, BOTH, "language", "currency") for number, land in enumerate(LANDS)]
ALONE = [land_text(number, land, "The language of {} is {language}.", "language") for number, land in enumerate(LANDS)]
NEAR = [land_text(number, land, "{} is near {region}.", "region") for number, land in enumerate(LANDS[:10])]
OTHERS = [
    land_text(number, land, f"The {name} in {{}} is {{{name}}}.", name)
    for name in ("river", "mayor", "road", "lake", "hill", "tower")
    for number, land in enumerate(LANDS)
]
LEXICON = learn([*TOGETHER, *ALONE, *NEAR, *OTHERS])


def test_a_word_that_another_predicate_explains_is_no_cue() -> None:
    assert "language" in LEXICON.cues["language"] and "currency" in LEXICON.cues["currency"]
    assert "language" not in LEXICON.cues["currency"] and "currency" not in LEXICON.cues["language"]


def test_rare_predicates_and_predicates_with_many_wordings_have_no_cues() -> None:
    assert "region" not in LEXICON.cues, "10 texts"
    wordings = ("{} speaks {language}.", "{} and {language}.", "In {} hear {language}.", "{}: {language}.")
    varied = [land_text(number, land, wordings[number % 4], "language") for number, land in enumerate(LANDS)]
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
def test_values_in_sentences_without_a_cue_are_unexpressed(text: str, missing: list[str]) -> None:
    record = Record("oz", (Triple("Oz", "language", "Ozish"), Triple("Oz", "currency", "Ozo")))
    assert [triple.predicate for triple in unexpressed(MatchedText.by_rule(record, text), LEXICON.cues)] == missing


def test_a_full_stop_inside_a_name_ends_no_sentence() -> None:
    record = Record("oz", (Triple("A.F.C. Oz", "language", "Ozish"),))
    assert unexpressed(MatchedText.by_rule(record, "The language of A.F.C. Oz is Ozish."), LEXICON.cues) == ()


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
def test_the_search_rejects_facts_without_a_cue(before: str, fact: str, passes: bool) -> None:
    triples = (Triple("Oz", "currency", "Ozo"), Triple("Oz", "language", "Ozish"))
    groups = [[0], [1]] if before else [[1]]
    assert judge_of(Record("oz", triples), *groups, lexicon=Lexicon(cues=LEXICON.cues))(before, fact) is passes


BORN = [
    land_text(number, land, text, *names)
    for number, land in enumerate(LANDS)
    for text, names in (
        ("{} was born in {town}.", ("town",)),
        ("Born {year}, {} is known.", ("year",)),
        ("{} lives in {home}.", ("home",)),
    )
]
BORN_LEXICON = learn([*BORN, *OTHERS])


def test_predicates_of_a_word_are_those_that_explain_it() -> None:
    assert BORN_LEXICON.predicates_of["born"] == ("town", "year"), "20 sentences each"
    assert "known" not in BORN_LEXICON.predicates_of, "20 sentences"
    assert "in" not in BORN_LEXICON.predicates_of and "lives" not in BORN_LEXICON.predicates_of


@pytest.mark.parametrize(
    ("before", "fact", "passes"),
    [
        ("", "Oz lives in Ur.", True),
        ("", "Oz was born in Ur.", False),
        ("", "Oz, who was born, lives in Ur.", False),
        ("Born in Ulm, ", "Oz lives in Ur.", True),
        ("Born, ", "Oz lives in Ur.", True),  # a fault of the fact before
        ("Oz, a child of Ulm, ", "was born and lives in Ur.", True),  # the sentence has a value of town
        ("Oz is a child of Ulm.", "Oz, who was born, lives in Ur.", False),
        ("", "Oz lives in Born Ur.", True),
    ],
)
def test_the_search_rejects_facts_with_a_word_of_other_predicates(before: str, fact: str, passes: bool) -> None:
    home = "Born Ur" if "Born Ur" in fact else "Ur"
    record = Record("oz", (Triple("Oz", "town", "Ulm"), Triple("Oz", "home", home)))
    lexicon = Lexicon(predicates_of=BORN_LEXICON.predicates_of)
    assert judge_of(record, *([[0], [1]] if before else [[1]]), lexicon=lexicon)(before, fact) is passes


def test_predicates_of_words_are_merged() -> None:
    known = Lexicon(lower=frozenset(("born",)), contexts={"hatched": {"": 9}, "town": {"": 9}})
    other = Lexicon(predicates_of={"born": ("birthPlace",), "sung": ("language",)})
    for merged in (BORN_LEXICON.merged(known), known.merged(BORN_LEXICON)):
        assert merged.predicates_of["born"] == ("hatched", "town", "year")
    assert BORN_LEXICON.merged(other).predicates_of["born"] == ("birthPlace", "town", "year")
    assert BORN_LEXICON.merged(other).predicates_of["sung"] == ("language",)


def test_cues_are_merged() -> None:
    other = Lexicon(cues={"language": ("spoken",), "food": ("eat",)}, contexts={"currency": {"": 100}})
    for merged in (LEXICON.merged(other), other.merged(LEXICON)):
        assert {"language", "spoken"} <= {*merged.cues["language"]} and merged.cues["food"] == ("eat",)
        assert "currency" not in merged.cues, "the other corpus has many wordings"


@pytest.mark.parametrize(
    ("corpus", "predicates", "max_unexpressed", "max_foreign"),
    [("elements", 10, 0.015, 0.02), ("webnlg", 133, 0.075, 0.06), ("e2e_cleaned", 0, 0.0, 0.0)],
)
def test_few_references_have_no_cue_or_a_word_of_other_predicates(
    corpus: str, predicates: int, max_unexpressed: float, max_foreign: float, request: pytest.FixtureRequest
) -> None:
    checker, _, records_of = request.getfixturevalue(corpus)
    lexicon = checker.lexicon
    texts = [MatchedText.by_rule(item, text.text) for item in records_of("dev") for text in item.references]
    without = sum(bool(unexpressed(text, lexicon.cues)) for text in texts)
    assert len(lexicon.cues) == predicates and without <= max_unexpressed * len(texts)
    assert sum(bool(foreign_words(text, lexicon.predicates_of, ())) for text in texts) <= max_foreign * len(texts)


@pytest.mark.parametrize(("corpus", "cues", "both"), [("elements", 0.65, 0.9), ("webnlg", 0.54, 0.74)])
def test_most_texts_are_rejected_if_a_triple_has_another_predicate(
    corpus: str, cues: float, both: float, request: pytest.FixtureRequest
) -> None:
    checker, train, records_of = request.getfixturevalue(corpus)
    predicates = sorted({triple.predicate for item in train for triple in item.triples})
    rng, rejected = random.Random(1), []
    for item in records_of("dev"):
        for reference in item.references:
            number, other = rng.randrange(len(item.triples)), rng.choice(predicates)
            triples = list(item.triples)
            if MatchedText.by_rule(item, reference.text).values[number] and other not in item.predicates:
                triples[number] = replace(triples[number], predicate=other)
                text = MatchedText.by_rule(Record("renamed", tuple(triples)), reference.text)
                without = bool(unexpressed(text, checker.lexicon.cues))
                rejected.append((without, without or bool(foreign_words(text, checker.lexicon.predicates_of, ()))))
    by_cues, by_both = (sum(column) / len(rejected) for column in zip(*rejected, strict=True))
    assert by_cues >= cues and by_both >= both
