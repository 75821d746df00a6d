"""Grammar rules for generated English facts."""

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.generation.grammar import Grammar
from agggen.records import NO_SUBJECT, Triple
from agggen.verification.lexicon import Lexicon

TRIPLES = [
    *(Triple("Ann The", "state", "As"), Triple("Ann The", "home", "Hague"), Triple(NO_SUBJECT, "size", "9")),
    *(Triple("Ann The", "club", "Hague F.C."), Triple("Ann The", "city", "D.C."), Triple("Ann The", "place", "In Ulm")),
    Triple("Ann The", "album", "Camino a Oaxaca"),
]
ENGLISH = Lexicon(articles={"Hague": 0.95}, lower=frozenset(("the", "is", "of", "in")))
GRAMMAR = Grammar(TRIPLES, ENGLISH)


SOUND = (
    *("Ann The is in As.", ", which is in the state As and", "She was born in the", "She lives in the Hague."),
    *("She left Hague.", "It is 3 m a.s.l. and has a p-block.", "Ann The is the singer of Camino a Oaxaca."),
    "Ann The has had a by-product, an hour, a unit and an egg.",
    "The state of Ann The is the home of As and the As that is in the land of Ann The is big.",
    "It was built in March 1930, in May, and on 30 March.",
    "One of the towers that are in As is red, its home is As and it is red.",
    "Its homes are As and Hague. Its home is in As and the Hague. Its home, As and the Hague are red.",
    "She was born in As, built in As and built in the Hague.",
    "It is the 1st, 2nd, 3rd, 4th, 11th, 12th, 13th, 21st and 112th.",
)
BROKEN = (
    *("Ann The is in Texas which.", "She is in the.", "It has a.", "She is in Ulm and.", "It was."),
    *("It is in the of Texas.", "It is in of Texas.", "She is a the capital.", "It is and in Ulm.", "It was which"),
    *("It is in, Texas.", "It is red,.", "It is red. .", "It ( ) is.", "It is (red.", 'It is "red.', "It is $$5."),
    *("It is on the 27nd.", "It is the 11st.", "It is the 21th.", "It is in the 1th runway."),
    *("It is an capital.", "It is a egg.", "She is in Hague."),
    *("Ann The and has a home.", "She left. The Ann The and is in As."),
    *("It was built in March 30, 2007.", "It was built in 30th of March."),
    *("One of the large towers are red.", "Its home is As and the Hague.", "It is in As, whose home is As and As."),
    *("It is spoken in As spoken in the UK.", "It is at In Ulm.", "She is born in In Ulm."),
    *("It has a high.", "Ann The has an average rating and a moderate. It is in As."),
)


@pytest.mark.parametrize(("text", "sound"), [*((text, True) for text in SOUND), *((text, False) for text in BROKEN)])
def test_broken_facts_are_rejected(text: str, sound: bool) -> None:
    assert GRAMMAR.accepts(text) is sound


