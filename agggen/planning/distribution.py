"""p(z | x), the distribution over the plans of a record.

Plans consist of indices of the record's predicates. Unknown predicates, which are not in the training records, are not
part of the distribution; their groups are appended to the plan of the known predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from agggen.planning import bounded, exact
from agggen.planning.scores import (
    IndexPlan,
    PlanScores,
    ScoredPlan,
    check_indices,
    group_limit,
    plan_score,
    restricted,
    rewarded,
)
from agggen.planning.two_stage import no_aggregation, random_order, two_stage


class PlanDistribution:
    """The plans of a record with groups of at most `level` predicates, under a model's transitions."""

    def __init__(
        self,
        n_predicates: int,
        scores: PlanScores | None,
        unknown: IndexPlan = (),
        level: int | None = None,
        reward: float = 0.0,
    ) -> None:
        """
        Args:
            n_predicates: the number of the record's predicates.
            scores: of the transitions between known predicates; None if all are unknown.
            unknown: the groups of the unknown predicates.
            level: the aggregation level, the size of a plan's largest group. [default: the model's L]
            reward: added to a plan's log-score per group, before normalisation.

        Raises:
            PlanError: `level` is below 1 or above the model's L.
        """
        self.n_predicates = n_predicates
        self.unknown = unknown
        self.known = tuple(sorted({*range(n_predicates)} - {index for group in unknown for index in group}))
        self.scores = None if scores is None else rewarded(scores, reward)
        self.level = level
        if scores is not None:
            group_limit(scores, level)

    @cached_property
    def log_partition(self) -> float | None:
        """`exact.log_partition`; None if there are too many plans to sum over, or no known predicates."""
        return None if self.scores is None else exact.log_partition(self.scores, self.level)

    def scored(self, plan: IndexPlan) -> ScoredPlan:
        """The plan with its log-probability; if this is unknown, with its log-score.

        The log-probability is also the score. A plan outside the distribution (with a group larger than the level) has
        the score 0.

        Raises:
            PlanError: the plan does not have each predicate exactly once.
        """
        check_indices(self.n_predicates, plan)
        score = None if self.scores is None else plan_score(self.scores, restricted(plan, self.known))
        if score is None or max(map(len, plan)) > (self.level or self.n_predicates):
            return ScoredPlan(plan, 0.0)
        if self.log_partition is None:
            return ScoredPlan(plan, score)
        probability = min(score - self.log_partition, 0.0)
        return ScoredPlan(plan, probability, probability)

    def k_best(self, k: int) -> tuple[list[ScoredPlan], bool]:
        """The k most probable plans, best first, and whether their optimality is proven (`bounded.search`)."""
        plans, proven = ([], True) if self.scores is None else bounded.search(self.scores, k, self.level)
        return self._plans(lambda _: plans), proven

    def complete(self, prefix: IndexPlan) -> IndexPlan:
        """`prefix`, whose groups may have any size, with its most probable continuation.

        Raises:
            PlanError: the prefix has an unknown or repeated predicate.
        """
        check_indices(self.n_predicates, prefix, complete=False)
        used = {index for group in prefix for index in group}
        known_prefix = restricted(prefix, self.known)
        continuation: IndexPlan = ()
        if self.scores is not None and not used.issuperset(self.known):
            (best, *_), _ = bounded.search(self.scores, 1, self.level, known_prefix)
            continuation = self._to_record(best.states[len(known_prefix) :])
        unused = (tuple(index for index in group if index not in used) for group in self.unknown)
        return (*prefix, *continuation, *(group for group in unused if group))

    def check_sampling(self) -> None:
        """Raises PlanError if plans cannot be sampled (`exact.check_sampling`)."""
        if self.scores is not None:
            exact.check_sampling(self.scores, self.level)

    def sample(self, count: int, rng: np.random.Generator, top_p: float = 1.0) -> list[ScoredPlan]:
        """`count` plans drawn independently, possibly with duplicates (`exact.sample`)."""
        return self._plans(lambda scores: exact.sample(scores, count, rng, self.level, top_p), count)

    def two_stage(self, beam: int, top: int) -> list[ScoredPlan]:
        """The paper's plans, in the paper's order: the `top` best aggregations of each of the `beam` best orders."""
        return self._plans(lambda scores: two_stage(scores, beam, top, self.level))

    def random_order(self, rng: np.random.Generator, top: int) -> list[ScoredPlan]:
        """The ablation -OD: the `top` best aggregations of a random order."""
        return self._plans(lambda scores: random_order(scores, rng, top, self.level))

    def no_aggregation(self, beam: int) -> list[ScoredPlan]:
        """The ablation -AG: every predicate alone, in the `beam` best orders."""
        return self._plans(lambda scores: no_aggregation(scores, beam))

    def _plans(self, search: Callable[[PlanScores], Iterable[ScoredPlan]], count: int = 1) -> list[ScoredPlan]:
        """The plans of a search over the known predicates, as scored plans of the record.

        If no predicate is known: `count` copies of the plan of the unknown predicates.
        """
        if self.scores is None:
            return [ScoredPlan(self.unknown, 0.0)] * count
        plans = [(*self._to_record(plan.states), *self.unknown) for plan in search(self.scores)]
        return [self.scored(plan) for plan in plans]

    def _to_record(self, plan: IndexPlan) -> IndexPlan:
        """A plan of the known predicates in indices of the record's predicates."""
        return tuple(tuple(self.known[index] for index in group) for group in plan)
