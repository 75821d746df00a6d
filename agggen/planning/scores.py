"""Plans of predicate indices: the log-probabilities of a record's transitions, the score of a plan, human plans.

Plans consist of indices of ``record.predicates``: ``((2,), (0, 1))`` is the group of 2, then the group of 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from agggen.errors import PlanError
from agggen.model.lattice import IndexState, ordered_states
from agggen.records import Plan, Record

IndexPlan = tuple[IndexState, ...]  # a sequence of groups in which no predicate index occurs twice

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlanScores:
    """Log-probabilities over the J predicates of one record (float64; paper section 3.2)."""

    start: Floats  # (J,) log p_out(first predicate of the first group | start)
    out: Floats  # (J, J) log p_out(first predicate of the next group | last of this group); rows are the last predicate
    inside_start: Floats  # (J,) log p_in(first predicate | start), for `two_stage`
    inside: Floats  # (J, J) logits of p_in; rows are the previous predicate; `two_stage` normalises them
    # (2, S) log-weight of a group's other predicates and length given its first predicate, in the order of `states`;
    # the second row is for the last group of a plan
    within: Floats
    max_group_size: int  # L, the size of the largest group; at most J

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_group_size", min(self.max_group_size, self.n_predicates))

    @property
    def n_predicates(self) -> int:
        """J, the number of the record's predicates."""
        return len(self.start)

    @property
    def states(self) -> tuple[IndexState, ...]:
        """All S ordered groups of 1..L distinct predicates, in the order of `agggen.model.lattice`."""
        return ordered_states(self.n_predicates, self.max_group_size)

    def group_scores(self, states: NDArray[np.intp], last: NDArray[np.bool_]) -> Floats:
        """The log-weights of the groups at these positions; `last` (broadcastable) marks the last groups of plans."""
        return self.within[last.astype(np.intp), states]

    def adjusted(self, level: int | None = None, reward: float = 0.0) -> PlanScores:
        """The scores of plans with groups of at most `level` predicates [default: L], with `reward` added per group."""
        level = level or self.max_group_size
        is_allowed = [len(group) <= level for group in self.states]
        return replace(self, within=self.within[:, is_allowed] + reward, max_group_size=min(level, self.max_group_size))


@dataclass(frozen=True, slots=True)
class ScoredPlan:
    """A plan in predicate indices with its log-score (natural logarithm)."""

    states: IndexPlan
    score: float  # the ranking criterion; not always normalised over plans
    # log p(z | x) of a `PlanDistribution`; None for plans outside it, or if it is intractable
    log_probability: float | None = None


@lru_cache(maxsize=128)
def _positions(n_predicates: int, max_group_size: int) -> dict[IndexState, int]:
    return {state: position for position, state in enumerate(ordered_states(n_predicates, max_group_size))}


def lexicographic(states: Sequence[IndexState]) -> list[int]:
    """The positions of the states in lexicographic order, which makes searches deterministic under ties."""
    return sorted(range(len(states)), key=states.__getitem__)


def restricted(plan: IndexPlan, indices: Sequence[int]) -> IndexPlan:
    """`plan` without predicates outside `indices`, renumbered by their positions in `indices`."""
    position = {index: number for number, index in enumerate(indices)}
    groups = (tuple(position[index] for index in group if index in position) for group in plan)
    return tuple(group for group in groups if group)


def plan_score(scores: PlanScores, plan: IndexPlan) -> float | None:
    """The log-score of a plan of all predicates: start[z_1] + sum of within[z_t] + sum of out[last of z_t-1, first of
    z_t]. Subtract `exact.log_partition` for log p(z | x). None if a group (of a human plan) is larger than the model's
    L, since it has no probability under the model.
    """
    positions = _positions(scores.n_predicates, scores.max_group_size)
    if any(group not in positions for group in plan):
        return None
    boundaries = [scores.out[previous[-1], group[0]] for previous, group in pairwise(plan)]
    transitions = np.array([scores.start[plan[0][0]], *boundaries])
    ends = np.arange(1, len(plan) + 1) == len(plan)
    weights = scores.group_scores(np.array([positions[group] for group in plan]), ends)
    return sum(map(float, transitions + weights))


def resolve_plan(record: Record, plan: Plan, partial: bool = False) -> IndexPlan:
    """A human plan (paper section 3.5) as indices of `record.predicates`; groups may be larger than the model's L.

    Raises PlanError if a predicate is unknown (the message names similar ones) or, unless `partial`, omitted.
    """
    label = f"plan for record {record.id!r}"
    index_of = {name: index for index, name in enumerate(record.predicates)}
    for name in plan.predicates:
        if name not in index_of:
            by_lower_case = {predicate.lower(): predicate for predicate in record.predicates}
            similar = [by_lower_case[match] for match in get_close_matches(name.lower(), by_lower_case)]
            advice = f"did you mean {' or '.join(similar)}?" if similar else f"it has {', '.join(record.predicates)}"
            raise PlanError(f"{label}: the record has no predicate {name!r}; {advice}")
    omitted = [name for name in record.predicates if name not in plan.predicates]
    if omitted and not partial:
        raise PlanError(f"{label} omits {', '.join(omitted)}; add them, or let the model complete the plan")
    return tuple(tuple(index_of[name] for name in group) for group in plan.states)


def named_plan(record: Record, plan: IndexPlan) -> Plan:
    """A plan with the record's predicate names; inverse of `resolve_plan`."""
    return Plan(tuple(tuple(record.predicates[index] for index in group) for group in plan))
