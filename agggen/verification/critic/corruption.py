"""Training examples of the critic: correct texts of a corpus, and texts with synthetic errors and known labels.

Errors in the text: a subject or value is replaced, truncated or swapped; a sentence is negated, deleted or inserted;
words are repeated, dropped or moved. Errors in the record: a predicate or object is replaced; a triple is added,
removed or reversed. Correct texts are varied: entities renamed, records joined, texts replaced by plain clauses.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product

from agggen.verification.critic.examples import MISSING, PART, SAID, UNKNOWN, WRONG, Example, Words, locate, sentences
from agggen.verification.critic.tokens import TripleText, predicate_words, value_words

_CLAUSES = tuple(
    tuple(clause.split())
    for clause in (
        *("{s} {p} {o}", "{s} was {p} {o}", "{s} is {p} {o}", "{s} has the {p} {o}", "{s} has a {p} of {o}"),
        *("the {p} of {s} is {o}", "the {p} for {s} is {o}", "{o} is the {p} of {s}", "{s} 's {p} is {o}"),
        *("{p} of {s} : {o}", "{s} 's {p} was {o}", "{o} is {s} 's {p}"),
    )
)
_VERBS = {"is": "not", "was": "not", "are": "not", "were": "not", "has": "never", "had": "never"}
_ENDINGS = ("port", "ham", "ton", "shire", "es", "son", "000", "ville", "an", "-2")


class Corruptor:
    """Draws random examples.

    Args:
        texts: examples that are correct or have human labels.
    """

    def __init__(self, texts: Sequence[Example], seed: int) -> None:
        self._texts, self._random = texts, random.Random(seed)
        self._values: dict[str, list[str]] = defaultdict(list)
        self._related: dict[str, set[str]] = defaultdict(set)
        relations_of_value: dict[str, set[str]] = defaultdict(set)
        relations_of_pair: dict[tuple[str, str], set[str]] = defaultdict(set)
        for example in texts:
            for subject, predicate, value in example.triples:
                self._values[predicate].append(value)
                relations_of_value[value].add(predicate)
                relations_of_pair[subject, value].add(predicate)
        for relations in relations_of_pair.values():
            for predicate in relations:
                self._related[predicate] |= relations
        self._relations_of_value = {value: sorted(relations) for value, relations in relations_of_value.items()}
        self._relations = sorted(self._values)
        self._by_value_kind: dict[str, list[str]] = defaultdict(list)
        self._by_word: dict[str, list[str]] = defaultdict(list)
        for predicate in self._relations:
            self._by_value_kind[self._value_kind(predicate)].append(predicate)
            for word in predicate_words(predicate):
                self._by_word[word].append(predicate)
        self._triples = [triple for example in texts for triple in example.triples]
        self._names = sorted({name for subject, _, value in self._triples for name in (subject, value)})
        self._name_words = [
            word for name in self._names for word in value_words(name) if word.isalpha() and len(word) > 2
        ]
        self._single_triples = [example for example in texts if len(example.triples) == 1 and not any(example.labels)]
        to_triple = self._for_expressed_triple
        self._errors: list[tuple[Callable[[Example], None], int]] = [
            *((to_triple(self._replace_value), 3), (to_triple(self._truncate_value), 2), (self._exchange_values, 3)),
            *((self._replace_subject, 3), (self._delete_sentence, 2), (self._negate, 2), (self._insert_sentence, 1)),
            *((self._corrupt_words, 2), (self._add_triple, 2), (to_triple(self._replace_relation), 3)),
            *((to_triple(self._replace_object), 2), (to_triple(self._reverse), 2), (self._drop_triple, 2)),
        ]
        """Functions that add an error, and their weights."""

    def draw(self) -> Example:
        """An example without error (probability 30 %), with one (45.5 %) or with two errors (24.5 %)."""
        chance = self._random.random
        example = self._correct_example()
        n_errors = 0 if chance() < 0.3 else 1 if chance() < 0.65 else 2
        functions, weights = zip(*self._errors, strict=True)
        for add_error in self._random.choices(functions, weights, k=n_errors):
            add_error(example)
        order = self._random.sample(range(len(example.triples)), len(example.triples))
        example.triples = [example.triples[index] for index in order]
        example.labels = [example.labels[index] for index in order]
        return example

    # --- correct texts ------------------------------------------------------------------------------------------------

    def _correct_example(self) -> Example:
        chance = self._random.random
        if self._single_triples and chance() < len(self._single_triples) / len(self._texts) * 0.7:
            example = self._combined()
        else:
            example = self._random.choice(self._texts).copy()
            other = self._random.choice(self._texts)
            if chance() < 0.08 and len(example.triples) + len(other.triples) <= 8 and not any(other.labels):
                example.labels += [SAID] * len(other.triples)
                example.triples, example.words = example.triples + other.triples, example.words + other.words
                example.invented = [0] * len(example.words)
        if chance() < 0.18 and not any(example.labels):
            self._replace_text(example)
        if chance() < 0.35:
            self._rename(example)
        return example

    def _combined(self) -> Example:
        """Joins texts of single triples, mostly with one subject for all, which may become a pronoun."""
        chosen = self._random.sample(
            self._single_triples, min(len(self._single_triples), self._random.choice((1, 2, 2, 3, 3, 4, 5, 6)))
        )
        shared_subject = chosen[0].triples[0][0] if self._random.random() < 0.7 else None
        triples: list[TripleText] = []
        text: list[str] = []
        for number, part in enumerate(chosen):
            (subject, predicate, value), words = part.triples[0], list(part.words)
            named, starts = locate(subject, words)
            if shared_subject is not None and number and starts and not set(named) & set(value_words(value)):
                new = ("it",) if self._random.random() < 0.4 else value_words(shared_subject, qualifier=False)
                for start in reversed(starts):
                    words[start : start + len(named)] = new
                if words[: len(new)] == list(new) and self._random.random() < 0.4 and text[-1:] == ["."]:
                    text[-1:] = [",", "and"]  # joins the preceding sentence
                subject = shared_subject
            if (subject, predicate, value) not in triples:
                triples.append((subject, predicate, value))
                text += words
        return Example(triples, text)

    def _replace_text(self, example: Example) -> None:
        """Replaces the text by a plain clause per triple."""
        self._random.shuffle(example.triples)
        words: list[str] = []
        for subject, predicate, value in example.triples:
            parts = {"{s}": value_words(subject, False), "{p}": predicate_words(predicate), "{o}": value_words(value)}
            for part in self._random.choice(_CLAUSES):
                words += parts.get(part, (part,))
            words.append(".")
        example.words, example.invented = words, [0] * len(words)

    def _rename(self, example: Example) -> None:
        """Renames entities and numbers in both record and text."""
        values = {name for subject, _, value in example.triples for name in (subject, value)}
        for value in sorted(values):
            words, starts = locate(value, example.words)
            if self._random.random() < 0.5 or not starts or words[0][0] in "@~":
                continue
            if any(other != value and set(words) & set(value_words(other)) for other in values):
                continue
            if words[0][0] == "#":
                new = tuple(f"#{self._random.randrange(1, 10**5)}" if word[0] == "#" else word for word in words)
            else:
                new = self._random_name()
            if set(new) & set(example.words):
                continue
            example.splice(starts, len(words), new, False)
            name = " ".join(word.lstrip("#") for word in new)
            example.triples = [
                (name if subject == value else subject, predicate, name if object_ == value else object_)
                for subject, predicate, object_ in example.triples
            ]

    # --- errors in the text -------------------------------------------------------------------------------------------

    def _replace_value(self, example: Example, index: int) -> None:
        _, predicate, value = example.triples[index]
        words, starts = locate(value, example.words)
        new = self._other_value(example, value, predicate)
        if not starts or new is None:
            return
        before = list(example.words)
        example.splice([self._random.choice(starts)], len(words), new, True)
        example.mark_lost(before, WRONG)

    def _truncate_value(self, example: Example, index: int) -> None:
        words, starts = locate(example.triples[index][2], example.words)
        if len(words) < 2 or not starts:
            return
        kept = [word for word in words if self._random.random() < 0.6]
        if not kept or len(kept) == len(words) or all(len(word) < 4 for word in set(words) - set(kept)):
            return
        before = list(example.words)
        example.splice(starts, len(words), tuple(kept), False)
        example.mark_lost(before, PART)

    def _exchange_values(self, example: Example) -> None:
        said = example.said
        self._random.shuffle(said)
        for first, second in product(said, said):
            if first < second and self._exchange(example, first, second):
                return

    def _exchange(self, example: Example, first: int, second: int) -> bool:
        triple, other = example.triples[first], example.triples[second]
        if triple[2] == other[2] or triple[:2] == other[:2] or triple[2] == other[0] or other[2] == triple[0]:
            return False
        left, right = locate(triple[2], example.words), locate(other[2], example.words)
        if len(left[1]) != 1 or len(right[1]) != 1 or set(left[0]) & set(right[0]):
            return False
        (words, (start,)), (later_words, (later,)) = sorted((left, right), key=lambda mentioned: mentioned[1])
        if start + len(words) > later:
            return False
        example.splice([later], len(later_words), words, False)
        example.splice([start], len(words), later_words, False)
        example.labels[first] = example.labels[second] = WRONG
        return True

    def _replace_subject(self, example: Example) -> None:
        subject = self._random.choice(example.triples)[0]
        words, starts = locate(subject, example.words)
        new = self._other_value(example, subject, None)
        if not starts or new is None:
            return
        example.splice(starts, len(words), new, True)
        for index in example.said:
            name, _, value = example.triples[index]
            if subject in (name, value):
                example.labels[index] = WRONG

    def _delete_sentence(self, example: Example) -> None:
        """Deletes a sentence; if it is the only one, the end from a random comma, conjunction or pronoun on."""
        parts = sentences(example.words)
        if len(parts) > 1:
            start, end = self._random.choice(parts)
        else:
            cuts = [index for index, word in enumerate(example.words) if word in (",", "and", "which", "who")]
            if not cuts:
                return
            start, end = self._random.choice(cuts), len(example.words) - 1
        before, deleted = list(example.words), example.words[start:end]
        del example.words[start:end], example.invented[start:end]
        for index in example.said:
            value = example.triples[index][2]
            old_starts, new_starts = locate(value, before)[1], locate(value, example.words)[1]
            if old_starts and not new_starts:
                example.labels[index] = MISSING
            elif not old_starts or locate(value, deleted)[1]:
                example.labels[index] = UNKNOWN

    def _negate(self, example: Example) -> None:
        verbs = [index for index, word in enumerate(example.words) if word in _VERBS]
        if not verbs:
            return
        verb = self._random.choice(verbs)
        end = next(end for start, end in sentences(example.words) if start <= verb < end)
        clause = example.words[verb:end]
        said = sorted(
            (starts[0], index) for index in example.said if (starts := locate(example.triples[index][2], clause)[1])
        )
        for number, (_, index) in enumerate(said):
            example.labels[index] = UNKNOWN if number else WRONG
        if said:
            example.splice([verb + 1], 0, (_VERBS[example.words[verb]],), False)

    def _insert_sentence(self, example: Example) -> None:
        other = self._random.choice(self._texts)
        start, end = self._random.choice(sentences(other.words))
        foreign_words = other.value_words() - example.value_words()
        position = self._random.choice(sentences(example.words))[1]
        words = other.words[start:end]
        example.words[position:position] = words
        example.invented[position:position] = [int(word in foreign_words) for word in words]

    def _corrupt_words(self, example: Example) -> None:
        """Repeats words, and drops, exchanges or replaces words outside values."""
        values = example.value_words()
        words, invented = example.words, example.invented
        for _ in range(self._random.choice((1, 2, 3))):
            at, chance = self._random.randrange(len(words)), self._random.random()
            if chance < 0.35:
                size = self._random.choice((1, 1, 2, 3))
                words[at:at], invented[at:at] = words[at : at + size], invented[at : at + size]
            elif words[at] in values or len(words) < 4:
                continue
            elif chance < 0.65:
                del words[at], invented[at]
            elif chance < 0.85 and at + 1 < len(words) and words[at + 1] not in values:
                words[at : at + 2] = reversed(words[at : at + 2])
            else:
                other = self._random.choice(words)
                words[at] = "the" if other in values else other

    # --- errors in the record -----------------------------------------------------------------------------------------

    def _add_triple(self, example: Example) -> None:
        subject, predicate, value = self._random.choice(self._triples)
        if self._random.random() < 0.7:
            subject = self._random.choice(example.triples)[0]
        present = any((subject, predicate) == triple[:2] for triple in example.triples)
        if not present and not locate(value, example.words)[1] and len(example.triples) < 9:
            example.triples.append((subject, predicate, value))
            example.labels.append(MISSING)

    def _replace_relation(self, example: Example, index: int) -> None:
        subject, predicate, value = example.triples[index]
        for _ in range(8):
            chance = self._random.random()
            pool = self._relations
            if chance < 0.4:
                pool = self._by_value_kind[self._value_kind(predicate)]
            elif chance < 0.55:  # "place of death" for "place of birth"
                pool = self._by_word[self._random.choice(predicate_words(predicate))] or pool
            elif chance < 0.8:
                pool = self._relations_of_value.get(value) or pool
            other = self._random.choice(pool)
            if other not in self._related[predicate] and predicate_words(other) != predicate_words(predicate):
                example.triples[index] = (subject, other, value)
                example.labels[index] = WRONG
                return

    def _replace_object(self, example: Example, index: int) -> None:
        subject, predicate, value = example.triples[index]
        words, starts = locate(value, example.words)
        other = self._random.choice(self._values[predicate] if self._random.random() < 0.7 else self._names)
        if starts and not set(value_words(other, False)) <= set(example.words):
            example.triples[index], example.labels[index] = (subject, predicate, other), WRONG
            example.mark_invented(words, starts)

    def _reverse(self, example: Example, index: int) -> None:
        subject, predicate, value = example.triples[index]
        example.triples[index], example.labels[index] = (value, predicate, subject), WRONG

    def _drop_triple(self, example: Example) -> None:
        if len(example.triples) > 1:
            index = self._random.randrange(len(example.triples))
            words, starts = locate(example.triples.pop(index)[2], example.words)
            del example.labels[index]
            example.mark_invented(words, starts)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _for_expressed_triple(self, add_error: Callable[[Example, int], None]) -> Callable[[Example], None]:
        """A function that applies `add_error` to a random triple that the text expresses, if any."""

        def apply(example: Example) -> None:
            if said := example.said:
                add_error(example, self._random.choice(said))

        return apply

    def _value_kind(self, predicate: str) -> str:
        """The kind of a predicate's first value: ``#`` (number), ``@`` (date), ``long`` or ``name``."""
        words = value_words(self._values[predicate][0])
        return words[0][:1] if words[0][:1] in ("#", "@") else "long" if len(words) > 5 else "name"

    def _random_name(self) -> Words:
        return tuple(self._random.choice(self._name_words) for _ in range(self._random.choice((1, 1, 2, 2, 3))))

    def _other_value(self, example: Example, value: str, predicate: str | None) -> Words | None:
        """Random words to replace a value: another value of the predicate, a name, name words, or the garbled value.

        None if each of six attempts draws only words of the record.
        """
        present = example.value_words()
        for _ in range(6):
            chance = self._random.random()
            if chance < 0.45 and predicate in self._values:
                new = value_words(self._random.choice(self._values[str(predicate)]), False)
            elif chance < 0.65:
                new = value_words(self._random.choice(self._names), False)
            elif chance < 0.8:
                new = self._random_name()
            else:
                new = self._garbled(value_words(value, False))
            if not set(new) <= present:
                return new
        return None

    def _garbled(self, words: Words) -> Words:
        """The words, one of which gets another ending or is replaced by a number or another word."""
        index, chance = self._random.randrange(len(words)), self._random.random()
        if chance < 0.5:
            new = words[index][: max(2, len(words[index]) // 2)] + self._random.choice(_ENDINGS)
        elif chance < 0.7:
            new = f"#{self._random.randrange(1, 3000)}"
        else:
            new = self._random.choice(self._name_words)
        return (*words[:index], new, *words[index + 1 :])
