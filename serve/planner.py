"""The planner replica: searches plans, on a CPU and with little memory."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agggen.corpora.catalogue import load as load_corpus
from agggen.corpora.rejects import split_rejects
from agggen.errors import CorpusError, PlanError, RecordError
from agggen.generation.config import InferenceConfig
from agggen.generation.planner import Planner, check_size
from agggen.generation.results import Candidates, PlannedRecord
from agggen.planning import PlanDistribution
from agggen.records import Record, Triple
from agggen_platform.serving.config import ServeConfig
from serve.batching import Replica, Traits
from serve.engine import Failure, Job, ReplicaAnswers

PlanResult = Candidates | list[PlannedRecord]
EXAMPLES = 48  # the largest number of records of `GET /v1/examples`


_Search = tuple[Job, int | None]  # a job, and the number of best plans; None: candidates for the generator


class PlannerReplica(Replica[_Search, PlanResult]):
    """Plans records of several requests in batches."""

    def __init__(self, config: ServeConfig) -> None:
        super().__init__(config, config.planner)
        bundle = self._bundle
        del self._bundle  # frees most of the bundle's memory
        self._planner = Planner(bundle.model.transitions, bundle.encoder, bundle.inference)
        predicates = bundle.encoder.predicates[1:]  # the first entry represents unknown predicates
        self._card = {
            "fingerprint": self._fingerprint,
            "address": self._address,
            "facts": bundle.facts,
            "largest_group": bundle.model.config.max_group_size,
            "inference": asdict(bundle.inference),
            "predicates": len(predicates),
            "predicate_names": predicates,
            "metrics": dict(bundle.metrics),
            "model": asdict(bundle.model.config),
        }
        self._config = bundle.config
        self._examples: dict[str, Any] | None = None

    async def candidates(self, jobs: Sequence[Job], seconds: float) -> ReplicaAnswers[Candidates]:
        """For each job, the candidate plans for `GeneratorReplica.write`."""
        return await self._answers([(job, None) for job in jobs], seconds)

    async def plan(self, jobs: Sequence[Job], seconds: float, k: int) -> ReplicaAnswers[list[PlannedRecord]]:
        return await self._answers([(job, k) for job in jobs], seconds)

    async def card(self) -> dict[str, Any]:
        """The members of `ModelDict` that describe the bundle."""
        return self._card

    async def examples(self) -> dict[str, Any]:
        """`examples_of` the bundle's corpus, which is read at the first call."""
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

    def _work(self, work: str, searches: Sequence[_Search]) -> list[PlanResult | Failure]:
        """Scores the transitions of all records at once, then plans them one by one."""
        refusals = [refusal(job, self._planner) for job, _ in searches]
        plannable = [search for search, failure in zip(searches, refusals, strict=True) if failure is None]
        configs = [job.settings(self._planner.config) for job, _ in plannable]
        distributions = self._planner.distributions([job.record for job, _ in plannable], configs)
        results = iter(map(self._result, plannable, distributions, configs))
        return [failure or next(results) for failure in refusals]

    def _result(self, search: _Search, distribution: PlanDistribution, config: InferenceConfig) -> PlanResult | Failure:
        job, k = search
        try:
            if k is not None:
                return self._planner.plans_of(job.record, distribution, k, config)
            return self._planner.candidates_of(job.record, distribution, job.plan, job.complete, config)
        except PlanError as error:
            return Failure("plan", str(error), "plan")

    def _traits(self, search: _Search) -> Traits:
        """Limits a batch, whose records are planned one by one, to about 100 ms, since other requests wait for it."""
        job, _ = search
        if job.alone:
            return Traits("plan", alone=True)
        n = len(job.record.triples)
        return Traits("plan", length=n, share=n**3 / 6000)  # 12 triples take 30 ms, 24 take 220 ms


def refusal(job: Job, planner: Planner) -> Failure | None:
    """A Failure if the job exceeds a limit of the planner."""
    try:
        check_size(job.record)
        planner.check_level(job.settings(planner.config).level)
    except PlanError as error:
        return Failure("plan", str(error), "level")
    except RecordError as error:
        return Failure("record", str(error), "triples")
    return None


def examples_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """`ExamplesDict` of at most EXAMPLES records, evenly spaced in the test split of the corpus of a bundle's config.

    Reads only corpora of the catalogue, since the configuration may name any file.
    """
    corpus = config.get("corpus")
    name, split = (str(corpus.get(key)) if isinstance(corpus, Mapping) else "" for key in ("name", "test"))
    try:
        records, _ = split_rejects(load_corpus(name, split))
    except CorpusError:  # not in the catalogue, or not on this machine
        return {"corpus": "", "split": "", "records": []}
    examples = [
        {"id": r.id, "triples": r.as_dict()["triples"], "texts": [reference.text for reference in r.references]}
        for r in records[:: -(-len(records) // EXAMPLES)]
    ]
    return {"corpus": name, "split": split, "records": examples}
