"""Trees and facts of typical frames, and invariants for random frames."""

import random
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.facts import cut
from agggen.facts.frames import Frame, Phrase, Sentence
from agggen.facts.tree import Level, Node, build_tree, fact_starts
from tests.unit.facts.role_notation import joined, sentence


def marked(described: Sentence, level: Level = "full") -> str:
    """The words of a sentence with bars between facts: ``Bolt is a comic | drawn by Cohn .``"""
    words = described.tokens.words
    starts = fact_starts(described, level)
    return " | ".join(" ".join(words[start:end]) for start, end in pairwise((*starts, len(words))))


FULL = {
    # The facts, then the frames.
    "an auxiliary verb states no fact": (
        "The mill was built in 1800 .",
        "The mill [V: was] built in 1800 .",
        "[ARG1: The mill] was [V: built] [ARGM-TMP: in 1800] .",
    ),
    "the antecedent of a later relative clause belongs to the governing fact": (
        "Mia Holt lives in Bergen , | which lies in Norway .",
        "[ARG0: Mia Holt] [V: lives] [ARGM-LOC: in Bergen , which lies in Norway] .",
        "Mia Holt lives in [ARG1: Bergen] , [R-ARG1: which] [V: lies] [ARGM-LOC: in Norway] .",
    ),
    "the noun of a copula and an adverb before a reduced clause belong to the governing fact": (
        "It is a play first | staged in Oslo .",
        "[ARG1: It] [V: is] [ARG2: a play first staged in Oslo] .",
        "It is [ARG1: a play] [ARGM-TMP: first] [V: staged] [ARGM-LOC: in Oslo] .",
    ),
    "any other reduced clause includes all words of its argument": (
        "The work was followed | by a play staged in Oslo , in Danish .",
        "[ARG1: The work] was [V: followed] [ARG1: by a play staged in Oslo , in Danish] .",
        "The work was followed by [ARG1: a play] [V: staged] [ARGM-LOC: in Oslo] , in Danish .",
    ),
    "a single predicate at the end is not a fact": (
        "Norwegian is the language spoken .",
        "[ARG1: Norwegian] [V: is] [ARG2: the language spoken] .",
        "Norwegian is [ARG1: the language] [V: spoken] .",
    ),
    "a predicate with its preposition is a fact": (
        "Norway is the country | the dish comes from .",
        "[ARG1: Norway] [V: is] [ARG2: the country the dish comes from] .",
        "Norway is [ARG2: the country] [ARG1: the dish] [V: comes] [ARG3: from] .",
    ),
    "nested frames": (
        "It was a battle | involving the army | who hold the hill .",
        "[ARG1: It] [V: was] [ARG2: a battle involving the army who hold the hill] .",
        "It was [ARG2: a battle] [V: involving] [ARG1: the army who hold the hill] .",
        "It was a battle involving [ARG0: the army] [R-ARG0: who] [V: hold] [ARG1: the hill] .",
    ),
    "frames side by side in one argument": (
        "It lies in Norway , | where Oslo is the capital , | the king is Harald .",
        "[ARG1: It] [V: lies] [ARGM-LOC: in Norway , where Oslo is the capital , the king is Harald] .",
        "It lies in [ARGM-LOC: Norway] , [R-ARGM-LOC: where] [ARG1: Oslo] [V: is] [ARG2: the capital] , the king"
        " is Harald .",
        "It lies in Norway , where Oslo is the capital , [ARG1: the king] [V: is] [ARG2: Harald] .",
    ),
    "coordinates share their subject": (
        "The bridge is in Oslo | and was built by Per Dahl .",
        "[ARG1: The bridge] [V: is] [ARG2: in Oslo] and was built by Per Dahl .",
        "[ARG1: The bridge] is in Oslo and was [V: built] [ARG0: by Per Dahl] .",
    ),
    "coordinates in a relative clause": (
        "Per owns a hall | which has 20 floors | and lies in Oslo .",
        "[ARG0: Per] [V: owns] [ARG1: a hall which has 20 floors and lies in Oslo] .",
        "Per owns [ARG0: a hall] [R-ARG0: which] [V: has] [ARG1: 20 floors] and lies in Oslo .",
        "Per owns [ARG1: a hall] [R-ARG1: which] has 20 floors and [V: lies] [ARGM-LOC: in Oslo] .",
    ),
    "an overlapping frame is trimmed to the argument that contains its predicate": (
        "Built in 1990 , | the hall draws many guests every year .",
        "[ARG1: Built in 1990] , [ARG0: the hall] [V: draws] [ARG1: many guests every year] .",
        "[V: Built] [ARGM-TMP: in 1990] , [ARG1: the hall] draws many guests every year .",
    ),
    "opening quotes and brackets belong to the following fact": (
        'Ann wrote Ice | ( it sold well ) , | " Rain " came later .',
        '[ARG0: Ann] [V: wrote] [ARG1: Ice] ( it sold well ) , " Rain " came later .',
        'Ann wrote Ice ( [ARG1: it] [V: sold] [ARGM-MNR: well] ) , " Rain " came later .',
        'Ann wrote Ice ( it sold well ) , " [ARG1: Rain] " [V: came] [ARGM-TMP: later] .',
    ),
    "a conjunction alone is not a fact": (
        "and the language spoken there | is Sami .",
        "[ARGM-DIS: and] [ARG1: the language spoken there] [V: is] [ARG2: Sami] .",
        "and [ARG1: the language] [V: spoken] [ARGM-LOC: there] is Sami .",
    ),
    "a relative clause at the beginning includes its antecedent: the example of the paper": (
        "William Anders , who retired in 1969 , | was a crew member on Apollo 8 .",
        "[ARG1: William Anders , who retired in 1969 ,] [V: was] [ARG2: a crew member on Apollo 8] .",
        "[ARG0: William Anders] , [R-ARG0: who] [V: retired] [ARGM-TMP: in 1969] , was a crew member on Apollo 8 .",
    ),
}
PAPER = {
    "the antecedent of a later relative clause belongs to the governing fact": (
        "Mia Holt lives | in Bergen , which lies in Norway ."
    ),
    "nested frames": "It was | a battle involving | the army who hold the hill .",
    "frames side by side in one argument": "It lies | in Norway , where Oslo is the capital , the king is Harald .",
    "coordinates share their subject": "The bridge is in Oslo and was built by Per Dahl .",
    "opening quotes and brackets belong to the following fact": (
        'Ann wrote Ice ( | it sold well ) , " | Rain " came later .'
    ),
    "a relative clause at the beginning includes its antecedent: the example of the paper": (
        "William Anders , who retired in 1969 , | was a crew member on Apollo 8 ."
    ),
}


