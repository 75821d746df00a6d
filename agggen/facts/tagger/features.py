"""Words as numbers: a word is its lower-cased form, its edges and its shape, so that unknown names have features too.

Each feature is a table of the values that the training text holds; number 0 of each table is "not known".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

TABLES = ("word", "prefix", "suffix2", "suffix3", "shape")
_DIGITS = re.compile(r"\d+")


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


class Features:
    """The tables: value to number."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: tuple(tables[name]) for name in TABLES}
        self._numbers = [{value: i for i, value in enumerate(self.tables[name], start=1)} for name in TABLES]
        self._cache: dict[str, tuple[int, ...]] = {}

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
