"""The client against the endpoint's own application, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from agggen.corpora.elements import elements_records
from agggen_platform.client import Client, RefusedError, Retry
from agggen_platform.serving.config import ServeConfig
from serve.api import api
from serve.engine import Failure, Job
from serve.handles import HandleEngine

RECORDS = [{"id": r.id, "triples": r.as_dict()["triples"]} for r in list(elements_records("dev"))[:9]]
BAD = {"id": "bad", "triples": []}


class InProcess(httpx.BaseTransport):
    """Sends requests to an application in this process."""

    def __init__(self, app: ASGIApp) -> None:
        self._transport = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def call() -> httpx.Response:
            response = await self._transport.handle_async_request(request)
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return asyncio.run(call())


def client_of(engine: HandleEngine, **settings: Any) -> Client:
    return Client(
        "http://127.0.0.1:8000", transport=InProcess(api(engine, ServeConfig("bundle"))), concurrency=1, **settings
    )


def rounded(text: dict[str, Any]) -> dict[str, Any]:
    """Other records of a batch change the last digits of numbers."""
    return {key: pytest.approx(value, abs=1e-4) if isinstance(value, float) else value for key, value in text.items()}


def test_a_stream_in_pieces_says_what_requests_say(engine: HandleEngine) -> None:
    client = client_of(engine, piece_records=4)
    batch: list[Any] = client.generate(RECORDS, n_best=2, verify="off")
    stream: list[Any] = list(client.stream(RECORDS, n_best=2, verify="off"))
    assert [answer["id"] for answer in batch] == [record["id"] for record in RECORDS]
    assert all(len(answer["texts"]) == 2 for answer in batch)
    for one, other in zip(stream, batch, strict=True):
        assert one.pop("texts") == [rounded(text) for text in other.pop("texts")]
        assert one == other


def test_plans_are_written_by_and_aligned(engine: HandleEngine) -> None:
    client: Any = client_of(engine)
    (planned,) = client.plan(RECORDS[:1], k=2)
    (written,) = client.generate([{**RECORDS[0], "plan": planned["plans"][1]["plan"]}], n_best=1)
    text = written["texts"][0]
    facts = [fact["text"] for fact in text["facts"]]
    (aligned,) = client.align([{**RECORDS[0], "text": text["text"], "facts": facts}])
    assert written["texts"][0]["plan"] == planned["plans"][1]["plan"]
    assert "".join(fact["text"] for fact in aligned["facts"]) == written["texts"][0]["text"]
    assert len(client.model()["fingerprint"]) == 64


@pytest.mark.parametrize("piece", [3, 1])
def test_one_bad_record_of_many(engine: HandleEngine, piece: int) -> None:
    answers: list[Any] = list(client_of(engine, piece_records=piece).stream([*RECORDS[:2], BAD, *RECORDS[2:]]))
    assert [answer["status"] for answer in answers] == ["ok", "ok", "error", *["ok"] * 7]
    assert answers[2]["error"]["field"] == "triples"
    assert answers[2]["error"]["record"] == "bad"


@pytest.mark.parametrize(
    ("call", "records", "options", "field"),
    [
        ("generate", [BAD], {}, "triples"),
        ("generate", [{**RECORDS[0], "plan": "[nothing]"}], {}, "plan"),
        ("generate", RECORDS, {"n_best": 9999}, "options.n_best"),
        ("generate", RECORDS * 99, {}, "records"),
        ("stream", RECORDS, {"level": 99}, "options.level"),
    ],
)
def test_what_is_wrong_is_named(engine: HandleEngine, call: str, records: Any, options: Any, field: str) -> None:
    with pytest.raises(RefusedError) as caught:
        list(getattr(client_of(engine), call)(records, **options))
    assert caught.value.field == field
    assert caught.value.request_id
    if len(records) == 1:
        assert caught.value.record == records[0]["id"]


class Losing:
    """An engine that loses some records the first time that it is asked for them."""

    def __init__(self, engine: HandleEngine, lost: set[str]) -> None:
        self._engine, self.lost, self.asked = engine, lost, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[Any]:
        self.asked += [job.record.id for job in jobs]
        answers: list[Any] = await self._engine.generate(jobs, seconds)
        for place, job in enumerate(jobs):
            if job.record.id in self.lost:
                self.lost.discard(job.record.id)
                answers[place] = Failure("lost", "the replica died")
        return answers


QUICK = Retry(first_wait=0.001, longest_wait=0.002)


@pytest.mark.parametrize("name", ["generate", "stream"])
def test_records_lost_with_a_replica_are_retried(engine: HandleEngine, name: str) -> None:
    lost = {RECORDS[2]["id"], RECORDS[5]["id"]}
    losing = Losing(engine, set(lost))

    answers: list[Any] = list(getattr(client_of(losing, retry=QUICK), name)(RECORDS))  # type: ignore[arg-type]
    assert [(a["index"], a["id"], a["status"]) for a in answers] == [(i, r["id"], "ok") for i, r in enumerate(RECORDS)]
    assert {name for name in losing.asked if losing.asked.count(name) == 2} == lost
