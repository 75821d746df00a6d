"""The states of a record: all ordered tuples of 1..L of its predicates, and the distinct sets of these tuples.

Records with fewer predicates mask the other states. States are sorted by first predicate, and each predicate begins the
same number of states, so a reduction by first predicate needs only a reshape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import torch
from torch import Tensor

IMPOSSIBLE = -1e9  # log-potential of impossible states, finite so that recursions and gradients never compute inf - inf

IndexState = tuple[int, ...]  # an ordered group of distinct predicate indices


@lru_cache(maxsize=128)
def ordered_states(n_predicates: int, max_group_size: int) -> tuple[IndexState, ...]:
    """All ordered groups of 1..`max_group_size` distinct predicates: by first predicate, then size, then order."""
    sizes = range(1, min(max_group_size, n_predicates) + 1)
    groups = (group for size in sizes for group in permutations(range(n_predicates), size))
    return tuple(sorted(groups, key=lambda group: (group[0], len(group), group)))


@dataclass(frozen=True)
class Lattice:
    """States and sets over J predicates. Index tensors are int64."""

    n_predicates: int
    max_group_size: int
    states: tuple[IndexState, ...]  # S tuples, sorted by first predicate
    first: Tensor  # (S,) first predicate
    last: Tensor  # (S,) last predicate
    size: Tensor  # (S,) number of predicates
    prefix: Tensor  # (S,) index of the state without its last predicate; -1 for singletons
    members: Tensor  # (S, J) bool
    set_of: Tensor  # (S,) index of the state's set
    set_bits: Tensor  # (C,) each set as a bit mask
    set_members: Tensor  # (C, J) bool
    set_size: Tensor  # (C,)

    @property
    def per_first(self) -> int:
        """Number of states that begin with a given predicate."""
        return len(self.states) // self.n_predicates


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the cached tensors are also used in training, where autograd rejects inference tensors
def build_lattice(n_predicates: int, max_group_size: int, device: str = "cpu") -> Lattice:
    """The cached lattice of `n_predicates` predicates with states of at most `max_group_size` (the paper's L)."""
    states = ordered_states(n_predicates, max_group_size)
    state_index = {state: i for i, state in enumerate(states)}
    sets = sorted({frozenset(state) for state in states}, key=lambda members: (len(members), sorted(members)))
    set_index = {members: i for i, members in enumerate(sets)}

    def integers(values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=device)

    def membership(groups: Sequence[tuple[int, ...]]) -> Tensor:
        matrix = torch.zeros(len(groups), n_predicates, dtype=torch.bool)
        for row, group in enumerate(groups):
            matrix[row, list(group)] = True
        return matrix.to(device)

    return Lattice(
        n_predicates,
        max_group_size,
        states,
        first=integers([state[0] for state in states]),
        last=integers([state[-1] for state in states]),
        size=integers([len(state) for state in states]),
        prefix=integers([state_index.get(state[:-1], -1) for state in states]),
        members=membership(states),
        set_of=integers([set_index[frozenset(state)] for state in states]),
        set_bits=integers([sum(1 << o for o in members) for members in sets]),
        set_members=membership([tuple(members) for members in sets]),
        set_size=integers([len(members) for members in sets]),
    )
