"""Requests to the generator: a record, the plans to write out, and the best texts so far."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from agggen.generation.config import BeamConfig, InferenceConfig
from agggen.generation.results import Generation, PlanSearch
from agggen.generation.truth import RecordConstraints
from agggen.model.batch import Example
from agggen.planning import IndexPlan, ScoredPlan
from agggen.records import Record


@dataclass
class Request:
    """A record to write about."""

    record: Record
    known: Record  # its triples whose predicates training saw
    indices: tuple[int, ...]  # of these triples in the record; empty: all of it
    source: Example
    extras: list[str]
    constraints: RecordConstraints | None
    plans: list[ScoredPlan]  # by falling score
    search: PlanSearch
    config: InferenceConfig
    count: int  # number of texts
    best: list[Generation]  # so far, best first

    def needs(self, plan: ScoredPlan, best: Sequence[Generation] | None = None) -> float:
        """The lowest score of its own with which a text of this plan can be among the `count` best."""
        best = self.best if best is None else best
        least = best[self.count - 1].score if self.count <= len(best) else -math.inf
        return least - self.config.plan_weight * plan.score

    def groups(self, plan: IndexPlan) -> IndexPlan:
        """The groups of a plan as the model writes them: known triples, by their places among these."""
        if not self.indices:
            return plan
        place = {index: number for number, index in enumerate(self.indices)}
        kept = (tuple(place[index] for index in group if index in place) for group in plan)
        return tuple(group for group in kept if group)


def before_clauses(plan: IndexPlan, indices: Collection[int]) -> frozenset[int]:
    """After how many of the model's facts a clause of an unknown predicate follows."""
    places, facts = set(), 0
    for group in plan:
        facts += any(index in indices for index in group)
        if not all(index in indices for index in group):
            places.add(facts)
    return frozenset(places)


def by_work(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Batches of requests with the same search settings and similar length, of about `rows` hypotheses a plan each."""
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
