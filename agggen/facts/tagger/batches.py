"""Sentences as padded tensors, grouped by length so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agggen.facts.tagger.features import TABLES, Features


class Words(NamedTuple):
    """A batch of sentences, longest first."""

    features: Tensor  # (B, T, E)
    lengths: Tensor  # (B,)


def groups(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of sentences, longest first, in groups that hold at most `budget` words with padding, or one sentence."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    found: list[list[int]] = []
    width = 0
    for index in order:
        if found and (len(found[-1]) + 1) * width <= budget:
            found[-1].append(index)
        else:
            found.append([index])
            width = lengths[index]
    return found


def collate_words(sentences: Sequence[Sequence[str]], features: Features) -> Words:
    """A batch of sentences, which must come longest first and none empty."""
    lengths = [len(words) for words in sentences]
    array = np.zeros((len(sentences), lengths[0], len(TABLES)), dtype=np.int64)
    for row, words in enumerate(sentences):
        array[row, : len(words)] = [features.numbers(word) for word in words]
    return Words(torch.from_numpy(array), torch.tensor(lengths))
