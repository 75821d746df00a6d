"""Sentences as padded tensors, grouped by length so that little of a batch is padding."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agggen.facts.tagger.data import Sentence
from agggen.facts.tagger.features import TABLES, Features

IGNORED = -100
"""A target that does not count."""


class Words(NamedTuple):
    """A batch of sentences, longest first."""

    features: Tensor  # (B, T, E)
    lengths: Tensor  # (B,)


class Targets(NamedTuple):
    """What a batch should be read as."""

    pos: Tensor  # (B, T)
    syntax: Tensor  # (B, T)
    predicates: Tensor  # (B, T): 0 or 1, IGNORED in the padding
    sentence: Tensor  # (F,)
    predicate: Tensor  # (F,)
    tags: Tensor  # (F, T)


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


def shuffled_groups(lengths: Sequence[int], budget: int, rng: random.Random) -> list[list[int]]:
    """Groups for an epoch of training: alike in length but not always the same ones, in random order."""
    found = groups([2 * length + rng.randrange(5) for length in lengths], 2 * budget)
    rng.shuffle(found)
    return [sorted(group, key=lambda index: -lengths[index]) for group in found]


def collate_words(sentences: Sequence[Sequence[str]], features: Features) -> Words:
    """A batch of sentences, which must come longest first and none empty."""
    lengths = [len(words) for words in sentences]
    array = np.zeros((len(sentences), lengths[0], len(TABLES)), dtype=np.int64)
    for row, words in enumerate(sentences):
        array[row, : len(words)] = [features.numbers(word) for word in words]
    return Words(torch.from_numpy(array), torch.tensor(lengths))


def collate_targets(
    sentences: Sequence[Sentence], pos: dict[str, int], syntax: dict[str, int], tags: dict[str, int]
) -> Targets:
    """Targets of a batch by the numbers of each label; a label without number is ignored, of tags it counts as O."""
    shape = (len(sentences), len(sentences[0].words))
    columns = {name: np.full(shape, IGNORED, dtype=np.int64) for name in ("pos", "syntax", "predicates")}
    frames: list[tuple[int, int, list[int]]] = []
    for row, sentence in enumerate(sentences):
        length = len(sentence.words)
        columns["pos"][row, :length] = [pos.get(label or "", IGNORED) for label in sentence.pos]
        columns["syntax"][row, :length] = [syntax.get(label or "", IGNORED) for label in sentence.syntax]
        columns["predicates"][row, :length] = sentence.predicates
        padding = [IGNORED] * (shape[1] - length)
        for role in sentence.roles:
            frames.append((row, role.predicate, [tags.get(tag, 0) for tag in role.tags] + padding))
    return Targets(
        **{name: torch.from_numpy(column) for name, column in columns.items()},
        sentence=torch.tensor([frame[0] for frame in frames], dtype=torch.long),
        predicate=torch.tensor([frame[1] for frame in frames], dtype=torch.long),
        tags=torch.tensor([frame[2] for frame in frames], dtype=torch.long).reshape(len(frames), shape[1]),
    )
