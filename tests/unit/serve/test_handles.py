"""The engine over Ray Serve handles: each record gets an answer for any error of Serve."""

import asyncio
from collections.abc import Generator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from ray import exceptions
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from agggen.generation.results import AlignedText, Candidates, Generation
from agggen.records import Plan, Record, Triple
from agggen_platform.serving.config import BatchConfig, ReplicaConfig, ServeConfig
from serve.engine import Failure, Job, ReplicaAnswers, Result, Text
from serve.errors import Problem
from serve.handles import HandleEngine
from serve.scaling import RECORDS, GeneratorState, by_records
from tests.unit.serve.http_calls import LONG, asynchronous

DIED = exceptions.ActorDiedError()
UNAVAILABLE = exceptions.ActorUnavailableError("gone", b"0" * 16)
CANDIDATES = Candidates((((0,),),), (0.0,))


def record(identifier: str) -> Record:
    return Record(identifier, (Triple("Neon", "symbol", "Ne"),))


def jobs(*names: str) -> list[Job]:
    return [Job(record(name)) for name in names]


class Call:
    """A fake of Serve's response object: returns a result, raises, or waits until it is cancelled."""

    def __init__(self, method: str, arguments: tuple[Any, ...], result: Any) -> None:
        self.method, self.arguments, self.result, self.cancelled = method, arguments, result, False

    def __await__(self) -> Generator[Any, None, Any]:
        return self.outcome().__await__()

    async def outcome(self) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        value = self.result()
        return await value if asyncio.iscoroutine(value) else value

    def cancel(self) -> None:
        self.cancelled = True


class Replicas:
    """A fake handle whose calls have these outcomes (exceptions or functions) in order; the last one is repeated."""

    def __init__(self, *results: Any) -> None:
        self.results, self.calls = list(results), list[Call]()

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any, **options: Any) -> Call:
            result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
            outcome = partial(result, *arguments, **options) if callable(result) else result
            self.calls.append(Call(method, arguments, outcome))
            return self.calls[-1]

        return SimpleNamespace(remote=remote)


def plans(jobs: Sequence[Job], *_: Any) -> ReplicaAnswers[Any]:
    """Plans all jobs except those with id "bad"."""
    failure = Failure("plan", "no such predicate", "plan")
    return ReplicaAnswers([failure if job.record.id == "bad" else CANDIDATES for job in jobs], "ab12")


def texts(planned: Sequence[tuple[Job, Candidates]], seconds: float, fingerprint: str) -> Any:
    assert fingerprint == "ab12" and 0 < seconds <= LONG and {candidates for _, candidates in planned} == {CANDIDATES}
    ids, plan = [job.record.id for job, _ in planned], Plan((("symbol",),))
    written = [Generation(name, f"{name}.", plan, 0.0, "exact", -1.0, -1.0, ()) for name in ids]
    return ReplicaAnswers([[text] for text in written], "cd34")


async def forever(*_: Any, **__: Any) -> Any:
    await asyncio.Event().wait()


def config(records: int = 64) -> ServeConfig:
    """A configuration with `records` per call and at most 5 generators."""
    bounds = ReplicaConfig(max_replicas=5, target_records=50)
    return ServeConfig("b", batch=BatchConfig(records=records), generator=bounds)


def codes(answers: Sequence[Any]) -> list[str]:
    return [answer.code if isinstance(answer, Failure) else answer.value[0].text for answer in answers]


def generated(planner: Any, generator: Any, *names: str, records: int = 64, seconds: float = LONG) -> list[Any]:
    """The engine's answers to jobs with these ids."""
    return asyncio.run(HandleEngine(planner, generator, config(records)).generate(jobs(*names), seconds))


def test_jobs_are_split_over_calls_and_answered_in_order_and_those_without_plans_are_not_generated() -> None:
    planner, generator = Replicas(plans), Replicas(texts)
    answers = generated(planner, generator, "a", "bad", "b", "c", "bad", records=2)
    assert codes(answers) == ["a.", "plan", "b.", "c.", "plan"]
    generated_ids = [[job.record.id for job, _ in call.arguments[0]] for call in generator.calls]
    assert sorted(generated_ids) == [["a"], ["b", "c"]]
    assert generated(planner, generator) == []


