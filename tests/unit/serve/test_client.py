"""The client against the endpoint's own application, in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from agggen.corpora.elements import elements_records
from agggen_platform.client import Client, RefusedError
from agggen_platform.serving.config import ServeConfig
from serve.api import api
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


def test_a_stream_in_pieces_equals_one_request(engine: HandleEngine) -> None:
    client = client_of(engine, piece_records=4)
    batch: list[Any] = client.generate(RECORDS, n_best=2, verify="off")
    stream: list[Any] = list(client.stream(RECORDS, n_best=2, verify="off"))
    assert [answer["id"] for answer in batch] == [record["id"] for record in RECORDS]
    assert all(len(answer["texts"]) == 2 for answer in batch)
    for streamed, answer in zip(stream, batch, strict=True):
        assert streamed.pop("texts") == [rounded(text) for text in answer.pop("texts")]
        assert streamed == answer


def test_a_planned_text_is_written_and_aligned(engine: HandleEngine) -> None:
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


def test_a_wrong_option_is_named(engine: HandleEngine) -> None:
    with pytest.raises(RefusedError) as caught:
        list(client_of(engine).stream(RECORDS, level=99))
    assert caught.value.field == "options.level" and caught.value.request_id
