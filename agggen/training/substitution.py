"""Data augmentation for copying: replaces names (subjects and objects) in a record and its text.

A model can memorise names of training texts, but must copy replaced names. All occurrences of a name are replaced by a
name of the same predicate, a name of any predicate, a capitalised word of texts, or out-of-vocabulary words (cf. Kedzie
and McKeown 2019, who use noisy samples of the model). Plans and hard alignments do not change.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from agggen.model.batch import Example
from agggen.text import Vocabulary
from agggen.text.linearise import ROLE_OBJECT, ROLE_SUBJECT
from agggen.text.tokenise import JOINER
from agggen.text.vocabulary import SPECIALS
from agggen.verification.values import FUNCTION_WORDS

Name = tuple[int, ...]  # the token ids of a subject or object
Substitute = Callable[[Example, random.Random], Example]

# Fractions of replacements by names of the same predicate and role, by out-of-vocabulary words, and by a capitalised
# word of texts, so that a model copies the symbol "At" instead of starting a sentence; the others are random names.
_SAME_PREDICATE_SHARE, _UNSEEN_SHARE, _CAPITALISED_SHARE = 0.6, 0.2, 0.1


def substitution(examples: Sequence[Example], vocabulary: Vocabulary, probability: float) -> Substitute:
    """A function that replaces each name of an example with the given probability by a name of `examples`, unless the
    text does not contain it completely, or contains one of its content words outside names.
    """
    n_words = len(vocabulary)
    function_ids = frozenset(
        number
        for number, word in enumerate(vocabulary.words)
        if number < len(SPECIALS) or not any(map(str.isalnum, word)) or word.strip(JOINER).lower() in FUNCTION_WORDS
    )
    name_sets: dict[tuple[int, int], dict[Name, None]] = defaultdict(dict)
    for example in examples:
        for triple, role, start, end in _name_spans(example):
            name_sets[example.predicates[triple], role][_number_extras(example.source[start:end], n_words)] = None
    names_by_part = {part: list(names) for part, names in name_sets.items()}
    all_names = list(dict.fromkeys(name for names in names_by_part.values() for name in names))
    capitalised_names: list[Name] = [
        (number,) for number, word in enumerate(vocabulary.words[: vocabulary.n_output]) if word[0].isupper()
    ]

    def substitute(example: Example, rng: random.Random) -> Example:
        spans_of: dict[Name, list[tuple[int, int]]] = defaultdict(list)  # spans in the source
        part_of: dict[Name, tuple[int, int]] = {}
        for triple, role, start, end in _name_spans(example):
            name = example.source[start:end]
            spans_of[name].append((start, end))
            part_of[name] = example.predicates[triple], role
        facts = [list(fact) for fact in example.facts]
        occurrences, ids_outside_names = _occurrences(facts, sorted(spans_of, key=len, reverse=True))
        next_id = max((*example.source, n_words - 1)) + 1
        new_names: dict[Name, Name] = {}
        for name, name_occurrences in occurrences.items():
            content_ids = set(name) - function_ids
            is_replaceable = name_occurrences and content_ids and not content_ids & ids_outside_names
            if not is_replaceable or rng.random() >= probability:
                continue
            random_number = rng.random()
            pool = names_by_part[part_of[name]] if random_number < _SAME_PREDICATE_SHARE + _UNSEEN_SHARE else all_names
            if capitalised_names and random_number >= 1 - _CAPITALISED_SHARE:
                pool = capitalised_names
            drawn = rng.choice(pool)
            if random_number < _UNSEEN_SHARE:
                drawn = tuple(word if word in function_ids else -number for number, word in enumerate(drawn, start=1))
            new_name = tuple(word if word >= 0 else next_id - 1 - word for word in drawn)
            next_id = max(next_id, *(word + 1 for word in new_name))
            if new_name not in spans_of:
                new_names[name] = new_name
        if not new_names:
            return example
        source, triple_of, role_of = list(example.source), list(example.triple), list(example.role)
        in_source = [(*span, new_name) for name, new_name in new_names.items() for span in spans_of[name]]
        for start, end, new_name in sorted(in_source, reverse=True):
            source[start:end] = new_name
            triple_of[start:end] = [triple_of[start]] * len(new_name)
            role_of[start:end] = [role_of[start]] * len(new_name)
        in_facts = [
            (*place, len(name), new_name) for name, new_name in new_names.items() for place in occurrences[name]
        ]
        for fact, start, length, new_name in sorted(in_facts, reverse=True):
            facts[fact][start : start + length] = new_name
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
    """The occurrences (fact, first token) of each name, without overlaps, and the ids of words outside all names."""
    is_free_by_fact = [[True] * len(fact) for fact in facts]
    occurrences: dict[Name, list[tuple[int, int]]] = {name: [] for name in names}
    for name in names:
        for fact_index, fact in enumerate(facts):
            for start in range(len(fact) - len(name) + 1):
                end = start + len(name)
                if tuple(fact[start:end]) == name and all(is_free_by_fact[fact_index][start:end]):
                    occurrences[name].append((fact_index, start))
                    is_free_by_fact[fact_index][start:end] = [False] * len(name)
    tokens = zip(chain(*facts), chain(*is_free_by_fact), strict=True)
    return occurrences, {word for word, is_free in tokens if is_free}
