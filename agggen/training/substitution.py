"""Data augmentation for copying: replaces names (subjects and objects) in a record and its text.

A model can memorise names of training texts, but must copy replaced names. All occurrences of a name are replaced by a
name of the same predicate, a name of any predicate, or out-of-vocabulary words (cf. Kedzie and McKeown 2019, who use
noisy samples of the model). Plans and hard alignments do not change.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from agggen.model.batch import Example
from agggen.text import Vocabulary
from agggen.text.linearise import ROLE_OBJECT, ROLE_SUBJECT
from agggen.text.tokenise import JOINER
from agggen.text.vocabulary import SPECIALS
from agggen.verification.values import FUNCTION_WORDS

Name = tuple[int, ...]
"""The token ids of a subject or object. In a replacement, the k-th out-of-vocabulary word has the id -k."""
Substitute = Callable[[Example, random.Random], Example]

_SAME_PREDICATE, _UNSEEN = 0.6, 0.2
"""Fractions of replacements by names of the same predicate and role, and by out-of-vocabulary words; the remaining
replacements are random names."""


def substitution(examples: Sequence[Example], vocabulary: Vocabulary, share: float) -> Substitute:
    """A function that replaces each name of an example with probability `share` by a name of `examples`.

    A name is kept if the text does not contain it completely, or contains one of its content words outside names: after
    a replacement, the text would contain a word that is not in the record.
    """
    n_words = len(vocabulary)
    common = frozenset(
        number
        for number, word in enumerate(vocabulary.words)
        if number < len(SPECIALS) or not any(map(str.isalnum, word)) or word.strip(JOINER).lower() in FUNCTION_WORDS
    )
    pools: dict[tuple[int, int], dict[Name, None]] = defaultdict(dict)
    for example in examples:
        for triple, role, start, end in _name_spans(example):
            pools[example.predicates[triple], role][_number_extras(example.source[start:end], n_words)] = None
    by_part = {part: list(names) for part, names in pools.items()}
    all_names = list(dict.fromkeys(name for names in by_part.values() for name in names))

    def substitute(example: Example, rng: random.Random) -> Example:
        spans_of: dict[Name, list[tuple[int, int]]] = defaultdict(list)  # spans in the source
        part_of: dict[Name, tuple[int, int]] = {}
        for triple, role, start, end in _name_spans(example):
            name = example.source[start:end]
            spans_of[name].append((start, end))
            part_of[name] = example.predicates[triple], role
        facts = [list(fact) for fact in example.facts]
        occurrences, outside = _occurrences(facts, sorted(spans_of, key=len, reverse=True))
        next_id = max((*example.source, n_words - 1)) + 1
        changes: dict[Name, Name] = {}
        for name, mentions in occurrences.items():
            content = set(name) - common
            if not mentions or not content or content & outside or rng.random() >= share:
                continue
            chance = rng.random()
            pool = by_part[part_of[name]] if chance < _SAME_PREDICATE + _UNSEEN else all_names
            drawn = rng.choice(pool)
            if chance < _UNSEEN:
                drawn = tuple(word if word in common else -number for number, word in enumerate(drawn, start=1))
            new = tuple(word if word >= 0 else next_id - 1 - word for word in drawn)
            next_id = max(next_id, *(word + 1 for word in new))
            if new not in spans_of:
                changes[name] = new
        if not changes:
            return example
        source, triple_of, role_of = list(example.source), list(example.triple), list(example.role)
        spans = sorted(((*span, new) for name, new in changes.items() for span in spans_of[name]), reverse=True)
        for start, end, new in spans:
            source[start:end] = new
            triple_of[start:end] = [triple_of[start]] * len(new)
            role_of[start:end] = [role_of[start]] * len(new)
        replaced = [(fact, start, len(name), new) for name, new in changes.items() for fact, start in occurrences[name]]
        for fact, start, length, new in sorted(replaced, reverse=True):
            facts[fact][start : start + length] = new
        return replace(
            example, source=tuple(source), triple=tuple(triple_of), role=tuple(role_of), facts=tuple(map(tuple, facts))
        )

    return substitute


def _name_spans(example: Example) -> Iterator[tuple[int, int, int, int]]:
    """Triple index, role and source tokens ``[start, end)`` of each subject and object."""
    start = 0
    for end in range(1, len(example.source) + 1):
        segment = example.triple[start], example.role[start]
        if end == len(example.source) or (example.triple[end], example.role[end]) != segment:
            if segment[1] in (ROLE_SUBJECT, ROLE_OBJECT):
                yield *segment, start, end
            start = end


def _number_extras(name: Name, n_words: int) -> Name:
    """`name` with its out-of-vocabulary words as -1, -2, ... in the order of their first occurrence."""
    extras = {word: -number for number, word in enumerate(dict.fromkeys(w for w in name if w >= n_words), start=1)}
    return tuple(extras.get(word, word) for word in name)


def _occurrences(
    facts: Sequence[Sequence[int]], names: Sequence[Name]
) -> tuple[dict[Name, list[tuple[int, int]]], set[int]]:
    """The non-overlapping occurrences (fact, first token) of each name, and the words outside all names."""
    free = [[True] * len(fact) for fact in facts]
    occurrences: dict[Name, list[tuple[int, int]]] = {name: [] for name in names}
    for name in names:
        for number, fact in enumerate(facts):
            for start in range(len(fact) - len(name) + 1):
                end = start + len(name)
                if tuple(fact[start:end]) == name and all(free[number][start:end]):
                    occurrences[name].append((number, start))
                    free[number][start:end] = [False] * len(name)
    outside = {facts[number][i] for number, row in enumerate(free) for i, is_free in enumerate(row) if is_free}
    return occurrences, outside