@pytest.mark.parametrize(
    ("level", "name", "facts"),
    [*(("full", name, facts) for name, (facts, *_) in FULL.items()), *(("paper", *case) for case in PAPER.items())],
)
def test_facts_of_described_frames(level: Level, name: str, facts: str) -> None:
    assert marked(sentence(facts.replace(" | ", " "), *FULL[name][1:]), level) == facts


# --- invariants for random frames -----------------------------------------------------------------------------------

WORDS = st.sampled_from(["Ann", "Bolt", ",", ".", "(", ")", '"', "and", "but", "which", "was", "1990", "-"])
ROLES = st.sampled_from(["ARG0", "ARG1", "ARG2", "ARGM-LOC", "ARGM-DIS", "R-ARG0", "R-ARG1", "C-ARG1", "C-V"])


@st.composite
def any_frames(draw: st.DrawFn, length: int) -> Frame:
    """A random frame, possibly without arguments, discontinuous, or with relative pronouns."""
    edges = sorted(draw(st.sets(st.integers(0, length), min_size=2, max_size=8)))
    spans = [(start, end) for start, end in pairwise(edges) if draw(st.booleans())]
    spans = spans or [(edges[0], edges[1])]
    verb = draw(st.integers(0, len(spans) - 1))
    phrases = [Phrase("V" if k == verb else draw(ROLES), *span) for k, span in enumerate(spans)]
    return Frame(spans[verb][0], tuple(phrases))


@st.composite
def any_sentences(draw: st.DrawFn) -> Sentence:
    words = draw(st.lists(WORDS, max_size=16))
    frames = draw(st.lists(any_frames(len(words)), max_size=7)) if words else []
    return Sentence(joined(words), tuple(frames))


@pytest.mark.parametrize("level", get_args(Level))
@given(sentence=any_sentences())
def test_facts_of_any_frames_concatenate_to_the_text_and_have_words(level: Level, sentence: Sentence) -> None:
    words = sentence.tokens.words
    text = " ".join(words)
    starts = fact_starts(sentence, level)
    assert starts[:1] == ([0] if words else [])
    assert starts == sorted(set(starts)) and all(start < len(words) for start in starts)
    facts = cut(text, [sentence.tokens.spans[start][0] for start in starts])
    assert "".join(facts) == text and len(facts) == len(starts)
    if level == "full" and any(word.isalnum() for word in words):
        assert all(any(map(str.isalnum, fact)) for fact in facts), "a fact has no word"


@pytest.mark.parametrize("level", get_args(Level))
@given(sentence=any_sentences(), order=st.randoms(use_true_random=False))
def test_the_order_of_frames_does_not_matter(level: Level, sentence: Sentence, order: random.Random) -> None:
    frames = list(sentence.frames)
    order.shuffle(frames)
    assert fact_starts(Sentence(sentence.tokens, tuple(frames)), level) == fact_starts(sentence, level)


@pytest.mark.parametrize("level", get_args(Level))
@given(sentence=any_sentences())
def test_trees_are_properly_nested(level: Level, sentence: Sentence) -> None:
    def check(nodes: list[Node], start: int, end: int) -> None:
        for node in nodes:
            assert start <= node.start <= node.predicate < node.end <= end
            assert any(phrase.is_predicate for phrase in node.phrases)
            assert node.is_coordinate or not all(phrase.is_predicate for phrase in node.phrases)
            for number, children in node.children.items():
                phrase = node.phrases[number]
                assert children
                assert level == "full" or len(children) == 1
                assert not phrase.is_predicate
                check(children, phrase.start, phrase.end)
            start = node.end

    check(build_tree(sentence, level), 0, len(sentence.tokens.words))
