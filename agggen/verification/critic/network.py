"""The critic's network: a Transformer over triples and text, with word similarities as an attention bias.

Words unseen in training must also attend to their mentions in the text. Each head therefore adds to its attention
logits a weighted sum of five features of a word pair: cosine similarity of character n-grams; equality; equality of the
words and of adjacent words; same triple; one word in a triple and the other in the text.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agggen.verification.critic.tokens import BUCKETS, LONGEST_TEXT, LONGEST_VALUE, Inputs, Role

VERDICTS = ("said", "part", "contradicted", "missing")
"""The classes of triples: expressed correctly; in part; with a wrong value, predicate or subject; not at all."""
_SIMILARITY_DIM, _PAIR_FEATURES = 64, 5


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network, and its dropout."""

    width: int = 128
    layers: int = 4
    heads: int = 4
    feed_forward: int = 384
    dropout: float = 0.1


class Logits(NamedTuple):
    """The outputs for a batch of B sequences of L words."""

    verdicts: Tensor  # (B, L, 4) logits of `VERDICTS`; only meaningful at the marks of triples
    invented: Tensor  # (B, L) logits that a word is hallucinated; only meaningful at the words of the text


class CriticNetwork(nn.Module):
    """Classifies the triples and the words of the text of each sequence."""

    projection: Tensor
    """(BUCKETS, 64) fixed random vectors of n-grams; the sum over a word's n-grams represents the word."""

    def __init__(self, vocabulary_size: int, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.config = config
        self.word = nn.Embedding(vocabulary_size + 1, width)
        self.gram = nn.EmbeddingBag(BUCKETS, width, mode="mean")
        self.role = nn.Embedding(len(Role), width)
        self.text_position = nn.Embedding(LONGEST_TEXT + 1, width)
        self.value_position = nn.Embedding(LONGEST_VALUE, width)
        self.match = nn.Linear(3, width)
        for embedding in (self.word, self.gram, self.role, self.text_position, self.value_position):
            nn.init.normal_(embedding.weight, std=0.3)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.verdicts = nn.Linear(width, len(VERDICTS))
        self.invented = nn.Linear(width, 1)
        random = torch.Generator().manual_seed(7)
        self.register_buffer("projection", torch.randn(BUCKETS, _SIMILARITY_DIM, generator=random), persistent=False)

    def forward(self, inputs: Inputs) -> Logits:
        shape = inputs.words.shape
        in_text = inputs.roles == Role.TEXT
        pairs, support = self._pairs(inputs, in_text)
        positions = torch.where(
            in_text[..., None],
            self.text_position(inputs.positions),
            self.value_position(inputs.positions.clamp(max=LONGEST_VALUE - 1)),
        )
        hidden = self.word(inputs.words) + 2 * self.gram(inputs.grams, inputs.offsets).view(*shape, -1)
        hidden = hidden + self.role(inputs.roles) + positions + self.match(support)
        hidden = F.dropout(hidden, self.config.dropout, self.training)
        mask = inputs.padding[:, None, None, :].float() * -1e4
        for layer in self.layers:
            hidden = layer(hidden, pairs, mask)
        hidden = self.norm(hidden)
        return Logits(self.verdicts(hidden), self.invented(hidden)[..., 0])

    def _pairs(self, inputs: Inputs, in_text: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, L, L, 5) of word pairs, and (B, L, 3) the maxima over the other words of the first three."""
        vectors = F.embedding_bag(inputs.grams, self.projection, inputs.offsets, mode="sum").view(*in_text.shape, -1)
        vectors = F.normalize(vectors, dim=-1) * inputs.content[..., None]
        across = (in_text[:, :, None] != in_text[:, None, :]).float()
        similar = vectors @ vectors.transpose(1, 2) * across
        equal = (similar > 0.99).float()
        neighbour = torch.zeros_like(equal)
        neighbour[:, 1:, 1:] += equal[:, :-1, :-1]
        neighbour[:, :-1, :-1] += equal[:, 1:, 1:]
        neighbour = neighbour * equal
        same_triple = (
            (inputs.triples[:, :, None] == inputs.triples[:, None, :]) & (inputs.triples[:, :, None] >= 0)
        ).float()
        support = torch.stack([feature.amax(-1) for feature in (similar, equal, neighbour)], -1)
        return torch.stack([similar, equal, neighbour, same_triple, across], -1), support * inputs.content[..., None]


class _Layer(nn.Module):
    """Self-attention with pair features, then a feed-forward network, each after layer normalisation."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, config.feed_forward), nn.Linear(config.feed_forward, width)
        self.pair_weights = nn.Parameter(torch.randn(config.heads, _PAIR_FEATURES) * 0.5)

    def forward(self, hidden: Tensor, pairs: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        projected = self.projections(self.attention_norm(hidden)).view(batch, length, 3, self.heads, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        bias = (pairs @ self.pair_weights.T).permute(0, 3, 1, 2) + mask
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
        attended = self.output(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = hidden + F.dropout(attended, dropout)
        expanded = F.gelu(self.expand(self.feed_forward_norm(hidden)))
        return hidden + F.dropout(self.contract(expanded), dropout)
