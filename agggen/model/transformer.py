"""Transformer encoder and decoder (Vaswani et al. 2017) with key-value caches and a mask per row on cross-attention.

Layers normalise before each block (pre-norm), positions are sinusoidal, and dropout acts on block outputs and inputs
but not on attention weights, so the fused attention kernels apply. See `agggen.model` for the shape legend.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KeysValues = tuple[Tensor, Tensor]
"""Keys and values of one layer, each (rows, H, length, D / H)."""


def full_precision(x: Tensor) -> Tensor:
    """Half-precision scores as float32, before they become log-probabilities; float64 stays what it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Attention(nn.Module):
    """Multi-head attention whose keys and values can be computed once and used by many queries."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"the model's width {width} is not a multiple of its {heads} heads")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def _split(self, x: Tensor) -> Tensor:  # (rows, n, D) -> (rows, H, n, D / H)
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_values(self, x: Tensor) -> KeysValues:
        key, value = self.key_value(x).chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def forward(self, x: Tensor, keys_values: KeysValues, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Attends from x (rows, n, D); `mask` (rows or 1, 1, n or 1, length) is True where attention may look."""
        key, value = keys_values
        mixed = F.scaled_dot_product_attention(self._split(self.query(x)), key, value, attn_mask=mask, is_causal=causal)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(F.relu(self.inner(x))))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width, hidden, dropout)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        normed = self.norm_attention(x)
        x = x + self.dropout(self.attention(normed, self.attention.keys_values(normed), mask))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.cross = Attention(width, heads), Attention(width, heads)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norm_attention, self.norm_cross = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_feed_forward = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def own_keys_values(self, x: Tensor) -> KeysValues:
        """Keys and values that the layer's input x (rows, n, D) offers to later positions."""
        return self.attention.keys_values(self.norm_attention(x))

    def forward(
        self, x: Tensor, past: KeysValues | None, mask: Tensor | None, memory: KeysValues, memory_mask: Tensor
    ) -> tuple[Tensor, KeysValues]:
        """The layer's output, and the keys and values of `past` and of x behind each other."""
        normed = self.norm_attention(x)
        own = self.attention.keys_values(normed)
        if past is not None:
            own = (torch.cat((past[0], own[0]), 2), torch.cat((past[1], own[1]), 2))
        x = x + self.dropout(self.attention(normed, own, mask, causal=mask is None))
        x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x))), own


class Decoder(nn.Module):
    """A stack of decoder layers over embedded inputs; a caller holds the caches."""

    def __init__(self, layers: int, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def memory_keys_values(self, memory: Tensor) -> list[KeysValues]:
        """Per layer, the keys and values of the encoded source (B, M, D): computed once a record."""
        return [layer.cross.keys_values(memory) for layer in self.layers]  # type: ignore[union-attr, operator]

    def forward(
        self,
        x: Tensor,
        memory: list[KeysValues],
        memory_mask: Tensor,
        past: list[KeysValues] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[KeysValues]]:
        """Runs x (rows, n, D) through all layers.

        Args:
            memory: per layer keys and values of the source, one entry a row.
            memory_mask: (rows, 1, 1, M), True where the row may look.
            past: per layer keys and values of earlier positions (rows, H, P, D / H), put before x's own.
            mask: (rows or 1, 1, n, P + n) self-attention mask; None means causal without a past.

        Returns:
            The normalised hidden states (rows, n, D) and per layer the keys and values of `past` and x.
        """
        assert past is None or mask is not None, "with a past, the causal default would look at the wrong positions"
        caches: list[KeysValues] = []
        for number, layer in enumerate(self.layers):
            x, cache = layer(x, past[number] if past is not None else None, mask, memory[number], memory_mask)
            caches.append(cache)
        return self.norm(x), caches

    def keys_values_only(self, x: Tensor, memory: list[KeysValues], memory_mask: Tensor) -> list[KeysValues]:
        """What `forward` returns as caches for a causal pass without a past, without the last layer's blocks."""
        caches: list[KeysValues] = []
        for number, layer in enumerate(self.layers[:-1]):
            x, cache = layer(x, None, None, memory[number], memory_mask)
            caches.append(cache)
        return [*caches, self.layers[-1].own_keys_values(x)]  # type: ignore[operator]


def sinusoids(length: int, width: int) -> Tensor:
    """Sinusoidal position encodings (length, width) of Vaswani et al. 2017, section 3.5."""
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table
