"""Examples with synthetic errors: labels agree with the words."""

from collections import Counter

import pytest

from agggen.verification.critic.corruption import Corruptor
from agggen.verification.critic.examples import MISSING, PART, SAID, UNKNOWN, WRONG, Example, locate, to_example

TEXTS = {
    "Silicon is in period 3 and group 14. It was discovered by Jons Jacob Berzelius.": [
        *(("Silicon", "period", "3"), ("Silicon", "group", "14"), ("Silicon", "discoveredBy", "Jons Jacob Berzelius")),
    ],
    "Aromi serves English food in the city centre.": [("Aromi", "food", "English"), ("Aromi", "area", "city centre")],
    "Ann Lee was born in Ulm, which is in Germany.": [("Ann Lee", "birthPlace", "Ulm"), ("Ulm", "country", "Germany")],
    "Nord is a sludge metal album.": [("Nord (album)", "genre", "Sludge metal")],
    "Ben Ray died in Oslo.": [("Ben Ray", "deathPlace", "Oslo")],
}


def originals() -> list[Example]:
    return [example for text, triples in TEXTS.items() if (example := to_example(triples, text))]


@pytest.fixture(scope="module")
def drawn() -> list[Example]:
    corruptor = Corruptor(originals(), seed=3)
    return [corruptor.draw() for _ in range(3000)]


def test_every_triple_and_word_has_a_label(drawn: list[Example]) -> None:
    for example in drawn:
        assert len(example.labels) == len(example.triples) > 0
        assert len(example.invented) == len(example.words) > 0
    labels = Counter(label for example in drawn for label in example.labels)
    assert min(labels[label] for label in (SAID, PART, WRONG, MISSING, UNKNOWN)) > 30
    assert 0.02 < sum(sum(example.invented) for example in drawn) / sum(len(example.words) for example in drawn) < 0.2


def test_missing_values_are_not_in_the_text(drawn: list[Example]) -> None:
    once = [example for example in drawn if example.labels.count(MISSING) == 1]
    values = [example.triples[example.labels.index(MISSING)][2] for example in once]
    mentioned = sum(bool(locate(value, example.words)[1]) for value, example in zip(values, once, strict=True))
    assert mentioned < 0.05 * len(once)  # unless a second error inserts a sentence with the value


def test_invented_words_are_in_no_triple(drawn: list[Example]) -> None:
    for example in drawn:
        invented = {word for word, mark in zip(example.words, example.invented, strict=True) if mark}
        assert len(invented & example.value_words()) <= 3  # unless a second error added a triple with these words


def test_the_same_seed_draws_the_same_examples_and_changes_no_original_text(drawn: list[Example]) -> None:
    examples = originals()
    corruptor = Corruptor(examples, seed=3)
    assert [corruptor.draw() for _ in range(500)] == drawn[:500]
    assert examples == originals()


def test_neither_words_nor_triples_may_be_missing() -> None:
    assert to_example([("A", "b", "C")], "?!") is None
    assert to_example([], "Words.") is None
