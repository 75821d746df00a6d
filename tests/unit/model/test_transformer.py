"""Attention, caches and masks of the Transformer."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agggen.model.transformer import Attention, Cache, Decoder, sinusoids

WIDTH, HEADS = 8, 2


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decoder(layers: int = 2) -> Decoder:
    torch.manual_seed(3)
    return Decoder(layers, WIDTH, HEADS, 12, 0.0).double().eval()


def mask_of(*rows: list[bool]) -> Tensor:
    return torch.tensor(rows)[:, None, None]


def test_attention_equals_its_formula() -> None:
    """softmax(q k^T / sqrt(d)) v per head."""
    torch.manual_seed(1)
    attention = Attention(WIDTH, HEADS).double()
    x, y = draw(1, 3, WIDTH), draw(1, 4, WIDTH, seed=1)
    visible = [True, False, True, True]
    result = attention(x, attention.keys_values(y), mask_of(visible))
    query, (key, value) = attention.query(x)[0].detach(), attention.key_value(y)[0].detach().chunk(2, dim=-1)
    d = WIDTH // HEADS
    mixed = torch.zeros(3, WIDTH, dtype=torch.float64)
    for head in range(HEADS):
        part = slice(head * d, (head + 1) * d)
        for i in range(3):
            weights = [math.exp(float(query[i, part] @ key[j, part]) / math.sqrt(d)) * visible[j] for j in range(4)]
            mixed[i, part] = sum(w / sum(weights) * value[j, part] for j, w in enumerate(weights))
    torch.testing.assert_close(result[0], attention.output(mixed), atol=1e-12, rtol=0)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.integers(1, 3))
@settings(deadline=None, max_examples=20)
def test_cached_decoding_equals_uncached(pieces: list[int], layers: int) -> None:
    """For any division of the text into pieces, each decoded with the caches of the previous ones."""
    model, length = decoder(layers), sum(pieces)
    x, source = draw(2, length, WIDTH), draw(2, 4, WIDTH, seed=1)
    memory, visible = model.memory_keys_values(source), mask_of([True] * 4, [True, False, True, False])
    empty = draw(2, HEADS, 0, WIDTH // HEADS)
    caches, hidden, begin = [Cache.of((empty, empty)) for _ in range(layers)], [], 0
    for size in pieces:
        causal = torch.ones(length, length, dtype=torch.bool).tril()[begin : begin + size, : begin + size]
        hidden.append(model(x[:, begin : begin + size], memory, visible, caches, causal[None, None]))
        begin += size
    torch.testing.assert_close(torch.cat(hidden, 1), model(x, memory, visible), atol=1e-12, rtol=0)
    for cache, expected in zip(caches, model.keys_values_only(x, memory, visible), strict=True):
        torch.testing.assert_close(cache.keys_values(), expected, atol=1e-12, rtol=0)


def test_a_position_sees_neither_later_ones_nor_hidden_source_tokens() -> None:
    model = decoder()
    x, source, visible = draw(1, 4, WIDTH), draw(1, 3, WIDTH, seed=1), mask_of([True, False, True])
    expected = model(x, model.memory_keys_values(source), visible)
    later, hidden, seen = x.clone(), source.clone(), source.clone()
    later[0, 3, 0] += 1
    hidden[0, 1, 0] += 1
    seen[0, 2, 0] += 1
    changed = model(later, model.memory_keys_values(source), visible)
    assert torch.equal(changed[0, :3], expected[0, :3])
    assert not torch.allclose(changed[0, 3], expected[0, 3])
    assert torch.equal(model(x, model.memory_keys_values(hidden), visible), expected)
    assert not torch.allclose(model(x, model.memory_keys_values(seen), visible), expected)


def test_sinusoids_are_those_of_the_paper() -> None:
    table = sinusoids(20, WIDTH)
    for position, i in [(0, 0), (3, 0), (3, 1), (17, 2), (19, 3)]:
        angle = position / 10_000 ** (2 * i / WIDTH)
        expected = [math.sin(angle), math.cos(angle)]
        assert table[position, 2 * i : 2 * i + 2].tolist() == pytest.approx(expected, abs=1e-6)
