"""Training examples of the critic: correct texts of a corpus, and texts with synthetic errors and known labels.

Errors in the text: a subject or value is replaced, truncated or exchanged; a sentence is negated, deleted or inserted;
words are repeated, dropped or moved. Errors in the record: a predicate or object is replaced; a triple is added,
removed or reversed. Correct texts are varied: entities are renamed, records joined, texts replaced by plain clauses.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product

from agggen.verification.critic.examples import MISSING, PART, UNKNOWN, WRONG, Example, Words, locate, sentences
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
    """Draws random examples from `texts`, which are correct or have human labels."""

    def __init__(self, texts: Sequence[Example], seed: int) -> None:
        self._texts, self._random = texts, random.Random(seed)
        self._values: dict[str, list[str]] = defaultdict(list)
        self._compatible: dict[str, set[str]] = defaultdict(set)  # predicates with the same subject and value
        predicates_of_value: dict[str, set[str]] = defaultdict(set)
        predicates_of_pair: dict[tuple[str, str], set[str]] = defaultdict(set)
        for example in texts:
            for subject, predicate, value in example.triples:
                self._values[predicate].append(value)
                predicates_of_value[value].add(predicate)
                predicates_of_pair[subject, value].add(predicate)
        for predicates in predicates_of_pair.values():
            for predicate in predicates:
                self._compatible[predicate] |= predicates
        self._predicates_of_value = {value: sorted(predicates) for value, predicates in predicates_of_value.items()}
        self._predicates = sorted(self._values)
        self._by_value_kind: dict[str, list[str]] = defaultdict(list)
        self._by_word: dict[str, list[str]] = defaultdict(list)
        for predicate in self._predicates:
            self._by_value_kind[self._value_kind(predicate)].append(predicate)
            for word in predicate_words(predicate):
                self._by_word[word].append(predicate)
        self._triples = [triple for example in texts for triple in example.triples]
        self._names = sorted({name for subject, _, value in self._triples for name in (subject, value)})
        all_words = (word for name in self._names for word in value_words(name))
        self._name_words = [word for word in all_words if word.isalpha() and len(word) > 2]
        self._single_triples = [example for example in texts if len(example.triples) == 1 and not any(example.labels)]
        on_triple = self._on_expressed_triple
        errors: list[tuple[Callable[[Example], None], int]] = [
            (on_triple(self._replace_value), 3),
            (on_triple(self._truncate_value), 2),
            (self._exchange_values, 3),
            (self._replace_subject, 3),
            (self._delete_sentence, 2),
            (self._negate_sentence, 2),
            (self._insert_sentence, 1),
            (self._corrupt_words, 2),
            (self._add_triple, 2),
            (on_triple(self._replace_predicate), 3),
            (on_triple(self._replace_object), 2),
            (on_triple(self._reverse_triple), 2),
            (self._drop_triple, 2),
        ]
        self._errors, self._weights = zip(*errors, strict=True)

    def draw(self) -> Example:
        """An example without error (probability 30 %), with one (45.5 %) or with two errors (24.5 %)."""
        random_number = self._random.random
        example = self._correct_example()
        n_errors = 0 if random_number() < 0.3 else 1 if random_number() < 0.65 else 2
        for add_error in self._random.choices(self._errors, self._weights, k=n_errors):
            add_error(example)
        order = self._random.sample(range(len(example.triples)), len(example.triples))
        example.triples = [example.triples[index] for index in order]
        example.labels = [example.labels[index] for index in order]
        return example

    def _correct_example(self) -> Example:
        random_number = self._random.random
        if self._single_triples and random_number() < len(self._single_triples) / len(self._texts) * 0.7:
            example = self._join_single_triples()
        else:
            example = self._random.choice(self._texts).copy()
            second = self._random.choice(self._texts)
            if random_number() < 0.08 and len(example.triples) + len(second.triples) <= 8 and not any(second.labels):
                labels = example.labels + second.labels
                example = Example(example.triples + second.triples, example.words + second.words, labels)
        if random_number() < 0.18 and not any(example.labels):
            self._replace_by_clauses(example)
        if random_number() < 0.35:
            self._rename_entities(example)
        return example

    def _join_single_triples(self) -> Example:
        """Joins texts of single triples, mostly with the same subject, whose mentions may become pronouns."""
        count = min(len(self._single_triples), self._random.choice((1, 2, 2, 3, 3, 4, 5, 6)))
        chosen = self._random.sample(self._single_triples, count)
        shared_subject = chosen[0].triples[0][0] if self._random.random() < 0.7 else None
        triples: list[TripleText] = []
        text: list[str] = []
        for number, part in enumerate(chosen):
            (subject, predicate, value), words = part.triples[0], list(part.words)
            mention, starts = locate(subject, words)
            if shared_subject is not None and number and starts and not set(mention) & set(value_words(value)):
                replacement = ("it",) if self._random.random() < 0.4 else value_words(shared_subject, qualifier=False)
                for start in reversed(starts):
                    words[start : start + len(mention)] = replacement
                begins_with_subject = words[: len(replacement)] == list(replacement)
                if begins_with_subject and self._random.random() < 0.4 and text[-1:] == ["."]:
                    text[-1:] = [",", "and"]  # joins the sentence to the preceding one
                subject = shared_subject
            if (subject, predicate, value) not in triples:
                triples.append((subject, predicate, value))
                text += words
        return Example(triples, text)

    def _replace_by_clauses(self, example: Example) -> None:
        self._random.shuffle(example.triples)
        words: list[str] = []
        for subject, predicate, value in example.triples:
            subject_words = value_words(subject, qualifier=False)
            parts = {"{s}": subject_words, "{p}": predicate_words(predicate), "{o}": value_words(value)}
            for part in self._random.choice(_CLAUSES):
                words += parts.get(part, (part,))
            words.append(".")
        example.words, example.invented = words, [0] * len(words)

    def _rename_entities(self, example: Example) -> None:
        """Replaces names and numbers by new ones, in both record and text."""
        entities = {name for subject, _, value in example.triples for name in (subject, value)}
        for entity in sorted(entities):
            words, starts = locate(entity, example.words)
            if self._random.random() < 0.5 or not starts or words[0][0] in "@~":
                continue
            if any(other != entity and set(words) & set(value_words(other)) for other in entities):
                continue
            if words[0][0] == "#":
                new_words = tuple(f"#{self._random.randrange(1, 10**5)}" if word[0] == "#" else word for word in words)
            else:
                new_words = self._random_name()
            if set(new_words) & set(example.words):
                continue
            example.splice(starts, len(words), new_words, invented=False)
            new_name = " ".join(word.lstrip("#") for word in new_words)
            example.triples = [
                (new_name if subject == entity else subject, predicate, new_name if value == entity else value)
                for subject, predicate, value in example.triples
            ]

    def _replace_value(self, example: Example, index: int) -> None:
        _, predicate, value = example.triples[index]
        words, starts = locate(value, example.words)
        replacement = self._other_value(example, value, predicate)
        if not starts or replacement is None:
            return
        before = list(example.words)
        example.splice([self._random.choice(starts)], len(words), replacement, invented=True)
        example.mark_lost(before, WRONG)

    def _truncate_value(self, example: Example, index: int) -> None:
        words, starts = locate(example.triples[index][2], example.words)
        if len(words) < 2 or not starts:
            return
        remaining = [word for word in words if self._random.random() < 0.6]
        if not remaining or len(remaining) == len(words) or all(len(word) < 4 for word in set(words) - set(remaining)):
            return
        before = list(example.words)
        example.splice(starts, len(words), tuple(remaining), invented=False)
        example.mark_lost(before, PART)

    def _exchange_values(self, example: Example) -> None:
        """Exchanges the values of the first two triples, in random order, for which this is possible."""
        expressed = example.expressed
        self._random.shuffle(expressed)
        for first, second in product(expressed, expressed):
            subject, predicate, value = example.triples[first]
            other_subject, other_predicate, other_value = example.triples[second]
            is_alternative = (subject, predicate) == (other_subject, other_predicate)
            if first >= second or is_alternative or value in (other_value, other_subject) or other_value == subject:
                continue
            mentions = locate(value, example.words), locate(other_value, example.words)
            if any(len(starts) != 1 for _, starts in mentions) or set(mentions[0][0]) & set(mentions[1][0]):
                continue
            (words, (start,)), (later_words, (later_start,)) = sorted(mentions, key=lambda mention: mention[1])
            if start + len(words) <= later_start:
                example.splice([later_start], len(later_words), words, invented=False)
                example.splice([start], len(words), later_words, invented=False)
                example.labels[first] = example.labels[second] = WRONG
                return

    def _replace_subject(self, example: Example) -> None:
        subject = self._random.choice(example.triples)[0]
        words, starts = locate(subject, example.words)
        replacement = self._other_value(example, subject, None)
        if not starts or replacement is None:
            return
        example.splice(starts, len(words), replacement, invented=True)
        for index in example.expressed:
            name, _, value = example.triples[index]
            if subject in (name, value):
                example.labels[index] = WRONG

    def _delete_sentence(self, example: Example) -> None:
        """Deletes a sentence; of a single sentence, the part after a comma, conjunction or relative pronoun."""
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
        for index in example.expressed:
            value = example.triples[index][2]
            old_starts, new_starts = locate(value, before)[1], locate(value, example.words)[1]
            if old_starts and not new_starts:
                example.labels[index] = MISSING
            elif not old_starts or locate(value, deleted)[1]:
                example.labels[index] = UNKNOWN

    def _negate_sentence(self, example: Example) -> None:
        verbs = [index for index, word in enumerate(example.words) if word in _VERBS]
        if not verbs:
            return
        verb = self._random.choice(verbs)
        end = next(end for start, end in sentences(example.words) if start <= verb < end)
        clause = example.words[verb:end]
        mentions = ((locate(example.triples[index][2], clause)[1], index) for index in example.expressed)
        negated = sorted((starts[0], index) for starts, index in mentions if starts)
        for number, (_, index) in enumerate(negated):
            example.labels[index] = UNKNOWN if number else WRONG
        if negated:
            example.splice([verb + 1], 0, (_VERBS[example.words[verb]],), invented=False)

    def _insert_sentence(self, example: Example) -> None:
        source = self._random.choice(self._texts)
        start, end = self._random.choice(sentences(source.words))
        foreign_words = source.value_words() - example.value_words()
        position = self._random.choice(sentences(example.words))[1]
        words = source.words[start:end]
        example.words[position:position] = words
        example.invented[position:position] = [int(word in foreign_words) for word in words]

    def _corrupt_words(self, example: Example) -> None:
        """Repeats words, and drops, exchanges or replaces words outside values."""
        values = example.value_words()
        words, invented = example.words, example.invented
        for _ in range(self._random.choice((1, 2, 3))):
            i, chance = self._random.randrange(len(words)), self._random.random()
            if chance < 0.35:
                size = self._random.choice((1, 1, 2, 3))
                words[i:i], invented[i:i] = words[i : i + size], invented[i : i + size]
            elif words[i] in values or len(words) < 4:
                continue
            elif chance < 0.65:
                del words[i], invented[i]
            elif chance < 0.85 and i + 1 < len(words) and words[i + 1] not in values:
                words[i : i + 2] = reversed(words[i : i + 2])
            else:
                other_word = self._random.choice(words)
                words[i] = "the" if other_word in values else other_word

    def _add_triple(self, example: Example) -> None:
        subject, predicate, value = self._random.choice(self._triples)
        if self._random.random() < 0.7:
            subject = self._random.choice(example.triples)[0]
        is_present = any((subject, predicate) == triple[:2] for triple in example.triples)
        if not is_present and not locate(value, example.words)[1] and len(example.triples) < 9:
            example.triples.append((subject, predicate, value))
            example.labels.append(MISSING)

    def _replace_predicate(self, example: Example, index: int) -> None:
        subject, predicate, value = example.triples[index]
        for _ in range(8):
            chance = self._random.random()
            candidates = self._predicates
            if chance < 0.4:
                candidates = self._by_value_kind[self._value_kind(predicate)]
            elif chance < 0.55:  # "place of death" for "place of birth"
                candidates = self._by_word[self._random.choice(predicate_words(predicate))] or candidates
            elif chance < 0.8:
                candidates = self._predicates_of_value.get(value) or candidates
            replacement = self._random.choice(candidates)
            is_compatible = replacement in self._compatible[predicate]
            if not is_compatible and predicate_words(replacement) != predicate_words(predicate):
                example.triples[index] = (subject, replacement, value)
                example.labels[index] = WRONG
                return

    def _replace_object(self, example: Example, index: int) -> None:
        subject, predicate, value = example.triples[index]
        words, starts = locate(value, example.words)
        replacement = self._random.choice(self._values[predicate] if self._random.random() < 0.7 else self._names)
        if starts and not set(value_words(replacement, qualifier=False)) <= set(example.words):
            example.triples[index], example.labels[index] = (subject, predicate, replacement), WRONG
            example.mark_invented(words, starts)

    def _reverse_triple(self, example: Example, index: int) -> None:
        subject, predicate, value = example.triples[index]
        example.triples[index], example.labels[index] = (value, predicate, subject), WRONG

    def _drop_triple(self, example: Example) -> None:
        if len(example.triples) > 1:
            index = self._random.randrange(len(example.triples))
            words, starts = locate(example.triples.pop(index)[2], example.words)
            del example.labels[index]
            example.mark_invented(words, starts)

    def _on_expressed_triple(self, add_error: Callable[[Example, int], None]) -> Callable[[Example], None]:
        def apply_to_random_triple(example: Example) -> None:
            if expressed := example.expressed:
                add_error(example, self._random.choice(expressed))

        return apply_to_random_triple

    def _value_kind(self, predicate: str) -> str:
        """The kind of a predicate's first value: ``#`` (number), ``@`` (date), ``long`` or ``name``."""
        words = value_words(self._values[predicate][0])
        return words[0][:1] if words[0][:1] in ("#", "@") else "long" if len(words) > 5 else "name"

    def _random_name(self) -> Words:
        return tuple(self._random.choice(self._name_words) for _ in range(self._random.choice((1, 1, 2, 2, 3))))

    def _other_value(self, example: Example, value: str, predicate: str | None) -> Words | None:
        """Random words to replace a value; None if each of six attempts draws only words of the record."""
        record_words = example.value_words()
        for _ in range(6):
            chance = self._random.random()
            if chance < 0.45 and predicate in self._values:
                words = value_words(self._random.choice(self._values[str(predicate)]), qualifier=False)
            elif chance < 0.65:
                words = value_words(self._random.choice(self._names), qualifier=False)
            elif chance < 0.8:
                words = self._random_name()
            else:
                words = self._with_changed_word(value_words(value, qualifier=False))
            if not set(words) <= record_words:
                return words
        return None

    def _with_changed_word(self, words: Words) -> Words:
        """The words, one of them with another ending or replaced by a number or another word."""
        index, chance = self._random.randrange(len(words)), self._random.random()
        if chance < 0.5:
            changed = words[index][: max(2, len(words[index]) // 2)] + self._random.choice(_ENDINGS)
        elif chance < 0.7:
            changed = f"#{self._random.randrange(1, 3000)}"
        else:
            changed = self._random.choice(self._name_words)
        return (*words[:index], changed, *words[index + 1 :])
