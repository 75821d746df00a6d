"""Sentences as padded tensors, batched by length to reduce padding."""

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
    """Batches of sentence indices, longest first, with at most `budget` words including padding, or one sentence."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    width = 0
    for index in order:
        if batches and (len(batches[-1]) + 1) * width <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
            width = lengths[index]
    return batches


def collate_words(sentences: Sequence[Sequence[str]], features: Features) -> Words:
    """A batch of non-empty sentences, which must be ordered by descending length."""
    lengths = [len(words) for words in sentences]
    array = np.zeros((len(sentences), lengths[0], len(TABLES)), dtype=np.int64)
    for row, words in enumerate(sentences):
        array[row, : len(words)] = [features.numbers(word) for word in words]
    return Words(torch.from_numpy(array), torch.tensor(lengths))