@pytest.mark.parametrize(
    ("before", "fact", "accepted"),
    [
        ("Ann The is in As. The home", "of Ann The is Hague.", True),
        ("The mayor of Hungary.", "It is red.", True),  # the error is in the previous fact
        ("Ann The is in As.", "The Hague. It is red.", False),
        ("The home of", "Ann The and", True),
        ("", "Brown sauce in Hungary.", False),
        ("She is born in Hungary.", "Hague, Hungary.", False),
        ("She is Dr.", "Hague of Hungary.", True),
        ("It is red.", "The main parts of it are brown sauce.", True),
        ("It is red.", "Not in Hungary.", True),
        ("", "Ann The (born in Hungary).", False),
        ("It is in Hague,", "Ann The is at home.", False),
        ("It is in Hague.", "Ann The has a home, it is white.", False),
        ("Located in Hague,", "Ann The is at home.", True),
        ("It is in Hague, which,", "Ann The has said, is white.", True),
        ("It is in Hague.", "Ann The, who was born in Hungary.", False),
        ("Ann The, who has the tower,", "is red.", True),
        ("", "Ann The, who has the tower is red.", True),
        ("The home of Ann The is Ulm", "and has a tower.", False),
        ("The home of Ann The is Ulm", "and its tower has a bell.", True),
        ("", "The size is 9 and the area of 77.", False),
        ("", "The size is 9 and the area of it is 77.", True),
        ("", "Ann The's size of Hague is 77.", False),
        ("The head of Ann The is Bob (baker)", "plays in Hungary.", False),
        ("The head of Ann The is Bob", "was the head of Hungary.", False),
        ("", 'The name of the tower is "Bell" and was built in Hungary.', False),
        ("Ann The was born in Ulm", "and the tower of Hague.", False),
        ("Ann The was born in Ulm", "and the tower is white.", True),
        ("They play in a league, which", "champions are Hague.", False),
        ("It is in As.", "Ann The, born in Hungary.", False),
        ("", "Ann The is a singer and Bob Leeman.", False),
        ("", "Ann The is the head of Hague and Hungary.", True),
        ("She is in a league", "which Hague are the champions.", False),
        ("She is in a league", "which Hague are the champions of, in Hungary.", True),
        ("She is in a league", "in which Hague are the champions.", True),
        ("It is red.", "The main parts of red sauce cooked in Hungary.", False),
        ("", "The leader of Hungary was called Bob.", True),
        ("Bob is the leader of", "Hague where the home is As Ann The originates from Hague.", False),
        ("", "Bob lies to the north of Bob is Hague.", False),
        ("It is in As and is", "a state of Ann The has one.", False),
        ("It is in Hague,", "and in As, which was published by Bob can be found in Hague.", False),
        ("", "The home that Ann The has is in Hague.", True),
        ("", "The home where Ann The lives and has a tower is in Hague.", True),
        ("", "When Ann The is in Hague it is red.", True),
        ("", "The country Ann The comes from is Hague.", True),
        ("", "Ann The is in Hague, has a home and is red; it is big.", True),
        ("", "The name of the club is Hague F.C. It is red.", True),
        ("", "Ann The is in D.C. As is red.", True),
        ("Ann The is in D.C. As", "is red is in Hague.", False),
        ("Ann The is in a film", "which stars Bob was made in Hungary.", False),
        ("Ann The is in a film", "which stars Bob, was made in Hungary.", True),
    ],
)
def test_sentences_have_verbs_and_are_neither_spliced_nor_ungrammatical(before: str, fact: str, accepted: bool) -> None:
    assert GRAMMAR.completes_sentences(before, fact) is accepted
    assert Grammar(TRIPLES, Lexicon()).completes_sentences(before, fact), "unknown language"


@pytest.mark.parametrize(
    ("before", "fact", "runs_on"),
    [
        ("Ann The is in As, which is big", ", has a home.", True),
        ("The home of Ann The, who is big,", "is in Hague.", False),
        ("Ann The is in As and", "is at home in Hague.", False),
        ("She was big. Ann The", "is at home in Hague.", False),
        ("Ann The is in As", "at home.", False),
        ("Ann The died in As", "was at home in Hague.", True),
        ("The home built by Ann The", "was in Hague.", False),
    ],
)
def test_facts_with_a_second_verb_run_on(before: str, fact: str, runs_on: bool) -> None:
    assert GRAMMAR.runs_on(before, fact) is runs_on


def test_clauses_have_any_number_of_verbs_in_texts_without_full_stops() -> None:
    sentences = ("ann the is in as it is red", "hague is at home")
    assert not GRAMMAR.completes_sentences(*sentences)
    assert Grammar(TRIPLES, ENGLISH, full_stops=False).completes_sentences(*sentences)


def test_rules_of_english_are_not_applied_to_other_languages() -> None:
    german = Grammar(TRIPLES, Lexicon(lower=frozenset(("der", "ist", "of"))))
    assert german.accepts("Ann The ist an Bord von As. Das Boot, mit dem sie in, an und mit Ulm war.")
    assert not german.accepts("Ann The ist (an Bord.")


@pytest.mark.parametrize(("corpus", "max_share"), [("elements", 0), ("webnlg", 0.03), ("e2e", 0.075)])
def test_few_references_break_a_grammar_rule(corpus: str, max_share: float, request: pytest.FixtureRequest) -> None:
    """Nearly all references that break a rule have a real error."""
    if corpus != "elements":
        request.getfixturevalue("data_home")
    records, _ = split_rejects(load(corpus, "dev"))
    texts = [(Grammar(record.triples, ENGLISH), text.text) for record in records for text in record.references]
    accepted = [grammar.accepts(text) and grammar.completes_sentences("", text) for grammar, text in texts]
    assert accepted.count(False) <= max_share * len(accepted)
