"""Cue words of predicates and roles of names: learning from training texts, and detection of violations."""

from itertools import product

import pytest

from agggen.records import Record
from agggen.verification.cues import triples_without_cue, wrong_roles
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon
from agggen.verification.values import MatchedText
from tests.unit.generation.test_judge import judge_of
from tests.unit.verification.texts import example, record

LANDS = ["".join(parts) for parts in product(("Ant", "Bel", "Cor", "Dor", "Est"), ("ia", "onia", "land", "mark"))]


def lands(*texts: str, first: str, second: str = "", count: int = 20) -> list[Record]:
    """Records about lands with values such as ``Language7`` of the predicates `first` and `second`.

    The texts take turns. Their placeholders are the land and the predicates.
    """
    records = []
    for number, land in enumerate(LANDS[:count]):
        values = {name: f"{name.title()}{number}" for name in (first, second) if name}
        text = texts[number % len(texts)].format(land, **values)
        records.append(example(land, first, values.pop(first), text, **values))
    return records


OTHERS = [
    item
    for name in ("river", "road", "lake", "hill", "tower", "mine")
    for item in lands(f"The {name} in {{}} is {{{name}}}.", first=name)
]
LEXICON = learn(
    [
        *lands("The language of {} is {language}; the currency is {currency}.", first="language", second="currency"),
        *lands("The language of {} is {language}.", first="language"),
        *lands("{} is near {region}.", first="region", count=10),
        *lands("{} was born in {town}.", first="town"),
        *lands("Born {year}, {} is known.", first="year"),
        *lands("{} lives in {home}.", first="home"),
        *lands("The leader of {} is {mayor}.", first="mayor"),
        *lands("{} is owned by {owner}.", first="owner"),
        *lands("{} is run by {chief}.", first="chief", count=10),
        *OTHERS,
    ]
)


def test_learned_cues_and_roles() -> None:
    cues, predicates_of, roles = LEXICON.cues, LEXICON.predicates_of, LEXICON.roles_after
    assert "language" in cues["language"] and "currency" in cues["currency"]
    assert "language" not in cues["currency"] and "currency" not in cues["language"]
    assert predicates_of["born"] == ("town", "year"), "20 sentences each"
    assert roles["leader of"] == ("subject of mayor",) and roles["owned by"] == ("object of owner",)
    assert "region" not in cues and "run by" not in roles, "10 texts"
    assert "known" not in predicates_of and "lives" not in predicates_of, "20 sentences"
    assert "in" not in predicates_of and {"of", "is"}.isdisjoint(roles), "function words"


def test_predicates_with_many_wordings_have_no_cues() -> None:
    varied = lands(
        "{} speaks {language}.", "{} and {language}.", "In {} hear {language}.", "{}: {language}.", first="language"
    )
    assert learn([*varied, *OTHERS]).cues.keys() == learn(OTHERS).cues.keys() != set()


OZ = record("language = Ozish", "currency = Ozo", subject="Oz")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("The language of Oz is Ozish and the currency is Ozo.", []),
        ("The language of Oz is Ozish and the language is Ozo.", ["currency"]),
        ("Oz has a currency. The language of Oz is Ozish and Ozo.", ["currency"]),
        ("Ozo is money. The currency of Oz is Ozo.", []),
        ("Oz is near A.F.C. Ozish.", ["language"]),
        ("The language Currency of Oz is Ozish and Ozo.", ["currency"]),  # a name is no cue
        ("Oz is in the east.", []),
    ],
)
def test_values_in_sentences_without_a_cue_are_unexpressed(text: str, missing: list[str]) -> None:
    assert [triple.predicate for triple in triples_without_cue(MatchedText.by_rule(OZ, text), LEXICON.cues)] == missing
    with_full_stops = MatchedText.by_rule(record("A.F.C. Oz | language = Ozish"), "The language of A.F.C. Oz is Ozish.")
    assert triples_without_cue(with_full_stops, LEXICON.cues) == ()


