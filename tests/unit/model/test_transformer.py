"""Attention and position encodings of the Transformer; `test_search` compares caches with enumeration."""

import math

import pytest
import torch

from agggen.model.transformer import Attention, sinusoids

WIDTH, HEADS = 8, 2


def test_attention_equals_its_formula() -> None:
    """softmax(q k^T / sqrt(d)) v per head."""
    torch.manual_seed(1)
    attention = Attention(WIDTH, HEADS).double()
    x, y = (torch.randn(1, length, WIDTH, dtype=torch.float64) for length in (3, 4))
    visible = [True, False, True, True]
    result = attention(x, attention.keys_values(y), torch.tensor(visible)[None, None, None])
    query, (key, value) = attention.query(x)[0].detach(), attention.key_value(y)[0].detach().chunk(2, dim=-1)
    d = WIDTH // HEADS
    mixed = torch.zeros(3, WIDTH, dtype=torch.float64)
    for head in range(HEADS):
        part = slice(head * d, (head + 1) * d)
        for i in range(3):
            weights = [math.exp(float(query[i, part] @ key[j, part]) / math.sqrt(d)) * visible[j] for j in range(4)]
            mixed[i, part] = sum(w / sum(weights) * value[j, part] for j, w in enumerate(weights))
    torch.testing.assert_close(result[0], attention.output(mixed), atol=1e-12, rtol=0)


def test_sinusoids_are_those_of_the_paper() -> None:
    table = sinusoids(20, WIDTH)
    for position, i in [(0, 0), (3, 0), (3, 1), (17, 2), (19, 3)]:
        angle = position / 10_000 ** (2 * i / WIDTH)
        expected = [math.sin(angle), math.cos(angle)]
        assert table[position, 2 * i : 2 * i + 2].tolist() == pytest.approx(expected, abs=1e-6)
