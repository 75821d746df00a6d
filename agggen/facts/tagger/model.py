"""The network: two bidirectional LSTM layers per sentence, then a smaller one per predicate.

Shapes: B sentences, T words, F frames (predicates of all sentences), E features per word, H hidden units, K role tags.
Rows are padded at the end. Padding never affects words: it is last in the forward direction, and in the backward
direction each row is reversed within its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

FAR = 12
"""Distances to the predicate are clipped to this many words."""


@dataclass(frozen=True)
class TaggerConfig:
    """Sizes; `features` are the embedding widths of `agggen.facts.tagger.features.TABLES`."""

    features: tuple[int, ...] = (80, 24, 16, 32, 16)
    hidden: int = 192  # units per direction of both sentence layers
    role: int = 128  # width of a word's representation relative to a predicate
    role_hidden: int = 112  # units per direction of the frame layer
    dropout: float = 0.33


class Read(NamedTuple):
    """Outputs of the sentence layers for a batch."""

    first: Tensor  # (B, T, 2H), of the first layer
    states: Tensor  # (B, T, 2H), of the second layer
    predicates: Tensor  # (B, T), logits


class TaggerModel(nn.Module):
    """Scores of predicates in sentences and of role tags in frames."""

    def __init__(self, config: TaggerConfig, sizes: tuple[int, ...], n_tags: int) -> None:
        super().__init__()
        self.config = config
        wide = 2 * config.hidden
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, width) for size, width in zip(sizes, config.features, strict=True)
        )
        self.first = Both(sum(config.features), config.hidden)
        self.second = Both(wide, config.hidden)
        self.predicate = nn.Linear(wide, 1)
        self.word_side = nn.Linear(wide, config.role)
        self.predicate_side = nn.Linear(wide, config.role)
        self.product_side = nn.Linear(wide, config.role, bias=False)
        self.distance = nn.Embedding(2 * FAR + 1, config.role)
        self.frame = Both(config.role, config.role_hidden)
        self.tag = nn.Linear(2 * config.role_hidden + config.role, n_tags)
        for weight in self.embeddings.parameters():
            nn.init.normal_(weight, std=0.3)
        nn.init.normal_(self.distance.weight, std=0.1)

    def read(self, features: Tensor, lengths: Tensor) -> Read:
        """Encodes sentences: numbers of features (B, T, E), lengths (B,)."""
        columns = [embedding(features[..., i]) for i, embedding in enumerate(self.embeddings)]
        turned = _turned(lengths, features.shape[1])
        first = self.drop(self.first(self.drop(torch.cat(columns, -1)), turned))
        states = self.drop(self.second(first, turned))
        return Read(first, states, self.predicate(states).squeeze(-1))

    def roles(self, states: Tensor, lengths: Tensor, sentence: Tensor, predicate: Tensor) -> Tensor:
        """Tag logits (F, T, K) of frames, given their sentence and predicate word, each (F,)."""
        words = self.word_side(states)[sentence]  # (F, T, role)
        verbs = states[sentence, predicate]  # (F, 2H)
        # A low-rank bilinear term of word and predicate.
        offers = self.product_side(states)[sentence]
        asks = self.predicate_side(verbs).unsqueeze(1)
        places = torch.arange(states.shape[1], device=states.device)
        distance = (places.unsqueeze(0) - predicate.unsqueeze(1)).clamp(-FAR, FAR) + FAR
        seen = torch.relu(words + asks + offers * asks + self.distance(distance))
        read = self.frame(self.drop(seen), _turned(lengths[sentence], states.shape[1]))
        return self.tag(torch.cat((self.drop(read), seen), -1))

    def drop(self, values: Tensor) -> Tensor:
        """Variational dropout (Gal and Ghahramani, 2016): the same units for all words of a row; values (B, T, D)."""
        if not self.training or not self.config.dropout:
            return values
        keep = 1 - self.config.dropout
        return values * (torch.rand(values.shape[0], 1, values.shape[2]) < keep) / keep


class Both(nn.Module):
    """A bidirectional LSTM made of two unidirectional LSTMs.

    PyTorch's own needs packed rows, whose gradients take twice as long on a CPU.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(inputs, hidden)
        self.backwards = nn.LSTM(inputs, hidden)

    def forward(self, inputs: Tensor, turned: Tensor) -> Tensor:
        """(B, T, inputs) to (B, T, 2 hidden), with the order (B * T,) of `_turned`."""
        ahead = self.forwards(inputs.transpose(0, 1))[0].transpose(0, 1)
        back = self.backwards(_reorder(inputs, turned).transpose(0, 1))[0].transpose(0, 1)
        return torch.cat((ahead, _reorder(back, turned)), -1)


def _turned(lengths: Tensor, width: int) -> Tensor:
    """For each position of padded rows (B, `width`), flattened, the position of its word in the reversed rows."""
    places = torch.arange(width, device=lengths.device).unsqueeze(0)
    lengths = lengths.unsqueeze(1)
    within = torch.where(places < lengths, lengths - 1 - places, places)
    return (within + width * torch.arange(len(lengths), device=lengths.device).unsqueeze(1)).flatten()


def _reorder(rows: Tensor, order: Tensor) -> Tensor:
    return rows.flatten(0, 1).index_select(0, order).view(rows.shape)
