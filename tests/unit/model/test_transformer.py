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


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_are_those_of_the_paper(width: int) -> None:
    table = sinusoids(20, width)
    for position, i in [(0, 0), (3, 0), (3, 1), (17, 2), (19, 3)]:
        angle = position / 10_000 ** (2 * i / width)
        assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        if 2 * i + 1 < width:
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def kept(cache: Cache) -> tuple[Tensor, Tensor]:
    keys, values = cache.keys_values()
    return keys.contiguous(), values.contiguous()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 9))
@settings(deadline=None, max_examples=20)
def test_a_cache_returns_the_appended_keys_and_values_in_order(pieces: list[int], spare: int) -> None:
    pairs = [(draw(3, HEADS, n, 4, seed=2 * i), draw(3, HEADS, n, 4, seed=2 * i + 1)) for i, n in enumerate(pieces)]
    all_rows = Cache.of(pairs[0]), torch.arange(3), torch.arange(pieces[0]).expand(3, -1)
    cache = Cache.gather([all_rows], spare)
    for pair in pairs[1:]:
        result = cache.append(pair)
    result = cache.keys_values()
    for actual, expected in zip(result, (torch.cat(tensors, 2) for tensors in zip(*pairs, strict=True)), strict=True):
        torch.testing.assert_close(actual, expected, atol=0, rtol=0)


def test_rows_of_a_cache_are_removed_copied_and_joined() -> None:
    keys, values = draw(5, HEADS, 3, 4), draw(5, HEADS, 3, 4, seed=1)
    cache = Cache.of((keys, values.clone()))
    part = Cache.gather([(cache, torch.tensor([4, 1]), torch.tensor([[2, 0], [1, 1]]))], spare=1)
    cache.compact(torch.tensor([0, 2]), torch.tensor([3, 4]), 3)  # removes rows 0 and 2
    order = [3, 1, 4]
    for actual, expected in zip(kept(cache), (keys[order], values[order]), strict=True):
        assert torch.equal(actual, expected)
    for actual, original in zip(kept(part), (keys, values), strict=True):  # a copy, not changed by `leave`
        assert torch.equal(actual, torch.stack((original[4][:, [2, 0]], original[1][:, [1, 1]])))
    for actual, original in zip(kept(cache.rows(torch.tensor([2, 2]))), (keys, values), strict=True):
        assert torch.equal(actual, original[[4, 4]])
    parts = (
        (part, torch.arange(2), torch.arange(2).expand(2, -1)),
        (cache, torch.arange(3), torch.arange(3).expand(3, -1)),
    )
    both = Cache.gather(parts, spare=2)
    for actual, first, last in zip(kept(both), kept(part), kept(cache), strict=True):
        assert torch.equal(actual[:2, :, :2], first) and not actual[:2, :, 2:].any()
        assert torch.equal(actual[2:], last)


def test_a_float_mask_is_added_to_the_scores() -> None:
    torch.manual_seed(1)
    attention = Attention(WIDTH, HEADS).double()
    x, pair, mask = draw(2, 3, WIDTH), attention.keys_values(draw(2, 6, WIDTH, seed=1)), draw(2, 1, 3, 6, seed=2) > -0.5
    added = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -1e9)
    result = attention(x, Cache.of(pair).keys_values(), added)
    torch.testing.assert_close(result, attention(x, pair, mask), atol=1e-12, rtol=0)
