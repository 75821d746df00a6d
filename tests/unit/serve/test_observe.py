"""What logs and metrics say, and what they never say."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import ray.serve
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Receive, Scope, Send

from agggen.generation.generator import InferenceConfig
from agggen_platform.serving.config import LogConfig
from serve.asgi import info_of
from serve.engine import ModelCard
from serve.observe import Metrics, RequestContext, current_request, set_up_logging
from serve.replica import log_as_replica
from tests.unit.serve.http_calls import Echo, Server, answer, client, part, pieces, read, scope

ROUTES = ["/v1/generate"]


@contextmanager
def logging_to(stream: io.StringIO, config: LogConfig = LogConfig(), **constant: str) -> Iterator[None]:  # noqa: B008
    """The endpoint's logging for a block; the tests' own afterwards."""
    loggers = [logging.getLogger(name) for name in ("agggen", "agggen_platform", "serve")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    try:
        set_up_logging(config, stream, **constant)
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate


@pytest.fixture
def log() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines of the log so far."""
    stream = io.StringIO()
    with logging_to(stream, replica="r7"):
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def ask(app: Any, path: str = "/v1/generate", method: str = "POST", **request: Any) -> httpx.Response:
    async def call() -> httpx.Response:
        async with client(app) as http:
            return await http.request(method, path, **request)

    return asyncio.run(call())