LOST = [
    *(DIED, UNAVAILABLE, exceptions.RayActorError(), exceptions.WorkerCrashedError()),
    *(exceptions.NodeDiedError("gone"), exceptions.RpcError("gone"), exceptions.OutOfMemoryError("killed")),
    *(kind("0" * 56, None, "here") for kind in (exceptions.ObjectLostError, exceptions.OwnerDiedError)),
    *(exceptions.TaskCancelledError(), DeploymentUnavailableError("generator")),
    asyncio.CancelledError(),  # as Serve raises for a request that the replica cancelled
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_call_to_a_dying_replica_is_retried_once(error: BaseException) -> None:
    planner, generator = Replicas(error, plans), Replicas(error, texts)
    assert codes(generated(planner, generator, "a", "b")) == ["a.", "b."]
    assert [call.method for call in planner.calls + generator.calls] == ["candidates"] * 2 + ["write"] * 2


@pytest.mark.parametrize(
    ("error", "code", "calls"),
    [
        (DIED, "lost", 2),  # after its only retry, the endpoint reports a retryable failure
        (BackPressureError(num_queued_requests=9, max_queued_requests=9), "busy", 1),
        (ValueError("a secret"), "internal", 1),
    ],
    ids=["lost twice", "full queue", "error"],
)
def test_a_failed_call_fails_its_records(
    error: Exception, code: str, calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    generator = Replicas(error)
    answers = generated(Replicas(plans), generator, "a", "bad", "b")
    assert codes(answers) == [code, "plan", code]
    assert len(generator.calls) == calls
    assert "secret" not in str(answers) and ("a secret" in caplog.text) == (code == "internal")


def test_replicas_get_the_time_left_and_the_deadline_cancels_their_requests() -> None:
    planner, generator = Replicas(plans), Replicas(forever)
    assert codes(generated(planner, generator, "a", "bad", seconds=0.1)) == ["deadline", "plan"]
    assert 0 < generator.calls[0].arguments[-1] <= planner.calls[0].arguments[-1] <= 0.1
    assert generator.calls[0].cancelled


def test_a_call_is_not_retried_after_its_deadline() -> None:
    async def late(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(0.06)
        raise DIED

    generator = Replicas(late)
    assert codes(generated(Replicas(plans), generator, "a", seconds=0.1)) == ["deadline"]
    assert len(generator.calls) == 1


@asynchronous
async def test_cancelling_a_call_cancels_its_requests() -> None:
    generator = Replicas(forever)
    engine = HandleEngine(Replicas(plans), generator, config(2))
    task = asyncio.create_task(engine.generate(jobs("a", "b", "c"), LONG))
    while len(generator.calls) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [call.cancelled for call in generator.calls] == [True, True]


@asynchronous
async def test_plans_go_to_planners_and_alignments_to_generators() -> None:
    aligned = AlignedText("a", ("Neon.",), ((),), (1.0,), -1.0)
    planner = Replicas(DIED, lambda jobs, seconds, k: ReplicaAnswers([[k]] * len(jobs), "ab12"))
    generator = Replicas(UNAVAILABLE, lambda texts, seconds: ReplicaAnswers([aligned] * len(texts), "cd34"))
    engine = HandleEngine(planner, generator, config(2))
    assert await engine.plan(jobs("a"), LONG, 7) == [Result([7], "ab12")]
    assert await engine.align([Text(record("a"), "Neon.")] * 3, LONG) == [Result(aligned, "cd34")] * 3
    assert [call.method for call in planner.calls + generator.calls] == ["plan"] * 2 + ["align"] * 3


@asynchronous
async def test_a_card_without_a_planner_is_an_error() -> None:
    assert await HandleEngine(Replicas(UNAVAILABLE, lambda: "card"), None, config()).card() == "card"
    with pytest.raises(Problem, match=r"no planner is ready: the replica .* was lost"):
        await HandleEngine(Replicas(DIED), None, config()).card()
    with pytest.raises(Problem, match="no planner is ready: the deadline passed"):
        await HandleEngine(Replicas(forever), None, config()).card(0.05)


@asynchronous
async def test_an_endpoint_stays_ready_after_its_generators_loaded_and_were_scaled_to_zero() -> None:
    """Readiness must not call generators, which would scale them up."""
    card, generator = object(), Replicas()
    present = [GeneratorState(0, False), GeneratorState(0, True), GeneratorState(0, False)]
    engine = HandleEngine(Replicas(lambda: card), generator, config(), lambda: present.pop(0))
    with pytest.raises(Problem, match="no generator is ready"):  # while the first generator is loading
        await engine.ready()
    for _ in range(3):
        assert await engine.ready() is card
    assert generator.calls == []


@pytest.mark.parametrize(("running", "records"), [(0, 100), (1, 100), (2, 200), (3, 250), (5, 250)])
def test_records_at_once_suffice_for_twice_the_generators_up_to_the_maximum(running: int, records: int) -> None:
    engine = HandleEngine(Replicas(), Replicas(), config(), lambda: GeneratorState(running, True))
    assert asyncio.run(engine.records_at_once()) == records


@pytest.mark.parametrize(
    ("reported", "queued", "calls", "replicas"),
    [
        ([], 0, 0, 0),
        ([128], 0, 2, 2),  # two calls of 64 records
        ([64, 64, 64], 0, 5, 3),
        ([64], 64, 65, 2),  # waiting calls count as one record each
        ([], 0, 128, 2),  # replicas without a reported number: ingress, or starting
    ],
)
def test_replicas_follow_the_number_of_records(
    reported: list[float], queued: float, calls: float, replicas: float
) -> None:
    context = SimpleNamespace(
        aggregated_metrics={RECORDS: dict(enumerate(reported))} if reported else {},
        total_queued_requests=queued,
        total_num_requests=calls,
        config=SimpleNamespace(target_ongoing_requests=64),
    )
    assert by_records(context) == (replicas, {})  # type: ignore[arg-type]
