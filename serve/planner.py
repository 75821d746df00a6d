"""The planner replica: finds the plans that the generator's texts follow. It needs a CPU and little memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agggen.corpora.catalogue import load as load_corpus
from agggen.corpora.rejects import split_rejects
from agggen.errors import AggGenError, CorpusError, PlanError
from agggen.generation.config import InferenceConfig
from agggen.generation.planner import Planner, check_size
from agggen.generation.results import Candidates, PlannedRecord
from agggen.planning import PlanDistribution
from agggen.records import Record, Triple
from agggen_platform.serving.config import ServeConfig
from serve.batching import Measure
from serve.engine import ByModel, Examples, Failure, Job, ModelCard
from serve.replica import Replica

Searched = Candidates | list[PlannedRecord]
EXAMPLES = 48
"""The largest number of records of `GET /v1/examples`."""


@dataclass(frozen=True, slots=True)
class _Search:
    job: Job
    k: int | None = None  # number of best plans to return; None: the generator's candidates


class PlannerReplica(Replica[_Search, Searched]):
    """Plans the records of many requests together, on the CPU."""

    _examples: Examples | None

    def __init__(self, config: ServeConfig) -> None:
        """Raises BundleError and StorageError like `Replica`."""
        super().__init__(config, config.planner)
        bundle = self._bundle
        del self._bundle  # frees most of its memory
        self._planner = Planner(bundle.model.transitions, bundle.encoder, bundle.inference)
        self._card = ModelCard(
            self._fingerprint,
            self._address,
            bundle.facts,
            bundle.model.config.max_group_size,
            bundle.inference,
            len(bundle.encoder.predicates) - 1,  # the first entry stands for unknown predicates
            bundle.encoder.predicates[1:],
            dict(bundle.metrics),
            asdict(bundle.model.config),
        )
        self._config, self._examples = bundle.config, None

    async def candidates(self, jobs: Sequence[Job], seconds: float) -> ByModel[Candidates]:
        """For each job, the plans that the generator's texts follow."""
        return await self._answers([_Search(job) for job in jobs], seconds)

    async def plan(self, jobs: Sequence[Job], k: int, seconds: float) -> ByModel[list[PlannedRecord]]:
        """The k best plans of each job's record."""
        return await self._answers([_Search(job, k) for job in jobs], seconds)

    async def card(self) -> ModelCard:
        return self._card

    async def examples(self) -> Examples:
        """Records of the bundle's corpus, which is read at the first call."""
        if self._examples is None:
            self._examples = await asyncio.to_thread(examples_of, self._config)
        return self._examples

    def _test(self) -> list[str]:
        record = Record("test", (Triple("Oda", "birthPlace", "Voss"), Triple("Oda", "age", "41")))
        try:
            self._planner.candidates([record])
        except Exception as error:  # any error fails the self-test
            return [f"planning failed: {type(error).__name__}: {error}"]
        return []

    def _work(self, work: str, searches: Sequence[_Search]) -> list[Searched | Failure]:
        """Scores the transitions of all records at once, then plans them one by one."""
        refusals = [refusal(search.job, self._planner) for search in searches]
        plannable = [search for search, refused in zip(searches, refusals, strict=True) if refused is None]
        configs = [search.job.settings(self._planner.config) for search in plannable]
        distributions = self._planner.distributions([search.job.record for search in plannable], configs)
        planned = iter(map(self._searched, plannable, distributions, configs))
        return [refused or next(planned) for refused in refusals]

    def _searched(self, search: _Search, distribution: PlanDistribution, config: InferenceConfig) -> Searched | Failure:
        try:
            if search.k is not None:
                return self._planner.plans_of(search.job.record, distribution, search.k, config)
            job = search.job
            return self._planner.candidates_of(job.record, distribution, job.plan, job.complete, config)
        except PlanError as error:
            return Failure("plan", str(error), "plan")

    def _measure(self, search: _Search) -> Measure:
        """Records are planned one by one, so a batch is limited to about 100 ms: other requests wait that long."""
        if search.job.alone:
            return Measure("plan", alone=True)
        n = len(search.job.record.triples)
        return Measure("plan", length=n, share=n**3 / 6000)  # 12 triples take 30 ms, 24 take 220


def refusal(job: Job, planner: Planner) -> Failure | None:
    """Why a job cannot be planned, regardless of the model's scores; None if it can."""
    try:
        check_size(job.record)
    except AggGenError as error:
        return Failure("record", str(error), "triples")
    try:
        planner.check_level(job.settings(planner.config).level)
    except PlanError as error:
        return Failure("plan", str(error), "level")
    return None


def examples_of(config: Mapping[str, Any]) -> Examples:
    """At most EXAMPLES records, spread over the test split of the corpus that a bundle's `config` names.

    Only corpora of the catalogue are read: a bundle may name any file, and an endpoint must not expose private data.
    """
    corpus = config.get("corpus")
    if not isinstance(corpus, Mapping):
        return Examples()
    name, split = str(corpus.get("name")), str(corpus.get("test"))
    try:
        records, _ = split_rejects(load_corpus(name, split))  # CorpusError: not in the catalogue
    except CorpusError:
        return Examples()
    return Examples(name, split, tuple(records[:: -(-len(records) // EXAMPLES)]))
