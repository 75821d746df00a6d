"""Coverage (cf. Tu et al. 2016): the decoder's output depends on how many values of the fact are missing, so that a
fact does not end before they are expressed. See `agggen.model` for the shape legend.
"""

from __future__ import annotations

from torch import Tensor, nn


class Coverage(nn.Module):
    """Adds a linear map of the decoder's output, scaled by u / (1 + u), where u is the number of missing values: each
    triple counts with the share of its object's words that the fact does not contain yet. Initially, nothing is added.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, width)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def forward(self, hidden: Tensor, shares: Tensor, generated: Tensor) -> Tensor:
        """The adjusted hidden (R, n, D).

        `shares` (R, M) are the `object_shares` of the source words that belong to the fact's triples, 0 for others;
        `generated` (R, n, M) is True for the source words among the fact's words up to each of the n positions.
        """
        missing = (shares[:, None] * ~generated).sum(-1)
        return hidden + (missing / (1 + missing)).to(hidden.dtype)[..., None] * self.change(hidden)


def object_shares(triple: Tensor, is_object: Tensor) -> Tensor:
    """(B, M): 1 / n for each of the n words of an object, and 0 for other source words; `triple` and `is_object`, (B,
    M), are the triple of each source word and whether it belongs to the triple's object.
    """
    same_object = (triple[:, None] == triple[:, :, None]) & is_object[:, None]
    return is_object.double() / same_object.sum(2).clamp(min=1)


def generated_before(source: Tensor, inputs: Tensor) -> Tensor:
    """(R, n, M): whether a word of `source` (R, M) is among the first 1, 2, ..., n words of `inputs` (R, n)."""
    return (source[:, None] == inputs[..., None]).cumsum(1) > 0


def generated_in(source: Tensor, words: Tensor) -> Tensor:
    """(n, K, M): whether a word of `source` (n, M) is one of `words` (n, K, W)."""
    return (source[:, None, None] == words[..., None]).any(2)
