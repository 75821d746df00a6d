"""What planning sees of a record: the log-probabilities of its transitions, and the score they give to a plan.

A plan is written in predicate indices here: ``((2,), (0, 1))`` says predicate 2 alone, then 0 and 1 in one fact. The
index of a predicate is its place in ``record.predicates``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from agggen.errors import PlanError

IndexState = tuple[int, ...]
"""An ordered group of distinct predicate indices."""

IndexPlan = tuple[IndexState, ...]
"""A sequence of groups in which no predicate index occurs twice."""

Floats = NDArray[np.float64]


@lru_cache(maxsize=128)
def ordered_states(n_predicates: int, max_size: int) -> tuple[IndexState, ...]:
    """All ordered groups of 1..`max_size` distinct predicates: by size, then lexicographic."""
    return tuple(
        state for size in range(1, min(max_size, n_predicates) + 1) for state in permutations(range(n_predicates), size)
    )


@lru_cache(maxsize=128)
def _index_states(n_predicates: int, states: tuple[IndexState, ...]) -> tuple[dict[IndexState, int], int]:
    """Where each state stands in `states`, and the greatest size; checks that all states up to it are there once."""
    largest = max((len(state) for state in states), default=0)
    positions = {state: position for position, state in enumerate(states)}
    if not largest or len(positions) != len(states) or positions.keys() != set(ordered_states(n_predicates, largest)):
        raise ValueError(f"states must hold every ordered group of 1..L of the {n_predicates} predicates exactly once")
    return positions, largest


@dataclass(frozen=True, eq=False)
class PlanScores:
    """Log-probabilities over the J predicates of one record (float64; METHOD section 2, paper section 3.2).

    All values are finite, apart from the diagonals of `out` and `inside`, which no plan uses.

    Raises:
        ValueError: an array of another shape, a value that is not finite, or states that are not all groups up to L.
    """

    start: Floats
    """(J,) log p_out(first predicate of the first state | start)."""
    out: Floats
    """(J, J) log p_out(first predicate of the next state | last of this); rows are the last predicate."""
    inside_start: Floats
    """(J,) log p_in(first predicate | start); the two-stage ordering begins with it."""
    inside: Floats
    """(J, J) logits of p_in, rows are the previous predicate; the ordering normalises them over unused predicates."""
    states: tuple[IndexState, ...]
    """All S ordered groups of 1..L distinct predicates, in any order. Pass the cached tuple of
    `ordered_states` where you can: the search keeps its tables by it, and looks up the same object fastest."""
    within: Floats
    """(S,) log-probability of a state given its first predicate: its other predicates and its length."""
    positions: dict[IndexState, int] = field(init=False, repr=False)
    """The index of each state in `states` and `within`."""
    max_size: int = field(init=False)
    """The size of the largest group that has a score: the smaller of L and J."""

    def __post_init__(self) -> None:
        n = len(self.start)
        if n == 0:
            raise ValueError("plan scores need at least one predicate")
        shapes = {"start": (n,), "out": (n, n), "inside_start": (n,), "inside": (n, n), "within": (len(self.states),)}
        for name, shape in shapes.items():
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; for {n} predicates it must be {shape}")
            finite = np.isfinite(array)
            if name in ("out", "inside"):
                finite = finite | np.eye(n, dtype=bool)
            if not finite.all():
                raise ValueError(f"{name} holds a value that is not finite at index {tuple(np.argwhere(~finite)[0])}")
            object.__setattr__(self, name, array)
        positions, max_size = _index_states(n, self.states)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "max_size", max_size)

    @property
    def n_predicates(self) -> int:
        """J, the number of the record's predicates."""
        return len(self.start)


def rewarded(scores: PlanScores, reward: float) -> PlanScores:
    """The scores under which a plan of T groups is exp(`reward` * T) times as probable, before normalisation.

    The likeliest single plan has fewer groups than plans have on average, where many orders are about as likely: each
    further group shares its probability out over them. A reward makes up for that.
    """
    return replace(scores, within=scores.within + reward) if reward else scores


@dataclass(frozen=True, slots=True)
class ScoredPlan:
    """A plan in predicate indices, with the log-probability under which its search ranked it (natural logarithm)."""

    states: IndexPlan
    log_probability: float


def group_limit(scores: PlanScores, max_size: int | None) -> int:
    """The greatest group size a search may use: `max_size` (an aggregation level), or all that `scores` allow.

    Raises:
        PlanError: `max_size` is below 1, or above the L of scores that do not hold groups of all J predicates.
    """
    largest = scores.max_size
    if max_size is None:
        return largest
    if max_size < 1:
        raise PlanError(f"aggregation level {max_size} is not possible; 1 is the lowest (every predicate alone)")
    if max_size > largest and largest < scores.n_predicates:
        raise PlanError(f"aggregation level {max_size} exceeds this model's largest group of {largest} predicates")
    return min(max_size, largest)


def check_indices(n_predicates: int, plan: IndexPlan, complete: bool = True) -> None:
    """Passes if `plan` uses each of the indices 0..J-1 exactly once (at most once where not `complete`).

    Raises:
        PlanError: names the empty group, or the index that is unknown, repeated or omitted.
    """
    used: set[int] = set()
    for number, state in enumerate(plan, start=1):
        if not state:
            raise PlanError(f"group {number} of the plan is empty")
        for index in state:
            if not 0 <= index < n_predicates:
                raise PlanError(f"the plan names predicate {index}; the record has 0 to {n_predicates - 1}")
            if index in used:
                raise PlanError(f"the plan names predicate {index} twice; every predicate belongs to one group")
            used.add(index)
    if complete and len(used) < n_predicates:
        omitted = ", ".join(str(index) for index in range(n_predicates) if index not in used)
        raise PlanError(f"the plan omits predicate {omitted}")


def _steps(scores: PlanScores, plan: IndexPlan) -> Iterator[float]:
    yield float(scores.start[plan[0][0]] + scores.within[scores.positions[plan[0]]])
    for before, state in pairwise(plan):
        yield float(scores.out[before[-1], state[0]] + scores.within[scores.positions[state]])


def plan_score(scores: PlanScores, plan: IndexPlan) -> float | None:
    """log p of `plan`: start[z_1] + sum of within[z_t] + sum of out[last of z_t-1, first of z_t].

    This is not yet normalised over plans (a chain could also repeat or omit predicates): subtract
    `exact.log_partition` for log p(z | x). None if a group is larger than the model's L, since such a group, which
    only a human plan can hold, has no probability under the model.

    Raises:
        PlanError: the plan does not use every predicate exactly once.
    """
    check_indices(scores.n_predicates, plan)
    if any(state not in scores.positions for state in plan):
        return None
    return sum(_steps(scores, plan))
