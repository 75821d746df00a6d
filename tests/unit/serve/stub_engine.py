"""A stub engine that fails, waits or raises on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agggen.generation.generator import AlignedText, Generation, InferenceConfig, PlannedRecord
from agggen.generation.results import WrittenFact
from agggen.records import Plan
from serve.engine import Answered, Failure, Job, ModelCard, Text


def always(config: InferenceConfig) -> Callable[[InferenceConfig], InferenceConfig]:
    """Settings of a job that replace those of the bundle."""
    return lambda own: config


CARD = ModelCard(
    "ab12",
    "toy",
    "corpus",
    3,
    InferenceConfig(),
    2,
    ("category", "symbol"),
    {"loss": 1.5, "odd": float("nan")},
    {"width": 16},
)


class StubEngine:
    """Answers each record with its id; `failures` by id, `error` for whole calls, `hold` keeps calls waiting."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        self.error: Exception | None = None
        self.served = CARD
        self.models: dict[str, str] = {}  # by id: the fingerprint in the answer, if not that of `served`
        self.hold: asyncio.Event | None = None
        self.calls: list[list[Any]] = []
        self.begun = self.cancelled = 0  # numbers of records

    async def _called(self, work: Sequence[Any]) -> None:
        self.calls.append(list(work))
        self.begun += len(work)
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += len(work)
            raise
        if self.error is not None:
            raise self.error

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[Answered[list[Generation]] | Failure]:
        await self._called(jobs)
        return [self._answered(job.record.id, self._texts(job)) for job in jobs]

    def _answered(self, name: str, value: Any) -> Any:
        return self.failures.get(name) or Answered(value, self.models.get(name, self.served.fingerprint))

    def _texts(self, job: Job) -> list[Generation]:
        plan = job.plan or Plan((job.record.predicates,))
        fact = WrittenFact(0, len(job.record.id) + 2, plan.predicates, ())
        text = f"{job.record.id}-0"
        return [Generation(job.record.id, text, plan, -0.5, "exact", -1.5, -2.0, (fact,), ())]

    async def plan(self, jobs: Sequence[Job], k: int, seconds: float) -> list[Answered[list[PlannedRecord]] | Failure]:
        await self._called(jobs)
        plans = [[PlannedRecord(Plan((job.record.predicates,)), None, "exact")] * k for job in jobs]
        return [self._answered(job.record.id, best) for job, best in zip(jobs, plans, strict=True)]

    async def align(self, texts: Sequence[Text], seconds: float) -> list[Answered[AlignedText] | Failure]:
        await self._called(texts)
        return [
            self._answered(
                text.record.id, AlignedText(text.record.id, (text.text,), (text.record.predicates,), (0.5,), -3.0)
            )
            for text in texts
        ]

    async def card(self) -> ModelCard:
        if self.error is not None:
            raise self.error
        return self.served

    async def records_at_once(self) -> int:
        return 64

    async def ready(self) -> ModelCard:
        return await self.card()