def samples(metrics: Metrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples by name, their labels without the replica."""
    text, _ = metrics.exposition()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "replica"}
            found.setdefault(sample.name, []).append((labels, sample.value))
    return found


# --- the request's id ---------------------------------------------------------------------------------------------


async def who(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, f"{scope['state']['request_id']} {current_request.get()}".encode())


def test_a_sane_id_of_the_client_is_taken_and_echoed() -> None:
    for given_id in ("a", "0123-abc_DEF.x:y", "x" * 128):
        response = ask(RequestContext(who, Metrics(), ROUTES), headers={"X-Request-Id": given_id})
        assert response.headers.get_list("x-request-id") == [given_id]
        assert response.text == f"{given_id} {given_id}"
    assert current_request.get() == "-"


@pytest.mark.parametrize("given_id", ["", "x" * 129, "a b", "a\tb", '{"level":"error"}', "é"])
def test_another_gets_an_id_of_ours(given_id: str) -> None:
    headers = {"X-Request-Id": given_id.encode("latin-1")}
    responses = [ask(RequestContext(who, Metrics(), ROUTES), headers=headers) for _ in range(2)]
    ids = {response.headers["x-request-id"] for response in responses}
    assert len(ids) == 2 and all(len(one) == 32 for one in ids)


def test_two_ids_are_none() -> None:
    response = ask(RequestContext(who, Metrics(), ROUTES), headers=[("X-Request-Id", "a"), ("X-Request-Id", "b")])
    assert len(response.headers["x-request-id"]) == 32


def test_behind_a_server_that_puts_the_id_into_answers_it_is_there_once() -> None:
    response = ask(RequestContext(who, Metrics(), ROUTES, echo=False), headers={"X-Request-Id": "a"})
    assert "x-request-id" not in response.headers and response.text == "a a"
    response = ask(RequestContext(who, Metrics(), ROUTES, echo=False), headers={"X-Request-Id": "a b"})
    assert response.headers["x-request-id"] in response.text, "the client must learn under which id it was logged"


def test_requests_at_once_keep_their_own_ids() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.001)
        await who(scope, receive, send)

    async def check() -> None:
        async with client(RequestContext(slow, Metrics(), ROUTES)) as http:
            ids = [f"id-{number}" for number in range(50)]
            found = await asyncio.gather(*(http.get("/", headers={"X-Request-Id": one}) for one in ids))
        assert [response.text for response in found] == [f"{one} {one}" for one in ids]

    asyncio.run(check())


def test_what_a_server_keeps_for_all_requests_is_not_written_to() -> None:
    shared = {"of the lifespan": 1}
    server = Server(part(b"", more=False))
    asyncio.run(RequestContext(who, Metrics(), ROUTES)({**scope(), "state": shared}, server.receive, server.send))
    assert shared == {"of the lifespan": 1}


# --- the log ------------------------------------------------------------------------------------------------------


def test_a_request_is_one_line(log: Callable[[], list[dict[str, Any]]]) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        info = info_of(scope)
        info.caller = "alice"
        info.count("ok", 99)
        info.count("record")
        await answer(send, await read(receive))

    ask(RequestContext(app, Metrics(), ROUTES), headers={"X-Request-Id": "a"}, content=pieces(b"12", b"345"))
    (line,) = log()
    assert 0 <= line.pop("ms") < 60_000 and line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "agggen.serve.access",
        "message": "POST /v1/generate 200",
        "request": "a",
        "replica": "r7",
        "method": "POST",
        "route": "/v1/generate",
        "status": 200,
        "caller": "alice",
        "records": 100,
        "failed": {"record": 1},
        "refused": None,
        "replayed": False,
        "bytes_in": 5,
        "bytes_out": 5,
        "whole": True,
    }


SECRET = "tantalum"


def test_no_text_no_address_and_no_key_is_ever_in_the_log(log: Callable[[], list[dict[str, Any]]]) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            raise ValueError(f"cannot say {(await read(receive)).decode()}")
        except ValueError:
            logging.getLogger("agggen.serve").exception("request failed")
            raise

    for app in (Echo(), failing):
        context = RequestContext(app, Metrics(), ROUTES)
        with suppress(ValueError):
            ask(
                context,
                path=f"/{SECRET}/v1?{SECRET}=1",
                method=SECRET.upper(),
                content=SECRET,
                headers={"Authorization": f"Bearer {SECRET}", "X-API-Key": SECRET, "X-Request-Id": f"{SECRET} "},
            )
    assert len(log()) == 3
    assert SECRET not in json.dumps(log()).lower()


def test_an_exception_is_its_type_and_place(log: Callable[[], list[dict[str, Any]]]) -> None:
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        logging.getLogger("agggen.serve").exception("it failed")
    (line,) = log()
    assert line["error"] == "RuntimeError" and "test_observe.py" in line["trace"][-1] and line["level"] == "error"


def test_texts_are_logged_where_they_are_asked_for_and_bounded() -> None:
    stream = io.StringIO()
    with logging_to(stream, LogConfig(texts=True)):
        ask(RequestContext(Echo(), Metrics(), ROUTES, texts=True), content=pieces(b"a" * 4000, b"\xff" * 4000))
        try:
            raise RuntimeError(SECRET)
        except RuntimeError:
            logging.getLogger("agggen.serve").exception("it failed")
    access, error = map(json.loads, stream.getvalue().splitlines())
    assert access["asked"] == access["answered"] == "a" * 4000 + "\ufffd" * 96
    assert error["says"] == SECRET


@given(st.text(), st.text())
def test_nothing_breaks_out_of_its_line(message: str, field: str) -> None:
    stream = io.StringIO()
    with logging_to(stream):
        logging.getLogger("serve.any").warning("%s", message, extra={"fields": {"field": field}})
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == message and json.loads(line)["field"] == field


@pytest.mark.parametrize("name", ["agggen.serve", "serve.handles", "serve.batching", "agggen.generation.planner"])
def test_whoever_logs_an_exception_its_message_is_left_out(log: Callable[[], list[dict[str, Any]]], name: str) -> None:
    logging.getLogger(name).error("a call failed", exc_info=ValueError(SECRET))
    (line,) = log()
    assert (line["logger"], line["error"]) == (name, "ValueError") and SECRET not in json.dumps(line)


def test_the_level_is_obeyed_and_set_up_twice_says_it_once() -> None:
    stream = io.StringIO()
    with logging_to(stream, LogConfig(level="warning")):
        set_up_logging(LogConfig(level="warning"), stream)
        ask(RequestContext(Echo(), Metrics(), ROUTES), content=b"")
        logging.getLogger("agggen.serve").warning("once")
    assert len(stream.getvalue().splitlines()) == 1


# --- how a request ends -------------------------------------------------------------------------------------------


def test_a_client_that_went_away_is_a_499_and_a_failure_a_500(log: Callable[[], list[dict[str, Any]]]) -> None:
    metrics = Metrics()

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        return

    async def begun(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async def check() -> None:
        for app in (failing, silent, begun, waiting):
            server = Server()
            task = asyncio.create_task(RequestContext(app, metrics, ROUTES)(scope(), server.receive, server.send))
            await asyncio.wait({task}, timeout=0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(check())
    assert [(line["status"], line["whole"]) for line in log()] == [
        (500, False),
        (499, False),
        (200, False),
        (499, False),
    ]
    found = samples(metrics)
    assert sum(value for _, value in found["agggen_requests_total"]) == 4
    assert found["agggen_requests_in_flight"] == [({}, 0)]


# --- metrics ------------------------------------------------------------------------------------------------------


def test_requests_records_and_refusals_are_counted() -> None:
    metrics = Metrics("r1")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        info = info_of(scope)
        info.count("ok", 3)
        info.count("lost", 2)
        info.refused, info.replayed = "rate", True
        inside = samples(metrics)["agggen_requests_in_flight"]
        await answer(send, str(inside[0][1]).encode(), 429)

    context = RequestContext(app, metrics, ROUTES)
    assert ask(context).text == "1.0" and ask(context).text == "1.0"
    found = samples(metrics)
    route = {"route": "/v1/generate"}
    assert found["agggen_requests_total"] == [({**route, "method": "POST", "status": "429"}, 2)]
    assert found["agggen_request_seconds_count"] == [(route, 2)]
    assert sorted(found["agggen_records_total"], key=str) == [
        ({**route, "outcome": "lost"}, 4),
        ({**route, "outcome": "ok"}, 6),
    ]
    assert found["agggen_refused_total"] == [({"guard": "rate"}, 2)]
    assert found["agggen_replayed_total"] == [({}, 2)]
    assert b'replica="r1"' in metrics.exposition()[0]


def test_whatever_clients_send_the_metrics_do_not_grow() -> None:
    metrics = Metrics()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        info_of(scope).count(scope["path"])
        await answer(send, b"")

    async def check() -> list[int]:
        sizes = []
        async with client(RequestContext(app, metrics, ROUTES)) as http:
            for number in range(200):
                await http.request(f"M{number}", f"/v1/generate/{number}", params={"q": number})
                sizes.append(len(metrics.exposition()[0].splitlines()))
        return sizes

    sizes = asyncio.run(check())
    assert sizes[-1] == sizes[0]
    assert samples(metrics)["agggen_requests_total"] == [({"route": "other", "method": "other", "status": "200"}, 200)]


def test_below_a_prefix_routes_keep_their_names() -> None:
    metrics, server = Metrics(), Server(part(b"", more=False))
    request = {**scope("/api/v1/generate"), "root_path": "/api"}
    asyncio.run(RequestContext(Echo(), metrics, ROUTES)(request, server.receive, server.send))
    assert samples(metrics)["agggen_requests_total"][0][0]["route"] == "/v1/generate"


def test_the_bundle_is_named_once_also_after_another_took_its_place() -> None:
    metrics = Metrics()
    for fingerprint in ("aa", "bb"):
        metrics.serving(ModelCard(fingerprint, "models:/m/1", "clauses", 3, InferenceConfig(), 5, {}, {}))
    labels = {"fingerprint": "bb", "address": "models:/m/1"}
    assert samples(metrics)["agggen_bundle_info"] == [(labels, 1)]


def test_a_scraper_gets_the_format_that_it_asks_for() -> None:
    metrics = Metrics()
    text, kind = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and text.endswith(b"# EOF\n")
    text, kind = metrics.exposition()
    assert kind.startswith("text/plain") and b"agggen_requests_total" in text


def test_two_applications_of_a_process_count_for_themselves() -> None:
    one, two = Metrics(), Metrics()
    ask(RequestContext(Echo(), one, ROUTES), content=b"")
    assert "agggen_requests_total" in samples(one) and "agggen_requests_total" not in samples(two)


def test_a_stream_passes_part_by_part() -> None:
    """Nothing waits for the end of an answer."""

    async def check() -> None:
        go = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
            await go.wait()
            await send({"type": "http.response.body", "body": b"2"})

        server = Server()
        task = asyncio.create_task(RequestContext(app, Metrics(), ROUTES)(scope(), server.receive, server.send))
        async with asyncio.timeout(20):
            while server.body != b"1":
                await asyncio.sleep(0.001)
        go.set()
        await task
        assert server.body == b"12"

    asyncio.run(check())


def test_a_replica_that_works_on_records_logs_like_the_ingress(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with logging_to(io.StringIO()):
        log_as_replica(LogConfig())  # no replica of Ray Serve: the log stays as it is
        assert logging.getLogger("serve").handlers[0].stream is not sys.stderr  # type: ignore[attr-defined]
        monkeypatch.setattr(sys, "stderr", stream)
        name = SimpleNamespace(unique_id="r9")
        monkeypatch.setattr(ray.serve, "get_replica_context", lambda: SimpleNamespace(replica_id=name))
        log_as_replica(LogConfig())
        try:
            raise ValueError("what the client wrote")
        except ValueError:
            logging.getLogger("agggen.serve").exception("a record could not be worked on")
    line = json.loads(stream.getvalue())
    assert (line["replica"], line["error"]) == ("r9", "ValueError")
    assert "what the client wrote" not in stream.getvalue()
