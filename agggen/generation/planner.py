"""Planning of records (paper, section 3.4), which needs only the model's transitions and the encoder."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

import numpy as np
import torch

from agggen.encoding import Encoder
from agggen.errors import PlanError, RecordError
from agggen.generation.config import InferenceConfig
from agggen.generation.results import Candidates, PlannedRecord, PlanSearch
from agggen.model.lattice import build_lattice
from agggen.model.transitions import Transitions
from agggen.planning import IndexPlan, PlanDistribution, PlanScores, ScoredPlan, named_plan, resolve_plan
from agggen.planning.exact import check_sampling, sample
from agggen.planning.two_stage import no_aggregation, random_order, two_stage
from agggen.records import Plan, Record

MAX_TRIPLES = 24
"""Records with more triples are rejected, since the number of groups grows cubically; the corpora have at most 7."""
_MAX_UNKNOWN_PER_SENTENCE = 3
"""Maximum number of predicates unknown from training in one sentence (measured by `tests/benchmarks/phrases.py`)."""


class Planner:
    """Plans records with the transitions of one model. Not thread-safe."""

    def __init__(self, transitions: Transitions, encoder: Encoder, config: InferenceConfig | None = None) -> None:
        self.transitions = transitions
        self.encoder = encoder
        self.config = config or InferenceConfig()

    def check(
        self, record: Record, plan: Plan | None = None, complete: bool = False, config: InferenceConfig | None = None
    ) -> None:
        """Raises RecordError or PlanError if `plan` does not fit the record, or the record cannot be planned."""
        check_size(record)
        config = config or self.config
        if plan is not None:
            resolve_plan(record, plan, partial=complete)
        elif config.planner == "sample" and config.ablation == "none":
            (distribution,) = self.distributions([record], [config])
            if distribution.scores is not None:
                check_sampling(distribution.scores)

    def check_level(self, level: int) -> None:
        """Raises PlanError if `level` exceeds the model's L; 0 means L."""
        limit = self.transitions.max_group_size
        if level > limit:
            raise PlanError(f"aggregation level {level} exceeds this model's largest group of {limit} predicates")

    def distributions(self, records: Sequence[Record], configs: Sequence[InferenceConfig]) -> list[PlanDistribution]:
        """p(z | x) of each record under its settings.

        Raises:
            PlanError: a level exceeds the model's L.
            RecordError: a record has more than MAX_TRIPLES triples.
        """
        unknown: list[tuple[IndexPlan, IndexPlan]] = []
        ids: list[tuple[int, ...]] = []
        for record, settings in zip(records, configs, strict=True):
            check_size(record)
            self.check_level(settings.level)
            record_ids = self.encoder.predicate_ids(record)
            known_indices = [i for i, predicate_id in enumerate(record_ids) if predicate_id or settings.verify == "off"]
            ids.append(tuple(record_ids[i] for i in known_indices))
            size = 1 if settings.ablation == "no-aggregation" else settings.level or self.transitions.max_group_size
            unknown.append(unknown_groups(record, known_indices, size))
        return [
            PlanDistribution(len(record.triples), scores, *groups, settings.level or None, settings.group_reward)
            for record, scores, groups, settings in zip(records, self._scores(ids), unknown, configs, strict=True)
        ]

    @torch.no_grad()
    def _scores(self, ids: Sequence[tuple[int, ...]]) -> list[PlanScores | None]:
        """The transition scores of each record by its predicate ids; None for a record without ids."""
        scores: list[PlanScores | None] = [None] * len(ids)
        by_size: dict[int, list[int]] = {}
        for index, record_ids in enumerate(ids):
            by_size.setdefault(len(record_ids), []).append(index)
        by_size.pop(0, None)
        largest, device = self.transitions.max_group_size, self.transitions.a_in.device
        for n, indices in by_size.items():
            counts = torch.full((len(indices),), n, device=device)
            predicates = torch.tensor([ids[i] for i in indices], device=device)
            batch = self.transitions(predicates, counts, build_lattice(n, largest, str(device)))
            tensors = [tensor.double().cpu().numpy() for tensor in batch]
            for row, i in enumerate(indices):
                start, out, inside_start, inside, within = (tensor[row] for tensor in tensors)
                weights = np.stack([self.transitions.inner_exponent * within, within])
                scores[i] = PlanScores(start, out, inside_start, inside, weights, largest)
        return scores

    def plan(
        self, records: Sequence[Record], k: int = 10, config: InferenceConfig | None = None
    ) -> list[list[PlannedRecord]]:
        """At most k plans of each record by the configured search, best first.

        Raises:
            PlanError: `k` is below 1, or as in `distributions`.
            RecordError: as in `distributions`.
        """
        config = config or self.config
        distributions = self.distributions(records, [config] * len(records))
        return [self.plans_of(*item, k, config) for item in zip(records, distributions, strict=True)]

    def plans_of(
        self, record: Record, distribution: PlanDistribution, k: int, config: InferenceConfig
    ) -> list[PlannedRecord]:
        """As `plan`, for one record with its distribution under the same settings."""
        plans, search = self._search(record, distribution, k, config)
        return [PlannedRecord(named_plan(record, plan.states), plan.log_probability, search) for plan in plans]

    def candidates(
        self,
        records: Sequence[Record],
        plans: Sequence[Plan | None] | None = None,
        complete: bool = False,
        config: InferenceConfig | None = None,
    ) -> list[Candidates]:
        """The plans of each record for which texts are generated; arguments and errors as in `Generator.generate`."""
        config, n = config or self.config, len(records)
        distributions = self.distributions(records, [config] * n)
        items = zip(records, distributions, [None] * n if plans is None else plans, strict=True)
        return [self.candidates_of(*item, complete, config) for item in items]

    def candidates_of(
        self, record: Record, distribution: PlanDistribution, plan: Plan | None, complete: bool, config: InferenceConfig
    ) -> Candidates:
        """As `candidates`, for one record with its distribution under the same settings."""
        if plan is None:
            return Candidates(*self._search(record, distribution, config.plans, config))
        states = resolve_plan(record, plan, partial=complete)
        if complete:
            states = distribution.complete(states)
        return Candidates((distribution.scored(states),), "given")

    def _search(
        self, record: Record, distribution: PlanDistribution, k: int, config: InferenceConfig
    ) -> tuple[tuple[ScoredPlan, ...], PlanSearch]:
        """At most `k` distinct plans, best first, and the search that found them."""
        if k < 1:
            raise PlanError(f"{k} plans were requested; the number must be at least 1")
        rng = np.random.default_rng([config.seed, *record.id.encode()])
        search: PlanSearch = config.planner if config.ablation == "none" else config.ablation
        if search == "plain":  # the whole text is one fact with all triples
            plans = [distribution.scored((tuple(range(len(record.triples))),))]
        elif search == "random-order":
            plans = distribution.search(lambda scores: random_order(scores, rng, config.aggregations))
        elif search == "no-aggregation":
            plans = distribution.search(lambda scores: no_aggregation(scores, config.order_beam))
        elif search == "two-stage":
            plans = distribution.search(lambda scores: two_stage(scores, config.order_beam, config.aggregations))
        elif search == "sample":
            plans = distribution.search(lambda scores: sample(scores, k, rng, config.top_p))
        else:
            plans, is_exact = distribution.k_best(k)
            search = "exact" if is_exact else "beam"
        return tuple({plan.states: plan for plan in plans}.values())[:k], search


