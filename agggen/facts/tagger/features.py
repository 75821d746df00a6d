"""Words as numbers: a word is its lower-cased form, its edges and its shape, so that unknown names have features too.

Everything is a table that training text fills; number 0 of each table is "not known".
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TABLES = ("word", "prefix", "suffix2", "suffix3", "shape")
_LEAST = {"word": 2, "prefix": 3, "suffix2": 3, "suffix3": 3, "shape": 3}
"""How often training text must show a value for it to be known."""
_DIGITS = re.compile(r"\d+")
_ADDRESS = re.compile(r".@|@.|://|www\.|\w\.(?:com|net|org|edu|gov)(?!\w)", re.IGNORECASE)


def values(word: str) -> tuple[str, ...]:
    """A word's value in each of ``TABLES``."""
    low = _DIGITS.sub("0", unicodedata.normalize("NFC", word).lower())
    return low, low[:3], low[-2:], low[-3:], shape(word)


def shape(word: str) -> str:
    """Runs of capitals, small letters and digits as X, x and 0, everything else as it is: "Xx-X0"; at most 6 long."""
    found: list[str] = []
    for character in word[:24]:
        kind = "0" if character.isdigit() else character
        if character.isalpha():
            kind = "x" if character.islower() else "X"
        if not found or found[-1] != kind:
            found.append(kind)
    return "".join(found[:6])


def is_address(word: str) -> bool:
    """Whether a word looks like a mail or web address; someone's address is kept in no table."""
    return _ADDRESS.search(word) is not None


class Features:
    """The tables: value to number, and how often the training text holds each word."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: tuple(tables[name]) for name in TABLES}
        self._numbers = [{value: i for i, value in enumerate(self.tables[name], start=1)} for name in TABLES]
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]]) -> tuple[Features, list[int]]:
        """Tables for the words of `sentences`, and how often each known word (by number) occurs; [0] is 0."""
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
        """How many numbers each table gives, "not known" among them."""
        return tuple(len(table) + 1 for table in self.tables.values())

    def numbers(self, word: str) -> tuple[int, ...]:
        """The word's number in each table."""
        found = self._cache.get(word)
        if found is None:
            pairs = zip(self._numbers, values(word), strict=True)
            found = tuple(numbers.get(value, 0) for numbers, value in pairs)
            if len(self._cache) < 200_000:
                self._cache[word] = found
        return found

    def to_json(self) -> dict[str, Any]:
        return {name: list(table) for name, table in self.tables.items()}
