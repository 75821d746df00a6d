"""The judge of the constrained search, which decides whether a fact with these words may end after this text."""

from collections.abc import Callable, Sequence

import pytest

from agggen.generation.hypotheses import PlanPrefix
from agggen.generation.record_constraints import RecordConstraints, RestrictedWords
from agggen.records import Record
from agggen.text.tokenise import tokenise
from agggen.verification.check import Checker
from agggen.verification.lexicon import Lexicon
from tests.unit.generation.test_generator import generator
from tests.unit.verification.texts import record as record_of

Judge = Callable[[str, str], bool]


def word_ids(restricted: RestrictedWords, extras: list[str], text: str) -> list[int]:
    """The word ids of a text; out-of-vocabulary words are appended to `extras`."""
    tokens = [token.text for token in tokenise(text)]
    extras.extend(word for word in dict.fromkeys(tokens) if word not in (*restricted.ids, *extras))
    ids = restricted.ids | {word: number for number, word in enumerate(extras, start=len(restricted.vocabulary))}
    return [ids[token] for token in tokens]


def judge_of(record: Record, *groups: Sequence[int], lexicon: Lexicon | None = None) -> Judge:
    """Returns ``judge(text before, fact)`` for the fact of the last group."""
    restricted, extras = RestrictedWords(generator().encoder.vocabulary, Checker(lexicon)), list[str]()

    def judge(before: str, fact: str) -> bool:
        first, second = (word_ids(restricted, extras, text) for text in (before, f"{before} {fact}"))
        prefix = PlanPrefix(0, tuple(map(frozenset, groups)), is_complete=False)
        return RecordConstraints(restricted, record, extras)(prefix).judge(second[len(first) :], first)

    return judge


TOWNS = record_of("Ulm | country = Oz", "Oz | leader = Ann", "Ulm | area = 119")
CLUB = record_of(
    *("Ulm Town | manager = Ann Bo", "Ann Bo | club = Oz F.C.", "Ulm Town | league = Serie B"),
    *("Ulm, Oz | team = Ulm Town", "Ulm, Oz | area = 119"),
)
MAYORS = record_of(
    *("Ulm | leader = Ann", "Ann | birthPlace = Bo", "Ulm | area = 119"),
    *("\u00d6rebro | country = Oz", "\u00d6rebro | area = 5"),
)
UNIVERSITY = record_of("Ulm, Oz | area = 119", "Bo | leader = Ann", "Ulm, Oz | university = Ulm University")
AREA_AND_LEADER = "Ulm, Oz has an area of 119. Bo is led by Ann."
LEADERS = record_of("Oz | leader = Ann of Oz", "Ulm | leader = Bo")
PARTS = record_of("Ulm, Oz | isPartOf = Bo, Oz", "Oz | area = 119", "Ulm, Oz | leader = Ann")
ULM_FACTS = ("leader = Ann", "area = 119")
ULM = record_of(*ULM_FACTS, subject="Ulm")
OZ = record_of("leader = Ann", "leader-2 = Bob", subject="Oz")
HUT = record_of("leader = Ann", "leader-2 = The Hut", subject="Oz")
LATIN, QUOTED = record_of("namedAfter = ray (Latin)"), record_of('namedAfter = "Ulma"')


