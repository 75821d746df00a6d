"""Substitution of names in training, consistently in record and text."""

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import groupby

import pytest

from agggen.corpora.catalogue import load
from agggen.corpora.rejects import split_rejects
from agggen.encoding import Encoder, training_examples
from agggen.model.batch import UNK, Example
from agggen.records import Record, Reference, Triple
from agggen.text import Vocabulary
from agggen.training.substitution import Substitute, substitution


@cache
def corpus(min_count: int = 60) -> tuple[Vocabulary, list[Example]]:
    records = split_rejects(load("elements", "train"))[0][::8]
    vocabulary = Vocabulary.build(records, min_count=min_count)
    encoder = Encoder(vocabulary, Encoder.predicate_table(records))
    return vocabulary, list(training_examples(records, encoder, "release"))


def substituted(share: float, min_count: int = 60, seed: int = 0) -> list[tuple[Example, Example]]:
    vocabulary, examples = corpus(min_count)
    substitute = substitution(examples, vocabulary, share)
    return [(example, substitute(example, random.Random(f"{seed} {n}"))) for n, example in enumerate(examples)]


def parts(example: Example) -> list[tuple[int, int, tuple[int, ...]]]:
    """(triple, role, words) of each part of the source, in order."""
    tokens = zip(example.triple, example.role, example.source, strict=True)
    grouped = groupby(tokens, key=lambda token: token[:2])
    return [(triple, role, tuple(word for _, _, word in part)) for (triple, role), part in grouped]


def marked(facts: Sequence[Sequence[int]]) -> str:
    return " | ".join(" ".join(f"<{word}>" for word in fact) for fact in facts)


@pytest.mark.parametrize("min_count", [2, 60])
def test_names_are_substituted_consistently_in_record_and_text(min_count: int) -> None:
    for before, after in substituted(0.7, min_count):
        names: dict[tuple[int, ...], tuple[int, ...]] = {}
        for (*where, old), (*place, new) in zip(parts(before), parts(after), strict=True):
            assert where == place
            if where[1] in (1, 3):
                assert names.setdefault(old, new) == new, "a name is not substituted everywhere"
            else:
                assert old == new
        text = marked(before.facts)
        for old in sorted(names, key=len, reverse=True):
            assert names[old] == old or marked([old]) in text
            text = text.replace(marked([old]), marked([names[old]]).replace("<", "(").replace(">", ")"))
        assert text.replace("(", "<").replace(")", ">") == marked(after.facts)


def test_plans_and_alignments_do_not_change() -> None:
    for before, after in substituted(1.0):
        for name in ("id", "predicates", "kept", "required", "forbidden", "max_size"):
            assert getattr(before, name) == getattr(after, name)
        assert len(before.facts) == len(after.facts)


@pytest.mark.parametrize("min_count", [2, 60])
def test_words_that_cannot_be_generated_can_be_copied(min_count: int) -> None:
    vocabulary, _ = corpus(min_count)
    for before, after in substituted(1.0, min_count):
        unknown = Counter(word for fact in before.facts for word in fact)[UNK]
        words = [word for fact in after.facts for word in fact]
        assert all(word < vocabulary.n_output or word in after.source for word in words)
        assert words.count(UNK) <= unknown + sum(word == UNK for word in after.source)


def test_the_share_is_the_fraction_of_substituted_names() -> None:
    def changed(share: float) -> int:
        pairs = [zip(parts(before), parts(after), strict=True) for before, after in substituted(share)]
        return sum(old != new for pair in pairs for old, new in pair)

    assert changed(0.0) == 0
    assert 0.3 * changed(1.0) < changed(0.5) < 0.7 * changed(1.0)


def test_some_names_become_out_of_vocabulary_words() -> None:
    vocabulary, _ = corpus(2)
    names = [name for _, after in substituted(1.0, 2) for _, role, name in parts(after) if role == 3]
    unseen = Counter(word >= len(vocabulary) for name in names for word in name)
    assert 0.02 < unseen[True] / unseen.total() < 0.5


def test_some_names_become_capitalised_words_of_texts() -> None:
    """So that a model copies the symbol "At" instead of starting a sentence with "At"."""
    example, substitute = of_text("In spring, Jan was born in Berlin.", Triple("Jan", "born", "Berlin"))
    the_word = next(word for fact in example.facts for word in fact)
    variants = [substitute(example, random.Random(seed)) for seed in range(300)]
    assert any((the_word,) in (name for _, _, name in parts(variant)) for variant in variants)


def test_substitution_is_determined_by_the_seed() -> None:
    assert substituted(0.5, seed=3) == substituted(0.5, seed=3) != substituted(0.5, seed=4)


def of_text(text: str, *triples: Triple) -> tuple[Example, Substitute]:
    others = [
        Record(f"{n}", (Triple(f"Ann{n}", "born", f"Town{n}"),), (Reference(f"Ann{n} is of Town{n}."),)) for n in "ab"
    ]
    record = Record("r", triples, (Reference(text),))
    vocabulary = Vocabulary.build([record, *others], min_count=1)
    encoder = Encoder(vocabulary, Encoder.predicate_table([record, *others]))
    examples = list(training_examples([record, *others], encoder, "none"))
    return examples[0], substitution(examples, vocabulary, 1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("He was born up north.", "no name is said"),
        ("Jan was born in New York; York is cold.", "a word of New York also occurs elsewhere"),
    ],
)
def test_a_name_is_kept_if_substitution_would_make_the_text_wrong(text: str, reason: str) -> None:
    example, substitute = of_text(text, Triple("Jan", "born", "New York"))
    place = [name for _, role, name in parts(example) if role == 3]
    for seed in range(20):
        assert [name for _, role, name in parts(substitute(example, random.Random(seed))) if role == 3] == place, reason


def test_a_name_inside_a_longer_name_is_not_substituted() -> None:
    triples = Triple("Aarhus Airport", "city", "Aarhus"), Triple("Aarhus Airport", "born", "1901")
    example, substitute = of_text("Aarhus Airport of 1901 serves Aarhus.", *triples)
    for seed in range(20):
        after = substitute(example, random.Random(seed))
        subjects = {name for _, role, name in parts(after) if role == 1}
        assert len(subjects) == 1 and marked(subjects.pop() for _ in "1") in marked(after.facts)
