"""A stub of the engine that fails, waits or raises on demand."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agggen.generation.config import InferenceConfig
from agggen.generation.results import Generation, PlannedRecord, WrittenFact
from agggen.records import Plan
from serve.engine import Failure, Job, ModelCard, Result


def always(config: InferenceConfig) -> Callable[[InferenceConfig], InferenceConfig]:
    return lambda own: config


METRICS = {"loss": 1.5, "odd": float("nan")}
CARD = ModelCard("ab12", "toy", "corpus", 3, InferenceConfig(), 2, ("category", "symbol"), METRICS, {"width": 16})


class StubEngine:
    """Answers each record with its id. `failures`: by id; `error`: of all calls; calls wait for `hold`."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        self.error: Exception | None = None
        self.served = CARD
        self.models: dict[str, str] = {}  # fingerprints by record id, if different from `served`
        self.hold: asyncio.Event | None = None
        self.calls: list[list[Any]] = []
        self.seconds: list[float] = []  # the deadline of each call
        self.begun = self.cancelled = 0  # counts of records

    async def _called(self, work: Sequence[Any], seconds: float) -> None:
        self.calls.append(list(work))
        self.seconds.append(seconds)
        self.begun += len(work)
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += len(work)
            raise
        if self.error is not None:
            raise self.error

    def _answered(self, name: str, value: Any) -> Any:
        return self.failures.get(name) or Result(value, self.models.get(name, self.served.fingerprint))

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[Any]:
        await self._called(jobs, seconds)
        texts = []
        for job in jobs:
            plan, name = job.plan or Plan((job.record.predicates,)), job.record.id
            fact = WrittenFact(0, len(name) + 2, plan.predicates, ())
            texts.append(Generation(name, f"{name}-0", plan, -0.5, "exact", -1.5, -2.0, (fact,), ()))
        return [self._answered(text.id, [text]) for text in texts]

    async def plan(self, jobs: Sequence[Job], seconds: float, k: int) -> list[Any]:
        await self._called(jobs, seconds)
        plans = [[PlannedRecord(Plan((job.record.predicates,)), None, "exact")] * k for job in jobs]
        return [self._answered(job.record.id, best) for job, best in zip(jobs, plans, strict=True)]

    async def card(self) -> ModelCard:
        if self.error is not None:
            raise self.error
        return self.served

    async def records_at_once(self) -> int:
        return 64

    async def ready(self) -> ModelCard:
        return await self.card()
