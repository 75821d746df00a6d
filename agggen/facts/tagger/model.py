"""The network: two bidirectional LSTM layers per sentence, then a smaller one per predicate.

Shapes: B sentences, T words, F frames (predicates of all sentences), E features per word, H hidden units, K role tags.
Rows are padded at the end. Padding does not affect words, since it is last in both directions: the backward LSTM reads
each row reversed within its length.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

MAX_DISTANCE = 12  # distances to the predicate are clipped to this many words


@dataclass(frozen=True)
class TaggerConfig:
    """Sizes of the network; `features` are the embedding widths of `agggen.facts.tagger.features.TABLES`."""

    features: tuple[int, ...] = (80, 24, 16, 32, 16)
    hidden: int = 192  # units per direction of both sentence layers
    role: int = 128  # width of the representation of a pair of word and predicate
    role_hidden: int = 112  # units per direction of the frame layer


class TaggerModel(nn.Module):
    """Scores of predicates in sentences and of role tags in frames."""

    def __init__(self, config: TaggerConfig, sizes: tuple[int, ...], n_tags: int) -> None:
        super().__init__()
        state_size = 2 * config.hidden
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, width) for size, width in zip(sizes, config.features, strict=True)
        )
        self.first = BiLSTM(sum(config.features), config.hidden)
        self.second = BiLSTM(state_size, config.hidden)
        self.predicate = nn.Linear(state_size, 1)
        self.word_side = nn.Linear(state_size, config.role)
        self.predicate_side = nn.Linear(state_size, config.role)
        self.product_side = nn.Linear(state_size, config.role, bias=False)
        self.distance = nn.Embedding(2 * MAX_DISTANCE + 1, config.role)
        self.frame = BiLSTM(config.role, config.role_hidden)
        self.tag = nn.Linear(2 * config.role_hidden + config.role, n_tags)

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, T, 2H) and predicate logits (B, T) of sentences with feature ids (B, T, E) and lengths (B,)."""
        columns = [embedding(features[..., i]) for i, embedding in enumerate(self.embeddings)]
        reversal = _reversal(lengths, features.shape[1])
        states = self.second(self.first(torch.cat(columns, -1), reversal), reversal)
        return states, self.predicate(states).squeeze(-1)

    def roles(self, states: Tensor, lengths: Tensor, sentence: Tensor, predicate: Tensor) -> Tensor:
        """Tag logits (F, T, K) of frames; `sentence` and `predicate` (F,) index each frame's sentence and predicate."""
        words = self.word_side(states)[sentence]  # (F, T, role)
        predicates = self.predicate_side(states[sentence, predicate]).unsqueeze(1)  # (F, 1, role)
        products = self.product_side(states)[sentence] * predicates  # a low-rank bilinear term
        positions = torch.arange(states.shape[1], device=states.device)
        distance = (positions.unsqueeze(0) - predicate.unsqueeze(1)).clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE
        relations = torch.relu(words + predicates + products + self.distance(distance))
        contexts = self.frame(relations, _reversal(lengths[sentence], states.shape[1]))
        return self.tag(torch.cat((contexts, relations), -1))


class BiLSTM(nn.Module):
    """A bidirectional LSTM over padded rows."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(inputs, hidden)
        self.backwards = nn.LSTM(inputs, hidden)

    def forward(self, inputs: Tensor, reversal: Tensor) -> Tensor:
        """(B, T, inputs) to (B, T, 2 hidden); `reversal` is the result (B * T,) of `_reversal`."""
        forward = self.forwards(inputs.transpose(0, 1))[0].transpose(0, 1)
        backward = self.backwards(_reorder(inputs, reversal).transpose(0, 1))[0].transpose(0, 1)
        return torch.cat((forward, _reorder(backward, reversal)), -1)


def _reversal(lengths: Tensor, width: int) -> Tensor:
    """Indices (B * `width`,) into flattened rows that reverse each row within its length."""
    positions = torch.arange(width, device=lengths.device).unsqueeze(0)
    lengths = lengths.unsqueeze(1)
    sources = torch.where(positions < lengths, lengths - 1 - positions, positions)
    return (sources + width * torch.arange(len(lengths), device=lengths.device).unsqueeze(1)).flatten()


def _reorder(rows: Tensor, order: Tensor) -> Tensor:
    return rows.flatten(0, 1).index_select(0, order).view(rows.shape)