@pytest.mark.parametrize(
    ("record", "groups", "before", "fact", "passes"),
    [
        (TOWNS, [[0], [1]], "Ulm is in Oz", ", which is led by Ann.", True),
        (TOWNS, [[0], [1]], "Ulm is in Oz", ", led by Ann.", True),
        (TOWNS, [[0], [1]], "Ulm is in Oz", "and is led by Ann.", False),
        (TOWNS, [[0], [1]], "Ulm is in Oz and", "is led by Ann.", False),
        (TOWNS, [[0], [1]], "Ulm is in Oz and", "Oz is led by Ann.", True),
        (TOWNS, [[0], [2]], "Ulm's land is Oz", "and has an area of 119.", False),
        (TOWNS, [[0], [2]], "Ulm's land is Oz.", "It has an area of 119.", True),
        (TOWNS, [[0], [1]], "Ulm is in Oz.", "It is led by Ann.", False),
        (TOWNS, [[0], [2]], "Ulm is in Oz", "and has an area of 119.", True),
        (TOWNS, [[2], [0], [1]], "Ulm has an area of 119. It is in Oz.", "It is led by Ann.", False),
        (TOWNS, [[0], [0], [2]], "Ulm is in Oz. The town is in Oz.", "It has an area of 119.", True),
        (TOWNS, [[1], [0], [2]], "Oz is led by Ann. Ulm is in Oz.", "It has an area of 119.", True),
        (TOWNS, [[0, 1], [2]], "Ulm is in Oz and Oz is led by Ann.", "It has an area of 119.", False),
        (TOWNS, [[0, 1], [2]], "Ulm is in Oz, which is led by Ann.", "It has an area of 119.", True),
        (TOWNS, [[0, 1], [2]], "Ulm is in Oz, which is led by Ann,", "and has an area of 119.", False),
        (TOWNS, [[2], [0, 1]], "Ulm has an area of 119.", "It is in Oz, which is led by Ann.", True),
        (TOWNS, [[1], [0]], "Ann leads Oz", "and is the home of Ulm.", False),
        (TOWNS, [[0, 1], [2]], "Ulm is in Oz and the leader of Oz is Ann", "and has an area of 119.", False),
        (TOWNS, [[0], [2]], "In the land of Oz lies Ulm", "and has an area of 119.", True),
        # "which" refers to the preceding name
        (CLUB, [[0], [2]], "The manager of Ulm Town is Ann Bo,", "who plays in Serie B.", False),
        (CLUB, [[2], [0]], "Ulm Town play in Serie B", "which is managed by Ann Bo.", False),
        (CLUB, [[2], [0]], "Ulm Town play in the Serie B league", "which Ann Bo left to manage.", True),
        (CLUB, [[0], [2]], "Ann Bo manages Ulm Town", "which plays in Serie B.", True),
        (CLUB, [[0], [1]], "The manager is Ann Bo of Ulm Town", "where Oz F.C. is a club.", False),
        (CLUB, [[0], [1]], "The manager of Ulm Town is Ann Bo", ", a player of Oz F.C.", True),
        (CLUB, [[0], [2]], "The manager of Ulm Town is Ann Bo,", "a club of Serie B.", False),
        (CLUB, [[2], [0]], "Ulm Town, Serie B,", "where Ann Bo manages.", True),
        (CLUB, [[2], [0]], "Ulm Town is in Serie B", "where Ann Bo manages.", False),
        # the subject of a verb is the name that begins the sentence
        (CLUB, [[0], [1]], "Ann Bo manages Ulm Town", "and plays for Oz F.C.", True),
        (CLUB, [[0], [2]], "Ann Bo manages Ulm Town", "and plays in Serie B.", False),
        (CLUB, [[0], [2]], "The manager of Ulm Town is Ann Bo", "and plays in Serie B.", True),
        (CLUB, [[2], [0], [1]], "Ulm Town play in Serie B. They are managed by Ann Bo", "and has Oz F.C.", False),
        (CLUB, [[1], [0]], "Ann Bo has played for Oz F.C. and", "manages Ulm Town.", False),
        (CLUB, [[3], [4]], "The team of Ulm, Oz is Ulm Town.", "The area of Ulm is 119.", True),
        (CLUB, [[0], [4]], "Ann Bo manages Ulm Town", "The area of Ulm is 119.", False),
        # sentences begin with any capital letter; the subject may follow later
        (MAYORS, [[0], [1]], "Led by Ann, Ulm is large", "and was born in Bo.", False),
        (MAYORS, [[0], [2]], "Led by Ann, Ulm is large", "and has an area of 119.", True),
        (MAYORS, [[0], [3], [2]], "Ann leads Ulm. \u00d6rebro is in Oz.", "It has an area of 119.", False),
        (MAYORS, [[0], [3], [4]], "Ann leads Ulm. \u00d6rebro is in Oz.", "It has an area of 5.", True),
        (MAYORS, [[0], [3], [4]], 'Ann leads "Ulm." \u00d6rebro is in Oz.', "It has an area of 5.", True),
        # a name inside a longer name does not name its subject
        (UNIVERSITY, [[0], [1], [2]], AREA_AND_LEADER, "The university is Ulm University.", False),
        (UNIVERSITY, [[0], [1], [2]], AREA_AND_LEADER, "The university in Ulm is Ulm University.", True),
        (LEADERS, [[0]], "", "Ann of Oz is the leader of a town.", False),
        (LEADERS, [[0]], "", "Ann of Oz is the leader of Oz.", True),
        # a relative clause must not express values of another subject
        (CLUB, [[0, 2]], "", "Ann Bo manages Ulm Town, which plays in Serie B.", True),
        (CLUB, [[0, 2]], "", "Ulm Town is managed by Ann Bo, who plays in Serie B.", False),
        (CLUB, [[0, 2]], "", "Ulm Town is managed by Ann Bo who came late, and plays in Serie B.", True),
        (CLUB, [[0, 2]], "", "Ulm Town is managed by Ann Bo, who led Ulm Town to Serie B.", True),
        (CLUB, [[0, 2]], "", "Serie B, which Ulm Town entered, is known to Ann Bo.", True),
        # the parts of a subject may be separate
        (PARTS, [[0]], "", "Ulm is part of Bo, Oz.", True),
        (PARTS, [[0]], "", "Ulm is part of Bo.", False),
        (PARTS, [[0], [2]], "Ulm is part of Bo, Oz", "and is led by Ann.", True),
        (PARTS, [[0], [1], [2]], "Ulm is part of Bo, Oz. Oz has an area of 119.", "Ulm is led by Ann.", True),
        # a fact about the only subject must not continue a sentence about another name
        (ULM, [[0], [1]], "Ulm is led by Ann", "and has an area of 119.", True),
        (ULM, [[0], [1]], "Ann leads Ulm", "and has an area of 119.", False),
        (ULM, [[0], [1]], "Ulm's leader is Ann", "and has an area of 119.", False),
        (ULM, [[0], [1]], "The Ann leads Ulm and", "has an area of 119.", False),
        (ULM, [[0], [1]], "Ann leads Ulm", "and Ulm has an area of 119.", True),
        (ULM, [[0], [1]], "Ann leads Ulm", "and the area is 119.", True),
        (ULM, [[0], [1]], "Ann leads Ulm", ", which has an area of 119.", True),
        (ULM, [[0], [1]], "Ann is the one who leads Ulm", "and has an area of 119.", True),
        (ULM, [[0], [1]], "Ann leads Ulm and it is small", "and has an area of 119.", True),
        (ULM, [[0], [1]], "Ann leads Ulm.", "It has an area of 119.", True),
        (ULM, [[0], [1]], "Near Ann lies Ulm", "and has an area of 119.", True),
        (ULM, [[0], [1]], "Ulm is led by Ann", "whose area is 119.", False),
        (ULM, [[0], [1]], "Ann leads Ulm", ", whose area is 119.", True),
        (ULM, [[0], [1]], "Ulm is led by Ann", "whose town has an area of 119.", False),
        (ULM, [[0], [1]], "Ulm is led by Ann", "whose Ulm has an area of 119.", True),
        (ULM, [[0], [1]], "Ann, also known as Ulm, is a town", "and has an area of 119.", True),
        (ULM, [[0], [1]], "Ann (in short Ulm) is a town", "and has an area of 119.", True),
        # a name that ends like a possessive
        (record_of(*ULM_FACTS, subject="Levi's"), [[0], [1]], "Levi's is led by Ann", "and has an area of 119.", True),
        (record_of(*ULM_FACTS, subject="Bo'"), [[0], [1]], "Bo' is led by Ann", "and has an area of 119.", True),
        # brackets and quotation marks must be balanced
        (LATIN, [[0]], "", "It is named after ray (Latin).", True),
        (LATIN, [[0]], "", "It is named after ray.", True),
        (LATIN, [[0]], "", "It is named after ray ().", False),
        (LATIN, [[0]], "", "It is named after ray (Latin.", False),
        (QUOTED, [[0]], "", 'It is named after "Ulma".', True),
        (QUOTED, [[0]], "", 'It is named after Ulma".', False),
        (record_of("namedAfter = 6' 2\" Bob"), [[0]], "", "It is named after 6' 2\" Bob.", True),
        # a sentence must not begin inside another
        (OZ, [[0], [1]], "The leader of Oz is Ann.", "The leader of Oz is Bob.", True),
        (OZ, [[0], [1]], "The leader of Oz is Ann", "The leader of Oz is Bob.", False),
        (OZ, [[0], [1]], "Ann leads Oz", "It is led by Bob.", False),
        (OZ, [[0], [1]], "Ann leads Oz and", "it is led by Bob.", True),
        (HUT, [[0], [1]], "Ann leads Oz and", "The Hut is in it.", True),
        (OZ, [[0], [1]], "The leader of Oz is Ann Smith.", "and Bob leads Oz.", False),
        (OZ, [[0], [1]], "The leader of Oz is Ann Jr.", "and Bob leads Oz.", True),
        (OZ, [[0], [1]], "ann leads oz since 1990.", "and Bob leads Oz.", True),
    ],
)
def test_facts_that_may_end(record: Record, groups: list[list[int]], before: str, fact: str, passes: bool) -> None:
    assert judge_of(record, *groups)(before, fact) is passes


