"""Transformer encoder and decoder (Vaswani et al. 2017) with key-value caches and a cross-attention mask per row.

Layers normalise before each block (pre-norm). Dropout is not applied to attention weights, so that fused attention
kernels can be used. See `agggen.model` for the shape legend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KeysValues = tuple[Tensor, Tensor]  # keys and values of one layer, each (rows, H, length, D / H)


def copy_rows(values: Tensor, targets: Tensor, sources: Tensor) -> None:
    """Copies the rows `sources` of a tensor to its rows `targets`, in place."""
    if len(sources):
        values[targets] = values[sources]


class Cache:
    """The keys and values of one layer at `length` positions, with spare capacity; for inference only."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        # (rows, H, D / H, capacity), transposed for fast products with few queries; (rows, H, capacity, D / H)
        self._keys, self._values = keys, values
        self.length = length

    @classmethod
    def of(cls, keys_values: KeysValues) -> Cache:
        key, value = keys_values
        return cls(key.mT.contiguous(), value, key.shape[2])

    def keys_values(self) -> KeysValues:
        """Views of the keys and values, each (rows, H, length, D / H)."""
        return self._keys[..., : self.length].mT, self._values[:, :, : self.length]

    def append(self, keys_values: KeysValues) -> KeysValues:
        """Appends keys and values in place, doubling the capacity if full; returns those of all positions."""
        key, value = keys_values
        end = self.length + key.shape[2]
        if end > self._keys.shape[-1]:
            growth = max(end, 2 * self.length) - self.length
            self._keys = F.pad(self._keys[..., : self.length], (0, growth))
            self._values = F.pad(self._values[:, :, : self.length], (0, 0, 0, growth))
        self._keys[..., self.length : end] = key.mT
        self._values[:, :, self.length : end] = value
        self.length = end
        return self.keys_values()

    def rows(self, index: Tensor) -> Cache:
        """A copy of the rows `index`."""
        return Cache(self._keys[..., : self.length][index], self._values[:, :, : self.length][index], self.length)

    def compact(self, targets: Tensor, sources: Tensor, n: int) -> None:
        """Copies the rows `sources` to `targets` in place, then truncates the cache to its first n rows."""
        copy_rows(self._keys[..., : self.length], targets, sources)
        copy_rows(self._values[:, :, : self.length], targets, sources)
        self._keys, self._values = self._keys[:n], self._values[:n]

    @staticmethod
    def gather(parts: Sequence[tuple[Cache, Tensor, Tensor]], spare: int = 0) -> Cache:
        """A new cache with rows of several caches, padded with zeros, and memory for `spare` positions; each part is a
        cache, its rows (n,) and their positions (n, any).
        """
        first_cache, length = parts[0][0], max(positions.shape[1] for _, _, positions in parts)
        (heads, width), rows = first_cache._keys.shape[1:3], sum(len(row_index) for _, row_index, _ in parts)
        keys = first_cache._keys.new_empty(rows, heads, width, length + spare)
        values = first_cache._values.new_empty(rows, heads, length + spare, width)
        begin = 0
        for cache, row_index, positions in parts:
            target_rows, end = slice(begin, begin + len(row_index)), positions.shape[1]
            key_index = positions[:, None, None].expand(-1, heads, width, -1)
            keys[target_rows, ..., :end] = cache._keys[..., : cache.length][row_index].gather(3, key_index)
            value_index = positions[:, None, :, None].expand(-1, heads, -1, width)
            values[target_rows, :, :end] = cache._values[:, :, : cache.length][row_index].gather(2, value_index)
            keys[target_rows, ..., end:length] = values[target_rows, :, end:length] = 0.0
            begin += len(row_index)
        return Cache(keys, values, length)


class Attention(nn.Module):
    """Multi-head attention with precomputed keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
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
        """Attends from x (rows, n, D).

        `mask` (rows or 1, 1, n or 1, length) is True at visible positions, or a bias that is added to the scores. A
        bias uses matrix products, which are twice as fast as the fused kernel for few queries to a `Cache`.
        """
        query, (key, value) = self._split(self.query(x)), keys_values
        if mask is not None and mask.is_floating_point():
            attended = ((query * key.shape[-1] ** -0.5) @ key.mT + mask).softmax(-1) @ value
        else:
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.output(attended.transpose(1, 2).flatten(-2))


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

    def self_keys_values(self, x: Tensor) -> KeysValues:
        """Self-attention keys and values of the layer's input x (rows, n, D), for later positions."""
        return self.attention.keys_values(self.norm_attention(x))

    def forward(
        self, x: Tensor, past: KeysValues | Cache | None, mask: Tensor | None, memory: KeysValues, memory_mask: Tensor
    ) -> tuple[Tensor, KeysValues]:
        """The layer's output, and the concatenated keys and values of `past` and x."""
        normed = self.norm_attention(x)
        keys_values = self.attention.keys_values(normed)
        if isinstance(past, Cache):
            keys_values = past.append(keys_values)
        elif past is not None:
            keys, values = keys_values
            keys_values = torch.cat((past[0], keys), 2), torch.cat((past[1], values), 2)
        x = x + self.dropout(self.attention(normed, keys_values, mask, causal=mask is None))
        x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x))), keys_values


class Decoder(nn.Module):
    """A stack of decoder layers over embedded inputs; caches are passed by the caller."""

    def __init__(self, layers: int, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def memory_keys_values(self, memory: Tensor) -> list[KeysValues]:
        """Per layer, the keys and values of the encoded source (B, M, D)."""
        return [layer.cross.keys_values(memory) for layer in self.layers]  # type: ignore[union-attr, operator]

    def forward(
        self,
        x: Tensor,
        memory: list[KeysValues],
        memory_mask: Tensor,
        past: Sequence[KeysValues | Cache] | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The hidden states (rows, n, D) of x (rows, n, D).

        `memory` is per layer the keys and values of each row's source, `past` those of P earlier positions (x is
        appended to a `Cache`). `mask` (rows or 1, 1, n, P + n) is None for a causal mask without `past`.
        """
        for index, layer in enumerate(self.layers):
            x, _ = layer(x, past[index] if past is not None else None, mask, memory[index], memory_mask)
        return self.norm(x)

    def keys_values_only(self, x: Tensor, memory: list[KeysValues], memory_mask: Tensor) -> list[KeysValues]:
        """Per layer, the keys and values of x in a causal `forward` without `past`, whose output is not computed."""
        all_keys_values: list[KeysValues] = []
        for index, layer in enumerate(self.layers[:-1]):
            x, keys_values = layer(x, None, None, memory[index], memory_mask)
            all_keys_values.append(keys_values)
        return [*all_keys_values, self.layers[-1].self_keys_values(x)]  # type: ignore[operator]


def sinusoids(length: int, width: int) -> Tensor:
    """Sinusoidal position encodings (length, width) of Vaswani et al. 2017, section 3.5; `width` is even."""
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    return torch.stack((torch.sin(position * rate), torch.cos(position * rate)), 2).flatten(1)
