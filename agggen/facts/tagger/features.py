"""Feature ids of words (lower-cased form, prefix, suffixes, shape), so that unseen words have features too.

Each feature has a table of the values in the training text; other values have the id 0. Sentences are batched by length
to reduce padding.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

TABLES = ("word", "prefix", "suffix2", "suffix3", "shape")
_DIGITS = re.compile(r"\d+")


@lru_cache(maxsize=1 << 16)
def feature_values(word: str) -> tuple[str, ...]:
    """The feature values of a word, one per table of ``TABLES``."""
    lower = _DIGITS.sub("0", unicodedata.normalize("NFC", word).lower())
    return lower, lower[:3], lower[-2:], lower[-3:], word_shape(word)


def word_shape(word: str) -> str:
    """The shape of a word, such as "Xx-X0": runs of capitals, small letters, digits as X, x, 0; up to 6 characters."""
    kinds: list[str] = []
    for character in word[:24]:
        kind = "0" if character.isdigit() else character
        if character.isalpha():
            kind = "x" if character.islower() else "X"
        if not kinds or kinds[-1] != kind:
            kinds.append(kind)
    return "".join(kinds[:6])


class Features:
    """The tables of known feature values; a value's id is its position in the table, from 1."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self.tables = {name: tuple(tables[name]) for name in TABLES}
        self._id_of = [{value: i for i, value in enumerate(self.tables[name], start=1)} for name in TABLES]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of entries per table, including entry 0 for unknown values."""
        return tuple(len(table) + 1 for table in self.tables.values())

    def ids(self, word: str) -> tuple[int, ...]:
        """The feature ids of a word, one per table."""
        return tuple(id_of.get(value, 0) for id_of, value in zip(self._id_of, feature_values(word), strict=True))


def batch_by_length(lengths: Sequence[int], max_words: int) -> list[list[int]]:
    """Batches of the indices of non-empty sentences, longest first.

    A batch has at most `max_words` words, padding included, or is a single longer sentence.
    """
    order = sorted((index for index, length in enumerate(lengths) if length), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    width = 0
    for index in order:
        if batches and (len(batches[-1]) + 1) * width <= max_words:
            batches[-1].append(index)
        else:
            batches.append([index])
            width = lengths[index]
    return batches


def collate_words(sentences: Sequence[Sequence[str]], features: Features) -> tuple[Tensor, Tensor]:
    """Feature ids (B, T, E) and lengths (B,) of non-empty sentences, which must be sorted by descending length."""
    lengths = [len(words) for words in sentences]
    ids = np.zeros((len(sentences), lengths[0], len(TABLES)), dtype=np.int64)
    for row, words in enumerate(sentences):
        ids[row, : len(words)] = [features.ids(word) for word in words]
    return torch.from_numpy(ids), torch.tensor(lengths)
