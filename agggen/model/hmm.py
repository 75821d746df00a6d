"""The HMM's dynamic programs as pure functions of log-potentials (paper section 3.3).

p_out depends only on the last predicate of one state and the first of the next. The backward variable is therefore a
function of the last predicate of z_{t-1}, and a step costs O(S + J^2) instead of O(S^2):

    m_t(o)      = sum over states s that begin with o of  node_t(s) * beta_t(last(s))
    beta_t-1(p) = sum over o of  out(p, o) * m_t(o)

See `agggen.model` for the shape legend.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from agggen.model.lattice import Lattice


class Potentials(NamedTuple):
    """Log-potentials of a ragged batch; impossible entries are `lattice.IMPOSSIBLE`."""

    start: Tensor  # (B, J) log p_out(first predicate | start)
    out: Tensor  # (B, J, J) log p_out(first of z_t | last of z_t-1); rows are the last predicates
    node: Tensor  # (B, T, S) log p(rest of the state, its length | its first) + log p(y_t | state)
    lengths: Tensor  # (B,) number of facts, 1..T


def backward(potentials: Potentials, lattice: Lattice, semiring_sum: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The backward recursion over all facts; returns the total potentials (B,) of all paths.

    `semiring_sum` sums over a dimension: log-sum-exp for the likelihood, maximum for the best path.
    """
    start, out, node, lengths = potentials
    beta = node.new_zeros(len(node), lattice.n_predicates)

    def message(t: int, beta: Tensor) -> Tensor:  # m_t: (B, J)
        by_state = node[:, t] + beta[:, lattice.last]
        return semiring_sum(by_state.unflatten(1, (lattice.n_predicates, lattice.per_first)), 2)

    for t in range(node.shape[1] - 1, 0, -1):
        previous_beta = semiring_sum(out + message(t, beta)[:, None], 2)
        beta = torch.where((t < lengths)[:, None], previous_beta, beta)
    return semiring_sum(start + message(0, beta), 1)


def log_likelihood(potentials: Potentials, lattice: Lattice) -> Tensor:
    """log p(y | x), (B,): the sum over all state sequences (paper section 3.3, `beta_0`)."""
    return backward(potentials, lattice, torch.logsumexp)


def _node_gradient(
    potentials: Potentials, lattice: Lattice, semiring_sum: Callable[[Tensor, int], Tensor]
) -> tuple[Tensor, Tensor]:
    """The total potentials (B,), and their gradient with respect to `node` (B, T, S)."""
    with torch.inference_mode(False), torch.enable_grad():
        copies = Potentials(*(tensor.detach().clone() for tensor in potentials))  # inference tensors have no gradients
        copies.node.requires_grad_()
        total = backward(copies, lattice, semiring_sum)
        (gradient,) = torch.autograd.grad(total.sum(), copies.node)
    return total.detach(), gradient


def posterior(potentials: Potentials, lattice: Lattice) -> Tensor:
    """p(z_t = s | y, x), (B, T, S): the gradient of the log-likelihood; zeros for facts beyond a text's length."""
    return _node_gradient(potentials, lattice, torch.logsumexp)[1]


def viterbi(potentials: Potentials, lattice: Lattice) -> tuple[Tensor, Tensor]:
    """The best state sequence: log-potential (B,) and states (B, T), whose gradient is 1; -1 beyond a text's length."""
    total, path = _node_gradient(potentials, lattice, lambda messages, dim: messages.max(dim).values)
    return total, torch.where(path.sum(-1) > 0.5, path.argmax(-1), -1)