ULM = record("Ulm | mayor = Ann", "Ulm Castle | owner = Bob", "Ulm | code = UL", "Bob Hall | mayor = Eve")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The leader of Ulm is Ann.", []),
        ("The leader of Ulm Castle is Ann.", ["Ulm Castle"]),  # the leader of another entity
        ("Ulm Castle is owned by Ann.", ["Ann"]),
        ("The leader of Bob Hall is Eve.", []),  # "Bob" inside a longer name is ignored
        ("Ann is owned by Bob.", []),  # only words before names indicate roles
        ("Ulm Castle is owned by Bob Ulm.", []),
        ("Bob owned Ulm Castle by Ann.", []),
        ("Ulm Castle is owned by UL.", []),  # the predicate `code` is unknown from training
    ],
)
def test_names_in_roles_of_other_triples_are_found(text: str, names: list[str]) -> None:
    spans = wrong_roles(MatchedText.by_rule(ULM, text), LEXICON.roles_after, LEXICON.contexts)
    assert [text[slice(*span)] for span in spans] == names


CUES, FOREIGN = Lexicon(cues=LEXICON.cues), Lexicon(predicates_of=LEXICON.predicates_of)
ROLES = Lexicon(roles_after=LEXICON.roles_after, contexts=LEXICON.contexts)
HOME = record("town = Ulm", "home = Ur", subject="Oz")


@pytest.mark.parametrize(
    ("lexicon", "item", "before", "fact", "passes"),
    [
        # facts without a cue
        (CUES, OZ, "", "The currency of Oz is Ozo.", True),
        (CUES, OZ, "", "The language in Oz is Ozo.", False),
        (CUES, OZ, "The language of Oz is Ozish.", "It is Ozo.", False),
        (CUES, OZ, "The currency of Oz, whose language is Ozish,", "is Ozo.", True),
        (CUES, OZ, "The language of Oz is Ozish, its currency", "Ozo.", True),
        # facts with a word of other predicates
        (FOREIGN, HOME, "", "Oz lives in Ur.", True),
        (FOREIGN, HOME, "", "Oz was born in Ur.", False),
        (FOREIGN, HOME, "", "Oz, who was born, lives in Ur.", False),
        (FOREIGN, HOME, "Born in Ulm, ", "Oz lives in Ur.", True),
        (FOREIGN, HOME, "Born, ", "Oz lives in Ur.", True),  # an error in the previous fact
        (FOREIGN, HOME, "Oz, a child of Ulm, ", "was born and lives in Ur.", True),  # the sentence has a value of town
        (FOREIGN, HOME, "Oz is a child of Ulm.", "Oz, who was born, lives in Ur.", False),
        (FOREIGN, record("town = Ulm", "home = Born Ur", subject="Oz"), "", "Oz lives in Born Ur.", True),
        # facts with a name in a wrong role
        (ROLES, record("castle = Bo", "mayor = Ann", subject="Ulm"), "", "The leader of Ulm is Ann.", True),
        (ROLES, record("castle = Bo", "mayor = Ann", subject="Ulm"), "", "Ulm is owned by Ann.", False),
    ],
)
def test_the_search_rejects_facts_that_contradict_the_lexicon(
    lexicon: Lexicon, item: Record, before: str, fact: str, passes: bool
) -> None:
    groups = [[0], [1]] if before else [[1]]
    assert judge_of(item, *groups, lexicon=lexicon)(before, fact) is passes


def test_lexicons_are_merged() -> None:
    known = Lexicon(lower=frozenset(("born",)), contexts={"hatched": {"": 9}, "town": {"": 9}})
    other = Lexicon(
        cues={"language": ("spoken",), "food": ("eat",)},
        predicates_of={"born": ("birthPlace",), "sung": ("language",)},
        roles_after={"leader of": ("subject of boss",), "sung by": ("object of singer",)},
        contexts={"currency": {"": 100}},
    )
    with_words = Lexicon(lower=frozenset(("owned", "by")))
    for first, second in ((LEXICON, known), (known, LEXICON)):
        assert first.merged(second).predicates_of["born"] == ("hatched", "town", "year")
    for merged in (LEXICON.merged(other), other.merged(LEXICON)):
        assert {"language", "spoken"} <= {*merged.cues["language"]} and merged.cues["food"] == ("eat",)
        assert "currency" not in merged.cues, "the other corpus has too many paraphrases for a cue"
        assert merged.predicates_of["born"] == ("birthPlace", "town", "year")
        assert merged.predicates_of["sung"] == ("language",)
        assert {*merged.roles_after["leader of"]} == {"subject of mayor", "subject of boss"}
        assert "sung by" in merged.roles_after
    for merged in (LEXICON.merged(with_words), with_words.merged(LEXICON)):
        assert "leader of" in merged.roles_after and "owned by" not in merged.roles_after, "may mean another role"