@pytest.mark.parametrize(("share", "passes"), [(0.95, False), (0.8, True)])
def test_a_name_nearly_always_with_the_article_the_needs_it_after_a_preposition(share: float, passes: bool) -> None:
    judge = judge_of(record_of("home = Hague", subject="She"), [0], lexicon=Lexicon(articles={"Hague": share}))
    assert judge("", "She lives in Hague.") is passes


@pytest.mark.parametrize(
    ("subject", "other", "fact", "passes"),
    [
        ("Ann", "home = Oz", "She lives in Oz.", True),
        ("Ann", "home = Oz", "He lives in Oz.", False),
        ("Bo", "home = Oz", "His home is Oz.", False),
        ("Bo", "home = Oz", "It lives in Oz.", True),
        ("Bo", "gender = Male", "He is male.", True),
        ("Bo", "gender = Male", "She is male.", False),
        ("Bo", "film = His Girl", "It has His Girl.", True),
    ],
)
def test_a_pronoun_needs_evidence_of_the_gender(subject: str, other: str, fact: str, passes: bool) -> None:
    record = record_of(other, subject=subject)
    assert judge_of(record, [0], lexicon=Lexicon(genders={"Ann": ("female",)}))("Bo and Ann live.", fact) is passes
    assert judge_of(record, [0])("Bo and Ann live.", fact), "without evidence from training texts, all are allowed"


@pytest.mark.parametrize(
    ("subject", "fact", "passes"),
    [
        ("Oz Inc.", "Oz Inc. is in Ulm.", True),
        ("Oz Inc.", "Inc is in Ulm.", False),
        ("Ann Lee Bo", "Ann Lee is in Ulm.", False),
        ("Oz, Peru", "Oz is in Ulm.", True),
        ("Ulm Town", "It is in Ulm.", True),
        ("Zyx", "Zyx is in Ulm.", True),
        ("Known Bo", "Bo is in Ulm.", True),
    ],
)
def test_only_names_of_training_texts_are_shortened(subject: str, fact: str, passes: bool) -> None:
    record = record_of("home = Ulm", subject=subject)
    assert judge_of(record, [0], lexicon=Lexicon(articles={"Known Bo": 0.0}))("", fact) is passes
    assert judge_of(record, [0])("", fact), "without names from training texts, all may be shortened"
