"""p(z | x), the distribution over the plans of a record.

Plans consist of indices of the record's predicates. Predicates that are not in the training records (unknown) are not
part of the distribution; their groups precede or follow the plan of the known predicates.
"""

from collections.abc import Callable, Iterable
from functools import cached_property

from agggen.planning import bounded, exact
from agggen.planning.scores import IndexPlan, PlanScores, ScoredPlan, plan_score, restricted


class PlanDistribution:
    """The plans of a record with groups of at most `level` predicates [default: L], under a model's transitions.

    `scores` are those of the known predicates (None: all are unknown), `first` and `last` the groups of the unknown
    predicates before and after them; `reward` is added to a plan's log-score per group, before normalisation.
    """

    def __init__(
        self,
        n_predicates: int,
        scores: PlanScores | None,
        first: IndexPlan = (),
        last: IndexPlan = (),
        level: int | None = None,
        reward: float = 0.0,
    ) -> None:
        self.first, self.last = first, last
        unknown_predicates = {index for group in (*first, *last) for index in group}
        self.known_predicates = tuple(sorted({*range(n_predicates)} - unknown_predicates))
        self.scores = None if scores is None else scores.adjusted(level, reward)
        self.largest_group = level or n_predicates

    @cached_property
    def log_partition(self) -> float | None:
        """`exact.log_partition`; None if it is intractable, or no predicate is known."""
        return None if self.scores is None else exact.log_partition(self.scores)

    def scored(self, plan: IndexPlan) -> ScoredPlan:
        """A plan of all predicates, scored by its log-probability or, if this is intractable, its unnormalised score;
        by 0 if it is outside the distribution (a group is larger than the level).
        """
        score = None if self.scores is None else plan_score(self.scores, restricted(plan, self.known_predicates))
        if score is None or max(map(len, plan)) > self.largest_group:
            return ScoredPlan(plan, 0.0)
        if self.log_partition is None:
            return ScoredPlan(plan, score)
        probability = min(score - self.log_partition, 0.0)
        return ScoredPlan(plan, probability, probability)

    def search(self, algorithm: Callable[[PlanScores], Iterable[ScoredPlan]]) -> list[ScoredPlan]:
        """The plans that `algorithm` finds for the known predicates, with the groups of the unknown ones."""
        if self.scores is None:
            return [ScoredPlan((*self.first, *self.last), 0.0)]
        plans = (self._to_record(plan.states) for plan in algorithm(self.scores))
        return [self.scored((*self.first, *plan, *self.last)) for plan in plans]

    def k_best(self, k: int) -> tuple[list[ScoredPlan], bool]:
        """The k most probable plans, best first, and whether they are exact (`bounded.search`)."""
        plans, is_exact = ([], True) if self.scores is None else bounded.search(self.scores, k)
        return self.search(lambda _: plans), is_exact

    def complete(self, prefix: IndexPlan) -> IndexPlan:
        """`prefix`, whose groups may have any size, with its most probable continuation."""
        used = {index for group in prefix for index in group}
        known_prefix = restricted(prefix, self.known_predicates)
        continuation: IndexPlan = ()
        if self.scores is not None and not used.issuperset(self.known_predicates):
            (best, *_), _ = bounded.search(self.scores, 1, known_prefix)
            continuation = self._to_record(best.states[len(known_prefix) :])
        completed = (*self.first, *continuation, *self.last)
        unused = (tuple(index for index in group if index not in used) for group in completed)
        return (*prefix, *(group for group in unused if group))

    def _to_record(self, plan: IndexPlan) -> IndexPlan:
        """A plan of the known predicates, renumbered from indices of `known_predicates` to the record's."""
        return tuple(tuple(self.known_predicates[index] for index in group) for group in plan)
