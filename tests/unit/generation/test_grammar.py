"""Rules of English for generated facts."""

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.generation.grammar import Grammar
from agggen.records import NO_SUBJECT, Triple
from agggen.verification.lexicon import Lexicon

TRIPLES = [Triple("Ann The", "state", "As"), Triple("Ann The", "home", "Hague"), Triple(NO_SUBJECT, "size", "9")]
ENGLISH = Lexicon(articles={"Hague": 0.95}, lower=frozenset(("the", "is", "of", "in")))
GRAMMAR = Grammar(TRIPLES, ENGLISH)


@pytest.mark.parametrize(
    "text",
    [
        "Ann The is in As.",
        ", which is in the state As and",
        "She was born in the",
        "Ann The has had a by-product, an hour, a unit and an egg.",
        "It is 3 m a.s.l. and has a p-block.",
        "Ann The lives in the Hague.",
    ],
)
def test_sound_facts_are_accepted(text: str) -> None:
    assert GRAMMAR.accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Ann The is in Texas which.", "She is in the.", "It has a.", "She is in Ulm and.", "It was."),
        *("It is in the of Texas.", "It is in of Texas.", "She is a the capital.", "It is and in Ulm.", "It was which"),
        *("It is in, Texas.", "It is red,.", "It is red. .", "It ( ) is.", "It is (red.", 'It is "red.', "It is $$5."),
        *("It is an capital.", "It is a egg.", "She is in Hague."),
    ],
)
def test_broken_facts_are_rejected(text: str) -> None:
    assert not GRAMMAR.accepts(text)


def test_other_languages_have_no_rules_of_english() -> None:
    german = Grammar(TRIPLES, Lexicon(lower=frozenset(("der", "ist", "of"))))
    assert german.accepts("Ann The ist an Bord von As. Das Boot, mit dem sie in, an und mit Ulm war.")
    assert not german.accepts("Ann The ist (an Bord.")


@pytest.mark.parametrize(("corpus", "most"), [("elements", 0), ("webnlg", 0.012), ("e2e", 0.02)])
def test_few_texts_of_people_break_a_rule(corpus: str, most: float, request: pytest.FixtureRequest) -> None:
    """Of the texts that do, nearly all have a slip of the pen."""
    home = None if corpus == "elements" else request.getfixturevalue("data_home")
    records, _ = split_rejects(load(corpus, "dev", home))
    accepted = [Grammar(record.triples, ENGLISH).accepts(text.text) for record in records for text in record.references]
    assert accepted.count(False) <= most * len(accepted)
