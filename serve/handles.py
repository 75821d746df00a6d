"""Calls Ray Serve replicas within a deadline and with one retry; each record gets a result or a `Failure`."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from ray import exceptions
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from agggen.generation.results import AlignedText, Candidates, Generation, PlannedRecord
from agggen_platform.serving.config import ServeConfig
from serve.engine import INTERNAL, TIMEOUT, CheckResult, Failure, Job, ReplicaAnswers, Result, Text
from serve.errors import Problem
from serve.scaling import GeneratorState

_log = logging.getLogger("agggen.serve")

T = TypeVar("T")
A = TypeVar("A")

_GRACE_S = 0.5  # waited after the deadline, since at the deadline the replica drops late items and returns the others
_RETRY_DELAY_S = 0.1  # time for Serve to notice that a replica died

Span = Callable[[str, int], AbstractContextManager[Callable[[Any], None]]]
Call = Callable[[Any, float], Any]
"""Calls a deployment with items and the seconds left; returns a ``ray.serve.handle.DeploymentResponse``."""


class HandleEngine:
    """Plans, writes, aligns and checks with the replicas behind two ``DeploymentHandle``s."""

    def __init__(
        self,
        planner: Any,
        generator: Any,
        config: ServeConfig,
        generator_state: Callable[[], GeneratorState] = lambda: GeneratorState(1, True),
        span: Span | None = None,
    ) -> None:
        """`planner`, `generator`: handles of deployments of `PlannerReplica` and `GeneratorReplica`.

        `generator_state` may block. `span`, given the name of a call and its number of records, traces the call, and
        yields a function that takes its result.
        """
        self._planner, self._generator, self._generator_state = planner, generator, generator_state
        self._span = span or (lambda name, records: nullcontext(lambda result: None))
        self._records, self._bounds = config.batch.records, config.generator
        self._generators_loaded = False  # whether a generator has ever loaded the bundle

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[Result[list[Generation]] | Failure]:
        return await self._in_parts(self._generate, jobs, seconds)

    async def plan(self, jobs: Sequence[Job], seconds: float, k: int) -> list[Result[list[PlannedRecord]] | Failure]:
        plan = partial(self._planner.plan.remote, k=k)
        return await self._in_parts(partial(self._answers, "plan", plan), jobs, seconds)

    async def align(self, texts: Sequence[Text], seconds: float) -> list[Result[AlignedText] | Failure]:
        return await self._in_parts(partial(self._answers, "align", self._generator.align.remote), texts, seconds)

    async def check(self, texts: Sequence[Text], seconds: float) -> list[Result[CheckResult] | Failure]:
        return await self._in_parts(partial(self._answers, "check", self._generator.check.remote), texts, seconds)

    async def examples(self) -> dict[str, Any]:
        """Records of the served corpus (`ExamplesDict`); raises Problem if no planner answers within 30 seconds."""
        return await self._call_planner(self._planner.examples, 30.0)

    async def card(self, seconds: float = 10.0) -> dict[str, Any]:
        """The served model (see `PlannerReplica.card`); raises Problem if no planner answers within `seconds`."""
        return await self._call_planner(self._planner.card, seconds)

    async def ready(self) -> dict[str, Any]:
        """The served model; raises Problem until planners and generators have loaded it and passed their self-test.

        It calls no generator: a probe must not start one, nor fail while all are busy or scaled to zero.
        """
        card = await self.card()
        self._generators_loaded = self._generators_loaded or (await asyncio.to_thread(self._generator_state)).loaded
        if not self._generators_loaded:
            raise Problem("unavailable", "no generator is ready: none has loaded the bundle yet")
        return card

    async def records_at_once(self) -> int:
        """How many records clients should keep in flight: enough for the autoscaler to double the generators."""
        running = (await asyncio.to_thread(self._generator_state)).running
        return math.ceil(min(self._bounds.max_replicas or 1, 2 * max(1, running)) * self._bounds.target_records)

    async def _generate(self, jobs: Sequence[Job], deadline: float) -> list[Result[list[Generation]] | Failure]:
        planned: ReplicaAnswers[Candidates] | Failure
        planned = await self._call("plan", self._planner.candidates.remote, jobs, deadline)
        if isinstance(planned, Failure):
            return [planned] * len(jobs)
        pairs = zip(jobs, planned.answers, strict=True)
        plannable = [(job, plans) for job, plans in pairs if isinstance(plans, Candidates)]
        write = partial(self._generator.write.remote, fingerprint=planned.model)
        written = iter(await self._answers("write", write, plannable, deadline) if plannable else ())
        return [plans if isinstance(plans, Failure) else next(written) for plans in planned.answers]

    async def _call_planner(self, method: Any, seconds: float) -> Any:
        result = await self._attempts(_now() + seconds, lambda seconds_left: method.remote())
        if isinstance(result, Failure):
            raise Problem("unavailable", f"no planner is ready: {result.message}")
        return result

    async def _in_parts(
        self, work: Callable[[Sequence[T], float], Coroutine[Any, Any, list[A]]], items: Sequence[T], seconds: float
    ) -> list[A]:
        """The answers in item order, from concurrent calls of at most `batch.records` items, cancelled together."""
        deadline = _now() + seconds
        parts = [items[begin : begin + self._records] for begin in range(0, len(items), self._records)]
        if len(parts) == 1:  # so that an unexpected error is logged itself, instead of a group with it
            return await work(parts[0], deadline)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(part, deadline)) for part in parts]
        return [answer for task in tasks for answer in task.result()]

    async def _answers(self, span: str, call: Call, items: Sequence[Any], deadline: float) -> list[Any]:
        result = await self._call(span, call, items, deadline)
        return [result] * len(items) if isinstance(result, Failure) else result.results()

    async def _call(self, span: str, call: Call, items: Sequence[Any], deadline: float) -> Any:
        with self._span(span, len(items)) as record_result:
            result = await self._attempts(deadline, partial(call, items))
            record_result(result)
        return result

    async def _attempts(self, deadline: float, call: Callable[[float], Any]) -> Any:
        """The result of the call, or a Failure; retries once if the replica was lost."""
        for may_retry in (True, False):
            seconds_left = deadline - _now()
            if seconds_left <= 0:
                break
            try:
                return await _response_within(call(seconds_left), seconds_left + _GRACE_S)
            except TimeoutError:
                break
            except Exception as error:
                failure = _failure(error)
                if failure.code != "lost" or not may_retry:
                    return failure
                _log.warning("a replica was lost (%s); trying again", type(error).__name__)
            await asyncio.sleep(min(_RETRY_DELAY_S, max(deadline - _now(), 0)))
        return TIMEOUT


async def _response_within(response: Any, seconds: float) -> Any:
    """The response; after `seconds` (TimeoutError), or if the caller is cancelled, cancels the request.

    Raises TaskCancelledError if the replica cancelled it, for which Serve raises CancelledError, as for the caller.
    """
    task = asyncio.current_task()
    assert task is not None
    cancellations = task.cancelling()
    async with asyncio.timeout(seconds):
        try:
            return await response
        except asyncio.CancelledError:
            if task.cancelling() == cancellations:
                raise exceptions.TaskCancelledError from None
            response.cancel()
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()


_LOST_REPLICA_ERRORS = (
    exceptions.RayActorError,  # died, or cannot be reached
    exceptions.TaskCancelledError,  # cancelled by a replica that is stopping
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.ObjectLostError,  # the node that held the answer was lost
    exceptions.RpcError,
    exceptions.OutOfMemoryError,  # Ray killed the replica
    DeploymentUnavailableError,
)


def _failure(error: Exception) -> Failure:
    """The failure of the records of a call for which Serve raised `error`."""
    if isinstance(error, BackPressureError):
        return Failure("busy", "too many requests are queued; try again later")
    if isinstance(error, _LOST_REPLICA_ERRORS):
        return Failure("lost", "the replica that processed this record was lost; try again")
    _log.error("a call to a replica failed", exc_info=error)  # unexpected: replicas return Failures
    return INTERNAL
