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
from agggen.planning import IndexPlan, ScoredPlan
from agggen.records import Record

_LONGER = 1.25
"""In pruning, a record's further texts are taken to be at most this many times as long as its first."""
_LIKELIER = 0.5
"""The log-probability of their triples is taken to be at most this share of the first text's mean per triple."""


@dataclass
class Request:
    """A record for which texts are generated."""

    record: Record
    known: Record  # the triples whose predicates are known from training
    indices: tuple[int, ...]  # of the known triples in the record; empty if all are known
    source: Example
    extras: list[str]
    constraints: RecordConstraints | None
    plans: list[ScoredPlan]  # by descending score
    search: PlanSearch
    config: InferenceConfig
    count: int  # number of texts
    best: list[Generation]  # so far, best first
    first: Hypothesis | None = None  # the text of the first plan

    def needs(self, plan: ScoredPlan, best: Sequence[Generation] | None = None) -> float:
        """The lowest score of the text alone with which a text of this plan can be among the `count` best."""
        if self.config.choice == "consensus":
            return -math.inf
        best = self.best if best is None else best
        threshold = best[self.count - 1].score if self.count <= len(best) else -math.inf
        return threshold - self.config.plan_weight * plan.score

    def expected(self, plan: ScoredPlan) -> Expectation | None:
        """Bounds on a useful text of a further plan, extrapolated from the text of the first plan."""
        if self.first is None or self.needs(plan) == -math.inf:
            return None
        per_triple = _LIKELIER * self.first.log_probability / len(self.known.triples)
        return Expectation(self.needs(plan), _LONGER * self.first.length, per_triple)

    def groups(self, plan: IndexPlan) -> IndexPlan:
        """The groups of a plan without unknown triples, in indices of `known`."""
        if not self.indices:
            return plan
        known_index = {index: number for number, index in enumerate(self.indices)}
        known_groups = (tuple(known_index[index] for index in group if index in known_index) for group in plan)
        return tuple(group for group in known_groups if group)


def before_clauses(plan: IndexPlan, indices: Collection[int]) -> frozenset[int]:
    """The numbers of generated facts after which a clause of an unknown predicate follows."""
    places, facts = set(), 0
    for group in plan:
        facts += any(index in indices for index in group)
        if not all(index in indices for index in group):
            places.add(facts)
    return frozenset(places)


def by_work(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Batches of requests with the same search settings and similar length, with at most `rows` hypotheses."""
    by_beam: dict[tuple[BeamConfig, str], list[Request]] = {}
    for request in requests:
        by_beam.setdefault((request.config.beam, request.config.verify), []).append(request)
    for (beam, _), alike in by_beam.items():
        chunk: list[Request] = []
        limit = 0
        for request in sorted(alike, key=lambda request: (len(request.source.predicates), len(request.source.source))):
            limit = min(limit or request.config.rows, request.config.rows)
            if chunk and (len(chunk) + 1) * beam.beam > limit:
                yield chunk
                chunk, limit = [], request.config.rows
            chunk.append(request)
        if chunk:
            yield chunk
