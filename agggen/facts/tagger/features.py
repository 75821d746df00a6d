"""Word features: lower-cased form, affixes and shape, so that unknown words have features, too.

Each feature has a table of values from the training text; number 0 is an unknown value.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TABLES = ("word", "prefix", "suffix2", "suffix3", "shape")
_LEAST = {"word": 2, "prefix": 3, "suffix2": 3, "suffix3": 3, "shape": 3}
"""Minimum count of a value in the training text."""
_DIGITS = re.compile(r"\d+")
_ADDRESS = re.compile(r".@|@.|://|www\.|\w\.(?:com|net|org|edu|gov)(?!\w)", re.IGNORECASE)


def values(word: str) -> tuple[str, ...]:
    """A word's value in each table of ``TABLES``."""
    low = _DIGITS.sub("0", unicodedata.normalize("NFC", word).lower())
    return low, low[:3], low[-2:], low[-3:], shape(word)


def shape(word: str) -> str:
    """Sequences of capitals, small letters and digits as X, x and 0, other characters unchanged: "Xx-X0"; at most 6."""
    kinds: list[str] = []
    for character in word[:24]:
        kind = "0" if character.isdigit() else character
        if character.isalpha():
            kind = "x" if character.islower() else "X"
        if not kinds or kinds[-1] != kind:
            kinds.append(kind)
    return "".join(kinds[:6])


def is_address(word: str) -> bool:
    """Whether a word looks like an e-mail or web address; the tables exclude these for privacy."""
    return _ADDRESS.search(word) is not None


class Features:
    """The tables from values to numbers."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: tuple(tables[name]) for name in TABLES}
        self._numbers = [{value: i for i, value in enumerate(self.tables[name], start=1)} for name in TABLES]
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]]) -> tuple[Features, list[int]]:
        """Tables for the words of `sentences`, and the count of each known word by its number; [0] is 0."""
        counts = {name: Counter[str]() for name in TABLES}
        for words in sentences:
            for word in words:
                for name, value in zip(TABLES, values(word), strict=True):
                    counts[name][value] += 1
        for word in [word for word in counts["word"] if is_address(word)]:
            del counts["word"][word]
        tables = {
            name: sorted(value for value, count in counter.items() if count >= _LEAST[name])
            for name, counter in counts.items()
        }
        return cls(tables), [0, *(counts["word"][word] for word in tables["word"])]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each table, including the unknown value."""
        return tuple(len(table) + 1 for table in self.tables.values())

    def numbers(self, word: str) -> tuple[int, ...]:
        """The word's number in each table."""
        numbers = self._cache.get(word)
        if numbers is None:
            pairs = zip(self._numbers, values(word), strict=True)
            numbers = tuple(table.get(value, 0) for table, value in pairs)
            if len(self._cache) < 200_000:
                self._cache[word] = numbers
        return numbers

    def to_json(self) -> dict[str, Any]:
        return {name: list(table) for name, table in self.tables.items()}
