"""The HMM's dynamic programs as pure functions of log-potentials (paper section 3.3).

One backward recursion computes the likelihood, the best path and the k best paths in different semirings. Posteriors
and paths are gradients of the result with respect to the node potentials.

p_out depends only on the last predicate of one state and the first of the next. The backward variable is therefore a
function of the last predicate of z_{t-1}, and a step costs O(S + J^2) instead of O(S^2):

    m_t(o)      = sum over states s that begin with o of  node_t(s) * beta_t(last(s))
    beta_t-1(p) = sum over o of  out(p, o) * m_t(o)

See `agggen.model` for the shape legend. No function loops over states or examples, only over facts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from agggen.model.lattice import IMPOSSIBLE, Lattice


class Potentials(NamedTuple):
    """Log-potentials of a ragged batch; impossible entries are `lattice.IMPOSSIBLE`."""

    start: Tensor  # (B, J) log p_out(first predicate | start)
    out: Tensor  # (B, J, J) log p_out(first of z_t | last of z_t-1); rows are the last predicates
    node: Tensor  # (B, T, S) log p(rest of the state, its length | its first) + log p(y_t | state)
    lengths: Tensor  # (B,) number of facts, 1..T


Sum = Callable[[Tensor, int], Tensor]
"""The semiring's sum over a dimension of messages (..., width); width is 1, or k for the k best values."""


def _k_max(messages: Tensor, dim: int, k: int) -> Tensor:
    """The k best values in descending order, with repetitions; k = 1 is Viterbi."""
    return messages.movedim(dim, -2).flatten(-2).topk(k, dim=-1).values


def backward(potentials: Potentials, lattice: Lattice, semiring_sum: Sum, width: int = 1) -> Tensor:
    """The backward recursion over all facts; returns the total potentials (B, width) of complete paths."""
    start, out, node, lengths = potentials
    batch, n_facts, _ = node.shape
    final = node.new_full((batch, 1, width), IMPOSSIBLE)
    final[..., 0] = 0.0
    beta = final.expand(batch, lattice.n_predicates, width)

    def message(t: int, beta: Tensor) -> Tensor:  # m_t: (B, J, width)
        by_state = node[:, t, :, None] + beta[:, lattice.last]
        return semiring_sum(by_state.unflatten(1, (lattice.n_predicates, lattice.per_first)), 2)

    for t in range(n_facts - 1, 0, -1):
        previous_beta = semiring_sum(out[..., None] + message(t, beta)[:, None], 2)
        beta = torch.where((t < lengths)[:, None, None], previous_beta, beta)
    return semiring_sum(start[..., None] + message(0, beta), 1)


def log_likelihood(potentials: Potentials, lattice: Lattice) -> Tensor:
    """log p(y | x), (B,): the sum over all state sequences (paper section 3.3, `beta_0`)."""
    return backward(potentials, lattice, torch.logsumexp).squeeze(-1)


def _differentiable(potentials: Potentials) -> Potentials:
    """Copies whose node potentials require gradients; inference tensors cannot require gradients."""
    copies = Potentials(*(tensor.detach().clone() for tensor in potentials))
    copies.node.requires_grad_()
    return copies


def posterior(potentials: Potentials, lattice: Lattice) -> Tensor:
    """p(z_t = s | y, x), (B, T, S); zeros for facts beyond a text's length."""
    with torch.inference_mode(False), torch.enable_grad():
        copies = _differentiable(potentials)
        (marginals,) = torch.autograd.grad(log_likelihood(copies, lattice).sum(), copies.node)
    return marginals


def k_best_paths(potentials: Potentials, lattice: Lattice, k: int) -> tuple[Tensor, Tensor]:
    """The k best state sequences of each text: log-potentials (B, k) in descending order and states (B, k, T).

    States are -1 beyond a text's length. A text with fewer than k paths is padded with paths of states -1 and
    log-potentials of at most `IMPOSSIBLE` / 2. A path consists of the states at which the gradient of its value is 1.
    """
    with torch.inference_mode(False), torch.enable_grad():
        copies = _differentiable(potentials)
        totals = backward(copies, lattice, partial(_k_max, k=k), k)
        paths = [
            torch.autograd.grad(totals[:, rank].sum(), copies.node, retain_graph=rank + 1 < k)[0] for rank in range(k)
        ]
    posteriors = torch.stack(paths, 1)  # (B, k, T, S)
    states = torch.where(posteriors.sum(-1) > 0.5, posteriors.argmax(-1), -1)
    path_exists = totals > IMPOSSIBLE / 2
    return totals.detach(), torch.where(path_exists[..., None], states, -1)


def viterbi(potentials: Potentials, lattice: Lattice) -> tuple[Tensor, Tensor]:
    """The best state sequence: log-potential (B,) and states (B, T), -1 beyond a text's length."""
    totals, states = k_best_paths(potentials, lattice, 1)
    return totals[:, 0], states[:, 0]
