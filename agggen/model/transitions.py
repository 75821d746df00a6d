"""Transition distributions over predicates (paper section 3.2, equation 3).

There are two pairs of predicate embeddings, `A_in B_in` within a state and `A_out B_out` between states, each with a
start state. The softmax is over the record's predicates; within a `normalised` state, over those not yet in it.

`normalised`: p(z_t | z_{t-1}) = p_out(o^1 | last of z_{t-1}) * prod_l (1 - stop) p_in(o^{l+1} | o^l) * stop, with a
learned stop probability by last predicate, size and number of triples.

`paper`: p(z) = p_in(o^1 | start) * prod p_in(o^l | o^{l-1}), without a length model. The transition from z_{t-1}
contains p(z_{t-1}) as a factor again, so p(z) of every state but the last is squared.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from agggen.model.lattice import IMPOSSIBLE, Lattice

Variant = Literal["normalised", "paper"]
_STOP_SIZES = 16  # rows of `Transitions.stop_by_size`; records with more triples use the last row


class TransitionScores(NamedTuple):
    """Log-probabilities of a batch of records; see `agggen.model` for the shapes."""

    start: Tensor  # (B, J) log p_out(first predicate of the text | start); zeros in variant `paper`
    out: Tensor  # (B, J, J) log p_out; the probabilities of each row sum to 1
    inside_start: Tensor  # (B, J) log p_in(. | start)
    inside: Tensor  # (B, J, J) logits of p_in, IMPOSSIBLE on the diagonal
    within: Tensor  # (B, S) log-probability of a state given its first predicate; IMPOSSIBLE if not of the record


class Transitions(nn.Module):
    """Embeddings of predicates (index 0: all predicates that are not in the training records) and of a start state."""

    def __init__(self, n_predicates: int, dim: int, max_group_size: int, variant: Variant = "normalised") -> None:
        super().__init__()
        self.variant, self.max_group_size = variant, max_group_size
        scale = dim**-0.5
        self.a_in = nn.Parameter(torch.randn(n_predicates + 1, dim) * scale)  # the last row is the start state
        self.b_in = nn.Parameter(torch.randn(n_predicates, dim) * scale)
        self.a_out = nn.Parameter(torch.randn(n_predicates + 1, dim) * scale)
        self.b_out = nn.Parameter(torch.randn(n_predicates, dim) * scale)
        # Logits of ending a state after its l-th predicate, l = 1..L-1, by this predicate and by number of triples.
        self.stop = nn.Parameter(torch.zeros(n_predicates, max(max_group_size - 1, 1)))
        self.stop_by_size = nn.Parameter(torch.zeros(_STOP_SIZES, max(max_group_size - 1, 1)))

    def forward(self, predicates: Tensor, n_triples: Tensor, lattice: Lattice) -> TransitionScores:
        """Scores of records with predicate ids (B, J), padded beyond `n_triples` (B,)."""
        present = torch.arange(predicates.shape[1], device=predicates.device) < n_triples[:, None]  # (B, J)
        start_row = self.a_in.shape[0] - 1
        out = _log_softmax(self.a_out[predicates] @ self.b_out[predicates].mT, present[:, None])
        start = _log_softmax(self.b_out[predicates] @ self.a_out[start_row], present)
        inside_start = _log_softmax(self.b_in[predicates] @ self.a_in[start_row], present)
        logits = full_precision(self.a_in[predicates] @ self.b_in[predicates].mT)
        logits = logits.masked_fill(~present[:, None], IMPOSSIBLE)
        diagonal = torch.eye(predicates.shape[1], dtype=torch.bool, device=predicates.device)
        logits = logits.masked_fill(diagonal, IMPOSSIBLE)
        if self.variant == "paper":
            within = self._within_paper(inside_start, logits, lattice, present)
            return TransitionScores(torch.zeros_like(start), out, inside_start, logits, within)
        stop = self.stop[predicates] + self.stop_by_size[n_triples.clamp(max=_STOP_SIZES - 1)][:, None]  # (B, J, L-1)
        within = self._within_normalised(logits, stop, lattice, present)
        return TransitionScores(start, out, inside_start, logits, within)

    def _within_normalised(self, logits: Tensor, stop: Tensor, lattice: Lattice, present: Tensor) -> Tensor:
        """log p(rest of the state and its length | its first predicate), (B, S)."""
        n_triples = present.sum(1)
        size, last = lattice.size, lattice.last
        allowed = present[:, None] & ~lattice.members[None]  # (B, S, J) predicates that may follow
        log_normaliser = torch.logsumexp(logits[:, last].masked_fill(~allowed, IMPOSSIBLE), -1)  # (B, S)
        stop_logit = stop[:, last, (size - 1).clamp(max=stop.shape[-1] - 1)]  # (B, S)
        may_continue = size < torch.clamp(n_triples, max=lattice.max_group_size)[:, None]
        log_stop = torch.where(may_continue, nn.functional.logsigmoid(stop_logit), 0.0)
        log_continue = nn.functional.logsigmoid(-stop_logit) - log_normaliser
        log_rest = torch.zeros_like(log_stop)  # log-probability of the predicates after the first, without the stop
        for k in range(2, min(lattice.max_group_size, lattice.n_predicates) + 1):
            prefix = lattice.prefix.clamp(min=0)
            step = log_rest[:, prefix] + log_continue[:, prefix] + logits[:, last[prefix], last]
            log_rest = torch.where(size == k, step, log_rest)
        return torch.where(_in_record(lattice, present), log_rest + log_stop, IMPOSSIBLE)

    def _within_paper(self, inside_start: Tensor, logits: Tensor, lattice: Lattice, present: Tensor) -> Tensor:
        """log p(z) of variant `paper`, (B, S)."""
        p_in = _log_softmax(logits, present[:, None])
        total = inside_start[:, lattice.first]
        for k in range(2, min(lattice.max_group_size, lattice.n_predicates) + 1):
            prefix = lattice.prefix.clamp(min=0)
            step = total[:, prefix] + p_in[:, lattice.last[prefix], lattice.last]
            total = torch.where(lattice.size == k, step, total)
        return torch.where(_in_record(lattice, present), total, IMPOSSIBLE)

    @property
    def inner_exponent(self) -> int:
        """The exponent of `within` for a state that is not the last; that of the last is 1."""
        return 2 if self.variant == "paper" else 1

    def within_exponents(self, lengths: Tensor, n_facts: int) -> Tensor:
        """The exponents (B, T) of `within` for the states of texts with `lengths` (B,) facts."""
        facts = torch.arange(n_facts, device=lengths.device)
        ones = torch.ones(len(lengths), n_facts, device=lengths.device, dtype=self.a_in.dtype)
        return ones + (self.inner_exponent - 1) * (facts < lengths[:, None] - 1)


def full_precision(x: Tensor) -> Tensor:
    """Converts half-precision scores to float32 for log-probabilities; float64 is unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _log_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    return torch.log_softmax(full_precision(logits).masked_fill(~mask, IMPOSSIBLE), -1)


def _in_record(lattice: Lattice, present: Tensor) -> Tensor:
    """(B, S): whether all predicates of the state belong to the record."""
    return ~(lattice.members[None] & ~present[:, None]).any(-1)
