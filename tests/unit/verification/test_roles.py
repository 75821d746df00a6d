"""Roles of names, learned from training texts, and names in roles of other triples."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from agggen.records import Record, Triple
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.matched import MatchedText
from agggen.verification.roles import wrong_roles
from tests.unit.generation.test_strict import judge_of
from tests.unit.verification.test_cues import LANDS, OTHERS, land_text

MAYORS = [land_text(number, land, "The leader of {} is {mayor}.", "mayor") for number, land in enumerate(LANDS)]
OWNERS = [land_text(number, land, "{} is owned by {owner}.", "owner") for number, land in enumerate(LANDS)]
RARE = [land_text(number, land, "{} is run by {chief}.", "chief") for number, land in enumerate(LANDS[:10])]
LEXICON = learn([*MAYORS, *OWNERS, *RARE, *OTHERS])

ULM = Record("ulm", (Triple("Ulm", "mayor", "Ann"), Triple("Ulm Castle", "owner", "Bob"), Triple("Ulm", "code", "UL")))


def names_found(text: str, record: Record = ULM) -> list[str]:
    spans = wrong_roles(MatchedText.by_rule(record, text), LEXICON.roles_after, LEXICON.contexts)
    return [text[slice(*span)] for span in spans]


def test_roles_after_words_are_those_of_nearly_all_names_there() -> None:
    roles = LEXICON.roles_after
    assert roles["leader of"] == ("subject of mayor",) and roles["owned by"] == ("object of owner",)
    assert "run by" not in roles, "10 texts"
    assert "of" not in roles and "is" not in roles, "only function words"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The leader of Ulm is Ann.", []),
        ("The leader of Ulm Castle is Ann.", ["Ulm Castle"]),  # the leader of something else
        ("Ulm Castle is owned by Ann.", ["Ann"]),
        ("Ann is owned by Bob.", []),  # only words before names are compared
        ("Ulm Castle is owned by Bob Ulm.", []),
        ("Bob owned Ulm Castle by Ann.", []),
        ("Ulm Castle is owned by UL.", []),  # no training text has the predicate `code`
    ],
)
def test_names_in_roles_of_other_triples_are_found(text: str, names: list[str]) -> None:
    assert names_found(text) == names


def test_the_search_rejects_names_in_wrong_roles() -> None:
    record = Record("ulm", ULM.triples[:2])
    judge = judge_of(record, [0], lexicon=Lexicon(roles_after=LEXICON.roles_after, contexts=LEXICON.contexts))
    assert judge("", "The leader of Ulm is Ann.")
    assert not judge("", "Ulm Castle is the place whose leader of Ulm Castle is Ann, and it is in Ulm.")


def test_roles_are_merged() -> None:
    other = Lexicon(roles_after={"leader of": ("subject of boss",), "sung by": ("object of singer",)})
    merged = LEXICON.merged(other).roles_after
    assert merged["leader of"] == ("subject of mayor", "subject of boss") and "sung by" in merged
    with_words = Lexicon(lower=frozenset(("owned", "by")))
    for both in (LEXICON.merged(with_words), with_words.merged(LEXICON)):
        assert "leader of" in both.roles_after and "owned by" not in both.roles_after, "the other may mean another role"


@pytest.mark.parametrize(
    ("corpus", "max_share", "min_exchanged"),
    [("elements", 0.0, 0.5), ("webnlg", 0.025, 0.4), ("e2e_cleaned", 0.002, 0.1)],
)
def test_wrong_roles_are_rare_in_references_and_frequent_if_subject_and_value_are_exchanged(
    corpus: str, max_share: float, min_exchanged: float, request: pytest.FixtureRequest
) -> None:
    checker, _, records_of = request.getfixturevalue(corpus)
    lexicon, rng = checker.lexicon, random.Random(1)
    rejected, rejected_exchanged = [], []
    for item in records_of("dev"):
        for reference in item.references:
            text = MatchedText.by_rule(item, reference.text)
            rejected.append(bool(wrong_roles(text, lexicon.roles_after, lexicon.contexts)))
            triples, number = list(item.triples), rng.randrange(len(item.triples))
            if triples[number].subject:
                triple = triples[number]
                triples[number] = replace(triple, subject=triple.object, object=triple.subject)
                text = MatchedText.by_rule(Record("exchanged", tuple(triples)), reference.text)
                rejected_exchanged.append(bool(wrong_roles(text, lexicon.roles_after, lexicon.contexts)))
    assert sum(rejected) <= max_share * len(rejected)
    assert sum(rejected_exchanged) >= min_exchanged * len(rejected_exchanged)
