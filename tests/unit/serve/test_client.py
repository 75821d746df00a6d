"""The client against the endpoint's own application, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from agggen.corpora.elements import elements_records
from agggen_platform.client import AsyncClient, EndpointError, RefusedError, Retry
from agggen_platform.serving.config import LimitsConfig, ServeConfig
from serve.api import api
from serve.engine import Failure, Job
from serve.handles import HandleEngine

RECORDS = [{"id": r.id, "triples": r.as_dict()["triples"]} for r in list(elements_records("dev"))[:9]]
BAD = {"id": "bad", "triples": []}


@asynccontextmanager
async def client_of(
    engine: HandleEngine, limits: LimitsConfig | None = None, **settings: Any
) -> AsyncIterator[AsyncClient]:
    config = ServeConfig("bundle", limits=limits or LimitsConfig())
    transport = httpx.ASGITransport(api(engine, config))
    async with AsyncClient("http://127.0.0.1:8000", transport=transport, **settings) as client:
        yield client


def run(engine: HandleEngine, use: Callable[[AsyncClient], Awaitable[Any]], **settings: Any) -> Any:
    async def call() -> Any:
        async with client_of(engine, **settings) as client:
            return await use(client)

    return anyio.run(call)


async def streamed(client: AsyncClient, records: Sequence[Any], **options: Any) -> list[Any]:
    async with aclosing(client.stream(records, **options)) as stream:
        return [answer async for answer in stream]


def rounded(text: dict[str, Any]) -> dict[str, Any]:
    """Company in a batch changes the last digits of numbers."""
    return {key: pytest.approx(value, abs=1e-4) if isinstance(value, float) else value for key, value in text.items()}


def test_a_stream_in_pieces_says_what_requests_say(engine: HandleEngine) -> None:
    async def use(client: AsyncClient) -> tuple[Any, Any]:
        return (
            await client.generate(RECORDS, n_best=2, verify="off"),
            await streamed(client, RECORDS, n_best=2, verify="off"),
        )

    batch, stream = run(engine, use, piece_records=4)
    assert [answer["id"] for answer in batch] == [record["id"] for record in RECORDS]
    assert all(len(answer["texts"]) == 2 for answer in batch)
    for one, other in zip(stream, batch, strict=True):
        assert one.pop("texts") == [rounded(text) for text in other.pop("texts")]
        assert one == other


def test_the_other_calls(engine: HandleEngine) -> None:
    async def use(client: AsyncClient) -> tuple[Any, ...]:
        (planned,) = await client.plan(RECORDS[:1], k=2)
        chosen = {**RECORDS[0], "plan": planned["plans"][1]["plan"]}
        (written,) = await client.realise([chosen], n_best=1)
        text = written["texts"][0]
        facts = [fact["text"] for fact in text["facts"]]
        (aligned,) = await client.align([{**RECORDS[0], "text": text["text"], "facts": facts}])
        return planned, written, aligned, await client.model(), await client.ready()

    planned, written, aligned, model, ready = run(engine, use)
    assert written["texts"][0]["plan"] == planned["plans"][1]["plan"]
    assert "".join(fact["text"] for fact in aligned["facts"]) == written["texts"][0]["text"]
    assert len(model["fingerprint"]) == 64
    assert ready is True


def test_one_bad_record_of_many(engine: HandleEngine) -> None:
    async def use(client: AsyncClient) -> Any:
        return await streamed(client, [*RECORDS[:2], BAD, *RECORDS[2:]])

    answers = run(engine, use, piece_records=3)
    assert [answer["status"] for answer in answers] == ["ok", "ok", "error", *["ok"] * 7]
    assert answers[2]["error"]["field"] == "triples"
    assert answers[2]["error"]["record"] == "bad"


@pytest.mark.parametrize(
    ("records", "options", "field"),
    [
        ([BAD], {}, "triples"),
        ([{**RECORDS[0], "plan": "[nothing]"}], {}, "plan"),
        (RECORDS, {"n_best": 9999}, "options.n_best"),
        (RECORDS, {"beem": 3}, "options.beem"),
        (RECORDS * 99, {}, "records"),
    ],
)
def test_refusals_name_the_field(engine: HandleEngine, records: list[Any], options: dict[str, Any], field: str) -> None:
    async def use(client: AsyncClient) -> Any:
        return await client.generate(records, **options)

    with pytest.raises(RefusedError) as caught:
        run(engine, use)
    assert caught.value.field == field
    assert caught.value.request_id
    if len(records) == 1:
        assert caught.value.record == records[0]["id"]


def test_wrong_options_of_a_stream_are_refused(engine: HandleEngine) -> None:
    async def use(client: AsyncClient) -> Any:
        return await streamed(client, RECORDS, level=99)

    with pytest.raises(RefusedError) as caught:
        run(engine, use)
    assert caught.value.field == "options.level"


class Losing:
    """An engine that loses some records the first time that it is asked for them."""

    def __init__(self, engine: HandleEngine, lost: set[str]) -> None:
        self._engine, self.lost, self.asked = engine, lost, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[Any]:
        self.asked += [job.record.id for job in jobs]
        found: list[Any] = await self._engine.generate(jobs, seconds)
        for place, job in enumerate(jobs):
            if job.record.id in self.lost:
                self.lost.discard(job.record.id)
                found[place] = Failure("lost", "the replica died")
        return found


QUICK = Retry(first_wait=0.001, longest_wait=0.002)


@pytest.mark.parametrize("name", ["generate", "stream"])
def test_records_lost_with_a_replica_are_retried(engine: HandleEngine, name: str) -> None:
    lost = {RECORDS[2]["id"], RECORDS[5]["id"]}
    losing = Losing(engine, set(lost))

    async def use(client: AsyncClient) -> Any:
        return await (client.generate(RECORDS) if name == "generate" else streamed(client, RECORDS))

    answers = run(losing, use, retry=QUICK)  # type: ignore[arg-type]
    assert [(a["index"], a["id"], a["status"]) for a in answers] == [(i, r["id"], "ok") for i, r in enumerate(RECORDS)]
    assert {one for one in losing.asked if losing.asked.count(one) == 2} == lost


def test_a_stream_beyond_the_endpoint_s_limits_says_so(engine: HandleEngine) -> None:
    async def use(client: AsyncClient) -> Any:
        return await streamed(client, RECORDS)

    with pytest.raises(EndpointError, match="at most 4 records") as caught:
        run(engine, use, limits=LimitsConfig(stream_records=4))
    assert caught.value.problem is not None
    assert caught.value.problem.code == "too-large"