def unknown_groups(record: Record, known_indices: Collection[int], size: int) -> tuple[IndexPlan, IndexPlan]:
    """The triple indices outside `known_indices`, in groups of one subject with at most min(`size`, 3) triples; a group
    about an object of the first subject is appended if it fits.

    The order is that of the record; but equal predicates are adjacent, and subjects that are objects of unknown triples
    come last. The first result are the groups before the known triples: those up to the last group with an object that
    is a subject of known triples. The second are the groups after the known triples.
    """
    by_subject: dict[str, dict[str, list[int]]] = {}
    objects = set()
    for index, triple in enumerate(record.triples):
        if index not in known_indices:
            by_subject.setdefault(triple.subject, {}).setdefault(triple.predicate, []).append(index)
            objects.add(triple.object)
    ordered = (list(chain(*by_subject[name].values())) for name in sorted(by_subject, key=objects.__contains__))
    size = min(size, _MAX_UNKNOWN_PER_SENTENCE)
    chunks = (tuple(indices[at : at + size]) for indices in ordered for at in range(0, len(indices), size))
    groups = _chained(record, chunks, size)
    known_subjects = {record.triples[index].subject for index in known_indices}
    introduces = [any(record.triples[index].object in known_subjects for index in group) for group in groups]
    n_first = max((number for number, introduced in enumerate(introduces, start=1) if introduced), default=0)
    return groups[:n_first], groups[n_first:]


def _chained(record: Record, groups: Iterable[tuple[int, ...]], size: int) -> IndexPlan:
    """Appends each group to the first group of another subject with its subject as an object, up to `size` triples."""
    chained: list[tuple[int, ...]] = []
    for group in groups:
        subject = record.triples[group[0]].subject
        for number, earlier in enumerate(chained):
            subjects = {record.triples[index].subject for index in earlier}
            objects = {record.triples[index].object for index in earlier} - subjects
            if len(subjects) == 1 and subject in objects and len(earlier) + len(group) <= size:
                chained[number] += group
                break
        else:
            chained.append(group)
    return tuple(chained)


def check_size(record: Record) -> None:
    """Raises RecordError if the record has more than MAX_TRIPLES triples."""
    if len(record.triples) > MAX_TRIPLES:
        raise RecordError(
            f"record {record.id!r} has {len(record.triples)} triples; at most {MAX_TRIPLES} can be planned at "
            "once, so split it into several records"
        )
