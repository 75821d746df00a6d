"""Examples with known errors: their labels are true of their words."""

from __future__ import annotations

from collections import Counter

import pytest

from agggen.verification.critic.corruption import Corruptor
from agggen.verification.critic.examples import MISSING, PART, SAID, UNKNOWN, WRONG, Example, mention, to_example

TEXTS = [
    (
        [("Silicon", "period", "3"), ("Silicon", "group", "14"), ("Silicon", "discoveredBy", "Jons Jacob Berzelius")],
        "Silicon is in period 3 and group 14. It was discovered by Jons Jacob Berzelius.",
    ),
    ([("Aromi", "food", "English"), ("Aromi", "area", "city centre")], "Aromi serves English food in the city centre."),
    (
        [("Ann Lee", "birthPlace", "Ulm"), ("Ulm", "country", "Germany")],
        "Ann Lee was born in Ulm, which is in Germany.",
    ),
    ([("Nord (album)", "genre", "Sludge metal")], "Nord is a sludge metal album."),
    ([("Ben Ray", "deathPlace", "Oslo")], "Ben Ray died in Oslo."),
]


@pytest.fixture(scope="module")
def drawn() -> list[Example]:
    corruptor = Corruptor([to_example(triples, text) for triples, text in TEXTS], seed=3)  # type: ignore[misc]
    return [corruptor.draw() for _ in range(3000)]


def test_every_triple_and_word_has_a_label(drawn: list[Example]) -> None:
    for example in drawn:
        assert len(example.labels) == len(example.triples) > 0
        assert len(example.invented) == len(example.words) > 0
    labels = Counter(label for example in drawn for label in example.labels)
    assert min(labels[label] for label in (SAID, PART, WRONG, MISSING, UNKNOWN)) > 30
    assert 0.02 < sum(map(sum, (one.invented for one in drawn))) / sum(len(one.words) for one in drawn) < 0.2


def test_missing_values_are_not_in_the_text(drawn: list[Example]) -> None:
    once = [example for example in drawn if example.labels.count(MISSING) == 1]
    kept = sum(
        bool(mention(triple[2], example.words)[1])
        for example in once
        for triple, label in zip(example.triples, example.labels, strict=True)
        if label == MISSING
    )
    # A second error may bring the value back: a sentence of the same text inserted, for instance.
    assert kept < 0.05 * len(once)


def test_invented_words_are_in_no_triple(drawn: list[Example]) -> None:
    for example in drawn:
        words = {
            word for subject, _, value in example.triples for word in (*mention_words(subject), *mention_words(value))
        }
        invented = {word for word, mark in zip(example.words, example.invented, strict=True) if mark}
        assert len(invented & words) <= 3  # of a triple that a second error added


def mention_words(value: str) -> tuple[str, ...]:
    from agggen.verification.critic.tokens import value_words

    return value_words(value)


def test_the_same_seed_draws_the_same_examples(drawn: list[Example]) -> None:
    corruptor = Corruptor([to_example(triples, text) for triples, text in TEXTS], seed=3)  # type: ignore[misc]
    assert [corruptor.draw() for _ in range(50)] == drawn[:50]


def test_the_texts_themselves_are_not_changed() -> None:
    examples = [to_example(triples, text) for triples, text in TEXTS]
    corruptor = Corruptor(examples, seed=1)  # type: ignore[arg-type]
    for _ in range(500):
        corruptor.draw()
    assert examples == [to_example(triples, text) for triples, text in TEXTS]


def test_a_text_without_words_is_no_example() -> None:
    assert to_example([("A", "b", "C")], "?!") is None
    assert to_example([], "Words.") is None
