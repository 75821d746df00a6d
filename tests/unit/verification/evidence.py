"""Texts of people with one thing exchanged: what the strict check must notice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words
from agggen.verification.check import Checker
from agggen.verification.normal import Word, letters, words
from agggen.verification.results import ValueCheck
from agggen.verification.values import FUNCTION_WORDS

_MOST = 20
"""Places of a value in a text that are exchanged one after the other."""


@dataclass
class Noticed:
    """How many exchanges were tried, and which were not noticed."""

    tried: int = 0
    unseen: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return 1 - len(self.unseen) / self.tried

    def __str__(self) -> str:
        subset = "\n".join(self.unseen[:10])
        return f"{len(self.unseen)} of {self.tried} exchanges not noticed ({dict(self.skipped)} left out):\n{subset}"


def texts_of(records: Iterable[Record]) -> Iterator[tuple[Record, str]]:
    for record in records:
        for reference in record.references:
            yield record, reference.text


def content(text: str) -> list[Word]:
    """The words of a value that say something."""
    return [word for word in words(text) if not word.optional and word.form not in FUNCTION_WORDS]


def value_words(records: Iterable[Record]) -> list[str]:
    """The words and numbers of all values."""
    values = {triple.object for record in records for triple in record.triples}
    return sorted({word.raw for value in values for word in content(entity_words(value))})


def exchange(checker: Checker, record: Record, index: int, text: str, form: str, new: str) -> tuple[str, ValueCheck]:
    """`text` with `new` for the word `form` wherever the value of a triple stands, and how it says the value then."""
    value = checker.values(record, text)[index]
    for _ in range(_MOST):
        if not value.whole or value.span is None:
            break
        start, end = value.span
        here = next((word for word in words(text[start:end]) if word.form == form), None)
        if here is None:
            break
        text = text[: start + here.start] + new + text[start + here.end :]
        value = checker.values(record, text)[index]
    return text, value


def words_exchanged(
    checker: Checker, records: Sequence[Record], others: Sequence[str], choice: random.Random, share: float = 1.0
) -> Noticed:
    """A word of each value that people say whole, exchanged for one of `others`: a value that is whole yet is unseen.

    Left out are values that are still said in other words elsewhere in the text, truth values, whose words are none of
    their own, and exchanges that make another wording of the same value.
    """
    noticed = Noticed()
    for record, text in texts_of(records):
        for index, value in enumerate(checker.values(record, text)):
            if value.span is None or value.how == "phrase" or choice.random() > share:
                continue
            expected = content(text[slice(*value.span)])
            if not expected:
                continue
            form, new = choice.choice(expected).form, choice.choice(others)
            if form in {word.form for word in words(new)}:
                continue
            changed, after = exchange(checker, record, index, text, form, new)
            reason = _left_out(after, changed, form, new)
            if reason:
                noticed.skipped[reason] += 1
                continue
            noticed.tried += 1
            if after.whole:
                noticed.unseen.append(f"{value.triple}: {form!r} -> {new!r}: {changed}")
    return noticed


def _left_out(after: ValueCheck, changed: str, form: str, new: str) -> str:
    """Why a value that is still whole is no evidence; empty where it is."""
    if not after.whole or after.span is None:
        return ""
    expected = changed[slice(*after.span)]
    if form in {word.form for word in words(expected)}:
        return ""  # it still stands there with its word
    return "another wording" if new in expected else "said elsewhere in other words"


def values_exchanged(
    checker: Checker, records: Sequence[Record], train: Sequence[Record], choice: random.Random, share: float = 1.0
) -> Noticed:
    """Each value that people say whole in one piece, exchanged for another of its predicate, in all its wordings.

    Left out are truth values, values said in parts, and those that the other says too: "Austin, Texas, United States",
    or by the lexicon "cheap".
    """
    values: dict[str, dict[str, str]] = {}
    for record in train:
        for triple in record.triples:
            values.setdefault(triple.predicate, {})[_letters(triple.object)] = triple.object
    noticed = Noticed()

    def alone(triple: Triple, expected: str) -> bool:
        return checker.values(Record("r", (triple,)), expected)[0].whole

    for record, text in texts_of(records):
        own = {_letters(part) for triple in record.triples for part in (triple.subject, triple.object)}
        for index, value in enumerate(checker.values(record, text)):
            if value.span is None or value.how == "phrase" or choice.random() > share:
                continue
            others = [second for key, second in values.get(value.triple.predicate, {}).items() if key not in own]
            if not others:
                continue
            new = entity_words(choice.choice(others))
            if alone(value.triple, new):
                noticed.skipped["says it too"] += 1
                continue
            changed, after = text, value
            for _ in range(_MOST):
                if after.span is None or not alone(value.triple, changed[slice(*after.span)]):
                    break
                changed = changed[: after.span[0]] + new + changed[after.span[1] :]
                after = checker.values(record, changed)[index]
            if after.whole and after.span and not alone(value.triple, changed[slice(*after.span)]):
                noticed.skipped["said in parts"] += 1
                continue
            noticed.tried += 1
            if after.whole:
                noticed.unseen.append(f"{value.triple}: -> {new!r}: {changed}")
    return noticed


def _letters(value: str) -> str:
    return letters(words(entity_words(value)), 0)


def places_exchanged(
    checker: Checker, records: Sequence[Record], kind: Callable[[str], bool]
) -> Iterator[tuple[bool, bool, str]]:
    """Two values of a kind in each other's place.

    For each pair: whether every such value of the record is another one, whether the check says that this pair is
    ``swapped``, and the text.
    """
    for record, text in texts_of(records):
        values = [value for value in checker.values(record, text) if value.span and kind(value.triple.object)]
        forms = [(content(value.triple.object) or words(value.triple.object))[0].form for value in values]
        for left, other in combinations(values, 2):
            (first, second) = sorted((left.span or (0, 0), other.span or (0, 0)))
            same = left.triple.predicate == other.triple.predicate or left.triple.object == other.triple.object
            if same or first[1] > second[0]:
                continue
            changed = text[: first[0]] + text[slice(*second)] + text[first[1] : second[0]]
            changed += text[slice(*first)] + text[second[1] :]
            pairs = {frozenset(pair) for pair in checker.check(record, changed).swapped}
            seen = frozenset((left.triple.predicate, other.triple.predicate)) in pairs
            yield len(set(forms)) == len(forms), seen, changed


def is_number(value: str) -> bool:
    return {word.kind for word in words(entity_words(value))} <= {"number", "unit"}


def is_name(value: str) -> bool:
    return entity_words(value)[:1].isupper()
