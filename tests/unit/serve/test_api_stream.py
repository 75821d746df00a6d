"""Streams of records: one answer per line in input order, bounded work in flight, cancellation."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message

from agggen.generation.config import InferenceConfig
from agggen_platform.serving.config import BatchConfig, LimitsConfig, ServeConfig
from serve.api import api
from serve.engine import Failure
from serve.errors import Problem
from serve.handles import HandleEngine
from serve.streaming import line_groups
from tests.unit.serve.http_calls import (
    NDJSON,
    SILICON,
    Ask,
    Server,
    StubEngine,
    asynchronous,
    limited,
    part,
    pieces,
    problem,
    records,
    scope,
    until,
)

CONFIG = ServeConfig(bundle="toy", limits=LimitsConfig(window=16, line_bytes=1000), batch=BatchConfig(records=4))


def line(name: object, **more: Any) -> bytes:
    return json.dumps({"id": str(name), "triples": SILICON["triples"]} | more).encode() + b"\n"


def stream(
    engine: HandleEngine, body: bytes | AsyncIterator[bytes], config: ServeConfig = CONFIG, query: str = ""
) -> httpx.Response:
    return Ask(api(engine, config))(f"/v1/generate:stream{query}", content=body, headers=NDJSON)


def answers(response: httpx.Response) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson"
    *lines, end = map(json.loads, response.text.splitlines())
    assert end["status"] == "end"
    assert [answer["index"] for answer in lines] == list(range(len(lines)))
    return lines, end


BAD = {
    7: (b"{]\n", "malformed"),
    20: (b'{"id": "x\xff"}\n', "malformed"),
    33: (b'{"id": 1e999}\n', "malformed"),
    46: (b"[1]\n", "record"),
    59: (line(59, plan="[nothing]"), "plan"),
    72: (line(1), "record"),  # a repeated id
    85: (b'"' + b"x" * 1000 + b'"\n', "too-large"),
    98: (b"[" * 900 + b"\n", "malformed"),
}


def test_invalid_lines_do_not_affect_the_others(engine: HandleEngine, serve_config: ServeConfig) -> None:
    config = ServeConfig(bundle="toy", limits=CONFIG.limits)
    body = b"".join(BAD[i][0] if i in BAD else line(i) for i in range(100))
    results, end = answers(stream(engine, body, config, "?plans=1&beam=1"))
    assert {a["index"] for a in results if a["status"] == "error"} == set(BAD)
    for index, (_, code) in BAD.items():
        assert results[index]["error"]["type"] == f"urn:agggen:problem:{code}"
    assert (end["records"], end["ok"], end["errors"]) == (100, 92, 8)


def test_blank_lines_do_not_count_and_the_last_line_needs_no_newline(stub: StubEngine) -> None:
    body = b"\xef\xbb\xbf" + line("a") + b"\n  \r\n" + line("b").replace(b"\n", b"\r\n") + line("c").rstrip()
    results, end = answers(stream(stub, body))
    assert [answer["id"] for answer in results] == ["a", "b", "c"]
    assert end["records"] == 3
    assert answers(stream(stub, b"\n\n")) == ([], {"status": "end", "records": 0, "ok": 0, "errors": 0})


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_lines_do_not_depend_on_how_the_body_is_split(size: int) -> None:
    body = b"a\n\nbb\n" + b"c" * 11 + b"\n" + b"d" * 10 + b"\ne\n" + b"f" * 30

    async def read() -> list[Any]:
        cut = pieces(*(body[i : i + size] for i in range(0, len(body), size)))
        return [item for group in [group async for group in line_groups(cut, 10)] for item in group]

    lines = ["long" if isinstance(item, Problem) else item for item in asyncio.run(read())]
    assert lines == [b"a", b"bb", "long", b"d" * 10, b"e", "long"]


@pytest.mark.parametrize("chunks", [1, 100])
def test_records_are_sent_to_the_engine_in_batches(stub: StubEngine, chunks: int) -> None:
    lines = [line(i) for i in range(100)]
    answers(stream(stub, b"".join(lines) if chunks == 1 else pieces(*lines)))
    sizes = [len(call) for call in stub.calls]
    assert sizes == [4] * 25 if chunks == 1 else len(sizes) < 50


def test_options_of_a_stream_are_in_the_query_and_checked_first(stub: StubEngine) -> None:
    answers(stream(stub, line("a"), query="?n_best=2&level=1"))
    ((job,),) = stub.calls
    assert (job.n_best, job.settings(InferenceConfig()).level) == (2, 1)
    refused = stream(stub, line("a"), query="?level=9")
    assert (problem(refused)["status"], problem(refused)["field"]) == (422, "options.level")
    assert len(stub.calls) == 1


def test_a_stream_ends_at_its_maximum_number_of_records(stub: StubEngine) -> None:
    ask = limited(stub, stream_records=5, window=16)
    results, end = answers(ask("/v1/generate:stream", content=b"".join(map(line, range(9))), headers=NDJSON))
    assert len(results) == 5
    assert end["error"]["type"] == "urn:agggen:problem:too-large"
    assert (end["records"], end["ok"]) == (5, 5)


def test_a_failed_call_of_the_engine_fails_only_its_own_records(stub: StubEngine) -> None:
    stub.failures["3"] = Failure("lost", "its replica died")
    generate = stub.generate

    async def failing(jobs: Any, seconds: float) -> Any:
        if any(job.record.id == "9" for job in jobs):
            raise KeyError("secret")
        return await generate(jobs, seconds)

    stub.generate = failing
    response = stream(stub, b"".join(map(line, range(16))))
    results, _ = answers(response)
    codes = [a["error"]["type"].rsplit(":", 1)[1] if a["status"] == "error" else "ok" for a in results]
    assert codes == ["ok"] * 3 + ["lost"] + ["ok"] * 4 + ["internal"] * 4 + ["ok"] * 4
    assert [results[i]["error"]["retryable"] for i in (3, 9)] == [True, False]
    assert "secret" not in response.text


class SlowServer(Server):
    """The ASGI server of a client that reads one part of the response for each release of `reads`."""

    reads: asyncio.Semaphore

    async def send(self, message: Message) -> None:
        await self.reads.acquire()
        await super().send(message)


def started(app: ASGIApp, server: Server, name: str = "generate:stream") -> asyncio.Future[None]:
    return asyncio.ensure_future(app(scope(f"/v1/{name}"), server.receive, server.send))


def parts(count: int, more: bool = False) -> list[Message]:
    """Messages with one record each; with `more`, the body is incomplete."""
    return [*(part(line(i)) for i in range(count)), *([] if more else [part(b"", more=False)])]


@asynchronous
async def test_at_most_a_window_of_records_is_in_progress_while_the_client_reads_nothing(stub: StubEngine) -> None:
    server = SlowServer(*parts(100))
    server.reads = asyncio.Semaphore(1)  # the head
    call = started(api(stub, CONFIG), server)
    await until(lambda: stub.begun == 16)
    await asyncio.sleep(0.05)
    assert stub.begun == 16
    server.reads.release()
    await until(lambda: stub.begun == 20)
    for _ in range(100):
        server.reads.release()
    await asyncio.wait_for(call, 20)
    assert len(server.body.splitlines()) == 101


@asynchronous
async def test_a_client_that_waits_for_answers_gets_them_before_it_sends_more(stub: StubEngine) -> None:
    server = Server()
    call = started(api(stub, CONFIG), server)
    for number in range(3):
        server.incoming.put_nowait(part(line(number)))
        await until(lambda number=number: len(server.body.splitlines()) == number + 1)  # type: ignore[misc]
    server.incoming.put_nowait(part(b"", more=False))
    await call
    assert json.loads(server.body.splitlines()[-1])["ok"] == 3


WHOLE = json.dumps({"records": records(*map(str, range(10)))}).encode()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("generate", [part(WHOLE, more=False)]),
        ("generate:stream", parts(10)),
        ("generate:stream", parts(10, more=True)),
    ],
    ids=["while waiting", "stream while waiting", "stream while sending"],
)
@pytest.mark.parametrize("cancelled", [False, True], ids=["by the client", "by the server"])
@asynchronous
async def test_the_work_of_a_disconnected_client_is_cancelled(
    stub: StubEngine, name: str, body: list[Message], cancelled: bool
) -> None:
    stub.hold = asyncio.Event()
    server = Server(*body)
    call = started(api(stub, CONFIG), server, name)
    await until(lambda: stub.begun == 10)
    if cancelled:
        call.cancel()
    else:
        server.incoming.put_nowait({"type": "http.disconnect"})
    await asyncio.wait({call}, timeout=20)
    assert (call.cancelled(), stub.cancelled) == (cancelled, 10)
