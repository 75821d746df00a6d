"""Reference texts with substituted words or swapped values, which the strict check must detect."""

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

_MAX_SUBSTITUTIONS = 20
"""Maximum number of mentions of a value that are substituted in one text."""


@dataclass
class Detection:
    """The number of substitutions, and those that the check did not detect."""

    total: int = 0
    undetected: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return 1 - len(self.undetected) / self.total

    def add(self, value: ValueCheck, substitution: str) -> None:
        self.total += 1
        if value.whole:
            self.undetected.append(f"{value.triple}: {substitution}")

    def __str__(self) -> str:
        examples = "\n".join(self.undetected[:10])
        return f"{len(self.undetected)} of {self.total} not detected ({dict(self.skipped)} skipped):\n{examples}"


def texts_of(records: Iterable[Record]) -> Iterator[tuple[Record, str]]:
    for record in records:
        for reference in record.references:
            yield record, reference.text


def content(text: str) -> list[Word]:
    """The content words of a value."""
    return [word for word in words(text) if not word.optional and word.form not in FUNCTION_WORDS]


def value_words(records: Iterable[Record]) -> list[str]:
    """The words and numbers of all values."""
    values = {triple.object for record in records for triple in record.triples}
    return sorted({word.raw for value in values for word in content(entity_words(value))})


def _values(checker: Checker, records: Iterable[Record]) -> Iterator[tuple[Record, str, int, ValueCheck]]:
    """The values that references contain in one piece: record, text, index and check. Truth values are left out."""
    for record, text in texts_of(records):
        for index, value in enumerate(checker.values(record, text)):
            if value.span is not None and value.how != "phrase":
                yield record, text, index, value


def _replace_word(
    checker: Checker, record: Record, index: int, text: str, form: str, new: str
) -> tuple[str, ValueCheck]:
    """The text with `new` instead of the word `form` in all mentions of a value, and the check of this value."""
    value = checker.values(record, text)[index]
    for _ in range(_MAX_SUBSTITUTIONS):
        if not value.whole or value.span is None:
            break
        start, end = value.span
        old = next((word for word in words(text[start:end]) if word.form == form), None)
        if old is None:
            break
        text = text[: start + old.start] + new + text[start + old.end :]
        value = checker.values(record, text)[index]
    return text, value


def substitute_words(
    checker: Checker, records: Sequence[Record], others: Sequence[str], rng: random.Random
) -> Detection:
    """Replaces a word of each value by one of `others`.

    Values that the text also has in other words, and substitutions that make another wording of the value, are skipped.
    """
    result = Detection()
    for record, text, index, value in _values(checker, records):
        value_content = content(text[slice(*value.span)]) if value.span else []
        if not value_content:
            continue
        form, new = rng.choice(value_content).form, rng.choice(others)
        if form in {word.form for word in words(new)}:
            continue
        changed, after = _replace_word(checker, record, index, text, form, new)
        if reason := _skip_reason(after, changed, form, new):
            result.skipped[reason] += 1
        else:
            result.add(after, f"{form!r} -> {new!r}: {changed}")
    return result


def _skip_reason(after: ValueCheck, changed: str, form: str, new: str) -> str:
    """Why a value that is still whole is no evidence; empty if it is evidence."""
    if not after.whole or after.span is None:
        return ""
    mention = changed[slice(*after.span)]
    if form in {word.form for word in words(mention)}:
        return ""  # the word is still there
    return "another wording" if new in mention else "mentioned in other words"


def substitute_values(
    checker: Checker, records: Sequence[Record], train: Sequence[Record], rng: random.Random
) -> Detection:
    """Replaces all mentions of each value by another value of its predicate.

    Values mentioned in parts are skipped, and other values that contain the value ("Austin, Texas, United States") or
    mean the same by the lexicon ("cheap").
    """
    values: dict[str, dict[str, str]] = {}
    for record in train:
        for triple in record.triples:
            values.setdefault(triple.predicate, {})[_letters(triple.object)] = triple.object
    result = Detection()

    def mentions(text: str, triple: Triple) -> bool:
        return checker.values(Record("r", (triple,)), text)[0].whole

    for record, text, index, value in _values(checker, records):
        own = {_letters(part) for triple in record.triples for part in (triple.subject, triple.object)}
        others = [other for key, other in values.get(value.triple.predicate, {}).items() if key not in own]
        if not others:
            continue
        new = entity_words(rng.choice(others))
        if mentions(new, value.triple):
            result.skipped["contains the value"] += 1
            continue
        changed, after = text, value
        for _ in range(_MAX_SUBSTITUTIONS):
            if after.span is None or not mentions(changed[slice(*after.span)], value.triple):
                break
            changed = changed[: after.span[0]] + new + changed[after.span[1] :]
            after = checker.values(record, changed)[index]
        if after.whole and after.span and not mentions(changed[slice(*after.span)], value.triple):
            result.skipped["mentioned in parts"] += 1
        else:
            result.add(after, f"-> {new!r}: {changed}")
    return result


def _letters(value: str) -> str:
    return letters(words(entity_words(value)), 0)


def swap_values(
    checker: Checker, records: Sequence[Record], kind: Callable[[str], bool]
) -> Iterator[tuple[bool, bool, str]]:
    """Swaps two values of a kind.

    For each pair: whether all such values of the record differ, whether the check finds this pair ``swapped``, and the
    text.
    """
    for record, text in texts_of(records):
        values = [value for value in checker.values(record, text) if value.span and kind(value.triple.object)]
        forms = [(content(value.triple.object) or words(value.triple.object))[0].form for value in values]
        for left, right in combinations(values, 2):
            (first, second) = sorted((left.span or (0, 0), right.span or (0, 0)))
            same = left.triple.predicate == right.triple.predicate or left.triple.object == right.triple.object
            if same or first[1] > second[0]:
                continue
            changed = text[: first[0]] + text[slice(*second)] + text[first[1] : second[0]]
            changed += text[slice(*first)] + text[second[1] :]
            pairs = {frozenset(pair) for pair in checker.check(record, changed).swapped}
            detected = frozenset((left.triple.predicate, right.triple.predicate)) in pairs
            yield len(set(forms)) == len(forms), detected, changed


def is_number(value: str) -> bool:
    return {word.kind for word in words(entity_words(value))} <= {"number", "unit"}


def is_name(value: str) -> bool:
    return entity_words(value)[:1].isupper()
