"""Requests to the generator: a record, its plans, and the best texts so far."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from agggen.generation.config import BeamConfig, InferenceConfig
from agggen.generation.hypotheses import Hypothesis
from agggen.generation.results import Generation, PlanSearch
from agggen.generation.search import Expectation
from agggen.generation.truth import RecordConstraints
from agggen.model.batch import Example
from agggen.planning import IndexPlan, ScoredPlan, restricted
from agggen.records import Record

_MAX_LENGTH_RATIO = 1.25
"""Pruning assumes that further texts of a record are at most this many times as long as its first text."""
_LOG_P_RATIO = 0.5
"""Pruning assumes that the log-probability per triple of further texts is at most this multiple of the first's."""


@dataclass
class Request:
    """A record for which texts are generated, with its plans and its best texts so far."""

    record: Record
    known: Record  # the triples whose predicates are known from training
    indices: tuple[int, ...]  # of the known triples in the record; empty if all are known
    source: Example  # `known`, linearised
    extras: list[str]  # out-of-vocabulary words of `known`
    constraints: RecordConstraints | None  # None: the text is not constrained
    plans: list[ScoredPlan]  # by descending score
    search: PlanSearch
    config: InferenceConfig
    count: int  # number of texts to return
    best: list[Generation]  # so far, best first
    first: Hypothesis | None = None  # the best text of the first plan that was decoded

    def required_score(self, plan: ScoredPlan, best: Sequence[Generation] | None = None) -> float:
        """The lowest score, excluding the plan's score, with which a text of `plan` is among the `count` best texts."""
        if self.config.choice == "consensus":
            return -math.inf
        best = self.best if best is None else best
        threshold = best[self.count - 1].score if self.count <= len(best) else -math.inf
        return threshold - self.config.plan_weight * plan.score

    def expected(self, plan: ScoredPlan) -> Expectation | None:
        """Bounds on a useful text of `plan`, extrapolated from `first`; None without `first` or a required score."""
        if self.first is None or self.required_score(plan) == -math.inf:
            return None
        per_triple = _LOG_P_RATIO * self.first.log_probability / len(self.known.triples)
        return Expectation(self.required_score(plan), _MAX_LENGTH_RATIO * self.first.length, per_triple)

    def groups(self, plan: IndexPlan) -> IndexPlan:
        """The groups of `plan` as indices of `known`, without unknown triples."""
        return restricted(plan, self.indices) if self.indices else plan


def before_clauses(plan: IndexPlan, indices: Collection[int]) -> frozenset[int]:
    """The numbers (from 1) of generated facts that precede a clause; `indices`: the triples of known predicates."""
    positions, facts = set(), 0
    for group in plan:
        facts += any(index in indices for index in group)
        if not all(index in indices for index in group):
            positions.add(facts)
    return frozenset(positions)


def batches_of(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Batches of requests with the same search settings and similar lengths, whose first plans fit in `rows`."""
    by_beam: dict[tuple[BeamConfig, str], list[Request]] = {}
    for request in requests:
        by_beam.setdefault((request.config.beam, request.config.verify), []).append(request)
    for (beam, _), members in by_beam.items():
        batch: list[Request] = []
        limit = 0
        for request in sorted(members, key=lambda item: (len(item.source.predicates), len(item.source.source))):
            limit = min(limit or request.config.rows, request.config.rows)
            if batch and (len(batch) + 1) * beam.beam > limit:
                yield batch
                batch, limit = [], request.config.rows
            batch.append(request)
        if batch:
            yield batch
