"""Changed copies of training sentences, so that a tagger of web text copes with encyclopaedic and lower-cased text.

A run of proper nouns is replaced by another name, often a longer or odder one ("1634 : The Grantville Gazettes"); a
sentence is written in lower case, or loses its final full stop. Roles, predicates and syntax follow the words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agggen.facts.tagger.decode import Role
from agggen_platform.srl.tagger.data import Sentence, name_runs

_JOINTS = ("of", "of", "the", "The", "and", "for", ":", "-", "/", "&", "in", "de", "von")


@dataclass(frozen=True, slots=True)
class Noise:
    """How often, as probabilities."""

    names: float = 0.4  # a run of proper nouns is replaced
    lower: float = 0.15  # a sentence is written in lower case
    unstopped: float = 0.05  # a sentence loses its final full stop


def names_of(sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
    """Every run of proper nouns of the sentences, in order, with repetitions."""
    return [sentence.words[begin:end] for sentence in sentences for begin, end in name_runs(sentence)]


def change(sentence: Sentence, names: Sequence[tuple[str, ...]], noise: Noise, rng: random.Random) -> Sentence:
    """A copy of `sentence` with the noise that `rng` draws."""
    for begin, end in reversed(list(name_runs(sentence))):
        if names and rng.random() < noise.names and _is_one_phrase(sentence, begin, end):
            sentence = _replace(sentence, begin, end, _invent(names, rng))
    if rng.random() < noise.unstopped and len(sentence.words) > 2 and sentence.words[-1] == ".":
        sentence = _shorten(sentence)
    if rng.random() < noise.lower:
        sentence = replace(sentence, words=tuple(word.lower() for word in sentence.words))
    return sentence


def _invent(names: Sequence[tuple[str, ...]], rng: random.Random) -> tuple[str, ...]:
    name = rng.choice(names)[:6]
    kind = rng.random()
    if kind < 0.2:
        return (*name, rng.choice(_JOINTS), *rng.choice(names)[:4])
    if kind < 0.26:
        return (str(rng.randint(1, 2020)), *rng.choice(((), (":",), (":", "The"))), *name)
    if kind < 0.32:
        return (*name, "(", *rng.choice(names)[:3], ")")
    if kind < 0.36:
        return (*name, str(rng.randint(1, 2020)))
    return name


def _is_one_phrase(sentence: Sentence, begin: int, end: int) -> bool:
    """Whether no role begins or ends within the run, and no predicate lies in it."""
    if any(sentence.predicates[begin:end]):
        return False
    return all(
        tag == (f"I-{role.tags[begin][2:]}" if role.tags[begin] != "O" else "O")
        for role in sentence.roles
        for tag in role.tags[begin + 1 : end]
    )


def _replace(sentence: Sentence, begin: int, end: int, name: tuple[str, ...]) -> Sentence:
    more = len(name) - 1

    def moved(role: Role) -> Role:
        first = role.tags[begin]
        inner = first if first == "O" else f"I-{first[2:]}"
        tags = (*role.tags[:begin], first, *([inner] * more), *role.tags[end:])
        return Role(role.predicate + (len(name) - (end - begin) if role.predicate >= end else 0), tags)

    return Sentence(
        (*sentence.words[:begin], *name, *sentence.words[end:]),
        (*sentence.pos[:begin], *("NNP" if word[:1].isupper() else None for word in name), *sentence.pos[end:]),
        (*sentence.syntax[:begin], *([None] * more), sentence.syntax[end - 1], *sentence.syntax[end:]),
        (*sentence.predicates[:begin], *([False] * len(name)), *sentence.predicates[end:]),
        tuple(moved(role) for role in sentence.roles),
    )


def _shorten(sentence: Sentence) -> Sentence:
    return Sentence(
        sentence.words[:-1],
        sentence.pos[:-1],
        sentence.syntax[:-1],
        sentence.predicates[:-1],
        tuple(Role(role.predicate, role.tags[:-1]) for role in sentence.roles),
    )
