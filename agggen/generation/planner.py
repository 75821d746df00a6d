"""The planning half of inference (paper section 3.4): which plans of a record are worth writing out.

It needs the transitions, the predicate table and nothing else of a model, so it can run where no text is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

from agggen.encoding import Encoder
from agggen.errors import PlanError, RecordError
from agggen.generation.config import InferenceConfig
from agggen.generation.results import Candidates, PlannedRecord
from agggen.model.lattice import lattice
from agggen.model.transitions import Transitions
from agggen.planning import (
    IndexPlan,
    PlanScores,
    ScoredPlan,
    k_best,
    log_partition,
    named_plan,
    no_aggregation,
    ordered_states,
    plan_score,
    random_order,
    resolve_plan,
    rewarded,
    two_stage,
)
from agggen.records import Plan, Record

MAX_TRIPLES = 24
"""Records with more triples are refused: the corpora end at 7, and states grow with the cube of the triples."""

T = TypeVar("T")


class Planner:
    """Plans records with one model's transitions. Not thread-safe: one call at a time."""

    def __init__(self, transitions: Transitions, encoder: Encoder, config: InferenceConfig | None = None) -> None:
        self.transitions = transitions
        self.encoder = encoder
        self.config = config or InferenceConfig()

    def check(self, record: Record, plan: Plan | None = None, complete: bool = False) -> None:
        """Passes if the record can be written about, with this human plan where one is given.

        Raises:
            RecordError: the record has too many triples.
            PlanError: the plan does not fit the record.
        """
        check_size(record)
        if plan is not None:
            resolve_plan(record, plan, complete=complete, scores=self.scores([record])[0] if complete else None)

    def check_level(self, level: int) -> None:
        """Passes if groups of up to `level` predicates are within the model's L; 0 stands for L.

        Raises:
            PlanError: they are not.
        """
        limit = self.transitions.max_size
        if level > limit:
            raise PlanError(f"aggregation level {level} exceeds this model's largest group of {limit} predicates")

    @torch.no_grad()
    def scores(self, records: Sequence[Record]) -> list[PlanScores]:
        """The transition scores of each record, in its own predicates' order.

        Raises:
            RecordError: a record has more than MAX_TRIPLES triples.
        """
        for record in records:
            check_size(record)
        found: dict[int, PlanScores] = {}
        by_size: dict[int, list[int]] = {}
        for index, record in enumerate(records):
            by_size.setdefault(len(record.triples), []).append(index)
        largest, device = self.transitions.max_size, self.transitions.a_in.device
        for n, indices in by_size.items():
            states = lattice(n, largest)
            order = ordered_states(n, largest)
            place = {state: i for i, state in enumerate(states.states)}
            columns = torch.tensor([place[state] for state in order])
            predicates = torch.tensor([self.encoder.predicate_ids(records[i]) for i in indices], device=device)
            counts = torch.full((len(indices),), n, device=device)
            on_device = lattice(n, largest, str(predicates.device))
            start, out, inside_start, inside, within = (
                tensor.double().cpu() for tensor in self.transitions(predicates, counts, on_device)
            )
            for row, i in enumerate(indices):
                found[i] = PlanScores(
                    start[row].numpy(),
                    out[row].numpy(),
                    inside_start[row].numpy(),
                    inside[row].numpy(),
                    order,
                    within[row][columns].numpy(),
                )
        return [found[i] for i in range(len(records))]

    def candidates(
        self,
        records: Sequence[Record],
        plans: Sequence[Plan | None] | None = None,
        complete: bool | Sequence[bool] = False,
        config: InferenceConfig | Sequence[InferenceConfig | None] | None = None,
    ) -> list[Candidates]:
        """The plans of each record that are worth writing out; the arguments are those of `Generator.generate`.

        Raises:
            PlanError: a human plan does not fit its record, or a level exceeds the model's L.
            RecordError: a record has too many triples.
        """
        n = len(records)
        configs = [item or self.config for item in each(config, n, "config")]
        for item in configs:
            self.check_level(item.level)
        human = [None] * n if plans is None else plans
        parts = zip(records, self.scores(records), human, each(complete, n, "complete"), configs, strict=True)
        return [self.candidates_of(*of_record) for of_record in parts]

    def candidates_of(
        self, record: Record, scores: PlanScores, plan: Plan | None, complete: bool, config: InferenceConfig
    ) -> Candidates:
        """The plans of one record with its `scores`; probabilities are those of plans with their reward.

        Raises:
            PlanError: the human `plan` does not fit the record, or the level exceeds the model's L.
        """
        self.check_level(config.level)
        scores = rewarded(scores, config.group_reward)
        if plan is None:
            found = self._search(record, scores, config)
        else:
            found = [resolve_plan(record, plan, complete=complete, scores=scores)]
        norm = log_partition(scores)
        chains = [plan_score(scores, states) for states in found]
        log_probabilities = tuple(None if chain is None else _normalised(chain, norm) for chain in chains)
        return Candidates(tuple(found), log_probabilities, plan is not None)

    def _search(self, record: Record, scores: PlanScores, config: InferenceConfig) -> list[IndexPlan]:
        limit = config.level or None
        found: list[ScoredPlan]
        if config.ablation == "plain":  # the whole text is one fact
            return [(tuple(range(len(record.triples))),)]
        if config.ablation == "random-order":
            rng = np.random.default_rng([config.seed, *record.id.encode()])
            found = random_order(scores, rng, config.aggregations, limit)
        elif config.ablation == "no-aggregation":
            found = no_aggregation(scores, config.order_beam)
        elif config.planner == "two-stage":
            found = two_stage(scores, config.order_beam, config.aggregations, limit)[: config.plans]
        else:
            found = k_best(scores, config.plans, limit)
        return list(dict.fromkeys(plan.states for plan in found))

    def plan(self, records: Sequence[Record], k: int = 10, level: int = 0) -> list[list[PlannedRecord]]:
        """The k most likely plans of each record, with log p(z | x) over all plans of that level, under the planner's
        own `group_reward`.
        """
        return [
            self.plans_of(record, scores, k, level)
            for record, scores in zip(records, self.scores(records), strict=True)
        ]

    def plans_of(self, record: Record, scores: PlanScores, k: int, level: int) -> list[PlannedRecord]:
        """The k most likely plans of one record with its `scores`."""
        limit = level or None
        scores = rewarded(scores, self.config.group_reward)
        norm = log_partition(scores, limit)
        return [
            PlannedRecord(named_plan(record, found.states), _normalised(found.log_probability, norm))
            for found in k_best(scores, k, limit)
        ]


def check_size(record: Record) -> None:
    """Passes if the record has at most MAX_TRIPLES triples.

    Raises:
        RecordError: it has more.
    """
    if len(record.triples) > MAX_TRIPLES:
        raise RecordError(
            f"record {record.id!r} has {len(record.triples)} triples; at most {MAX_TRIPLES} can be planned at "
            "once, so split it into several records"
        )


def each(value: T | Sequence[T], n: int, name: str) -> Sequence[T]:
    """`value` for each of n records, unless it is a sequence of one value a record already.

    Raises:
        ValueError: a sequence of another length.
    """
    if not isinstance(value, Sequence):
        return [value] * n
    if len(value) != n:
        raise ValueError(f"{name} has {len(value)} values for {n} records")
    return value


def _normalised(chain: float, norm: float | None) -> float:
    """log p(z | x); the chain's own log-probability where the sum over all plans is too large to compute."""
    return chain if norm is None else min(chain - norm, 0.0)
