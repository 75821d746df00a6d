"""All guards together, in their order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response

from agggen.errors import ConfigError
from agggen_platform.serving.config import HttpConfig, LimitsConfig, ReplicaConfig, SecurityConfig, ServeConfig
from agggen_platform.serving.keys import add_key, new_key
from serve.asgi import info_of
from serve.errors import install
from serve.guards import guards
from serve.idempotency import Answers
from serve.observe import Metrics
from tests.unit.serve.http_calls import client, pieces, problem


def application(config: ServeConfig, metrics: Metrics | None = None) -> FastAPI:
    """A small application behind all guards."""
    stack = guards(
        config,
        metrics or Metrics(),
        routes=["/v1/generate", "/v1/generate:stream", "/healthz", "/metrics"],
        stream_paths=["/v1/generate:stream"],
        repeatable_paths=["/v1/generate"],
        health_paths=["/healthz"],
        answers=Answers(1 << 20, 60),
    )
    app = FastAPI(middleware=stack)
    install(app)
    calls = 0

    @app.post("/v1/generate")
    async def generate(request: Request) -> Response:
        nonlocal calls
        calls += 1
        body = await request.body()
        info_of(request.scope).spend(1)
        return Response(body + f" {calls}".encode())

    @app.post("/v1/generate:stream")
    async def stream(request: Request) -> Response:
        return Response(await request.body())

    @app.get("/healthz")
    @app.get("/metrics")
    async def health() -> dict[str, str]:
        return {}

    return app


def ask(app: FastAPI, *requests: dict[str, Any], host: str = "localhost") -> list[httpx.Response]:
    async def call() -> list[httpx.Response]:
        async with client(app, host) as http:
            return [
                await http.request(one.pop("method", "POST"), one.pop("path", "/v1/generate"), **one)
                for one in requests
            ]

    return asyncio.run(call())


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


@pytest.fixture
def key(key_file: Path) -> str:
    key, line = new_key("alice")
    add_key(key_file, line)
    return key


def beyond(key_file: Path, **security: Any) -> ServeConfig:
    """An endpoint that other machines reach."""
    return ServeConfig(
        bundle="b", http=HttpConfig(host="0.0.0.0"), security=SecurityConfig(keys_file=str(key_file), **security)
    )


def test_an_endpoint_for_others_asks_for_a_key_everywhere_but_for_its_health(key_file: Path, key: str) -> None:
    app = application(beyond(key_file))
    paths = ["/v1/generate", "/v1/generate:stream", "/metrics", "/openapi.json", "/docs", "/nowhere"]
    for response in ask(app, *({"method": method, "path": path} for path in paths for method in ("GET", "POST"))):
        assert response.status_code == 401 and problem(response)["request_id"] == response.headers["x-request-id"]
    known, health = ask(
        app, {"content": b"x", "headers": {"X-API-Key": key}}, {"method": "GET", "path": "/healthz"}, host="any.example"
    )
    assert (known.text, health.status_code) == ("x 1", 200) and "ratelimit" in known.headers


def test_without_keys_nothing_is_built_for_others() -> None:
    with pytest.raises(ConfigError, match="agggen serve-key"):
        application(ServeConfig(bundle="b", http=HttpConfig(host="0.0.0.0")))


def test_on_loopback_no_key_is_asked_for_but_who_asks_is_looked_at() -> None:
    app = application(ServeConfig(bundle="b"))
    (ours,) = ask(app, {"content": b"x"})
    (theirs,) = ask(app, {"content": b"x"}, host="evil.example")
    assert (ours.status_code, theirs.status_code) == (200, 403)


def test_no_key_no_memory_no_place_no_body(key_file: Path, key: str) -> None:
    """What a stranger sends is not read, not remembered and does not count for anybody."""
    app = application(beyond(key_file, requests_per_minute=2))
    mine = {"X-API-Key": key, "Idempotency-Key": "k"}
    first, stranger, long, again, third = ask(
        app,
        {"content": b"x", "headers": mine},
        {"content": b"x", "headers": {"Idempotency-Key": "k"}},
        {"content": pieces(b"x" * (5 << 20)), "headers": {}},
        {"content": b"x", "headers": mine},
        {"content": b"x", "headers": mine},
    )
    assert (first.text, again.text, again.headers["idempotency-replayed"]) == ("x 1", "x 1", "true")
    assert (stranger.status_code, long.status_code, third.status_code) == (401, 401, 429)
    assert "idempotency-replayed" not in third.headers and int(third.headers["retry-after"]) > 0


def test_the_rate_is_divided_among_the_replicas_there_may_be(key_file: Path, key: str) -> None:
    config = ServeConfig(
        bundle="b",
        ingress=ReplicaConfig(max_replicas=4),
        security=SecurityConfig(keys_file=str(key_file), requests_per_minute=8),
    )
    found = ask(application(config), *({"headers": {"X-API-Key": key}} for _ in range(3)))
    assert [response.status_code for response in found] == [200, 200, 429]


def test_records_beyond_the_rate_are_a_problem_of_the_handler(key_file: Path, key: str) -> None:
    app = application(beyond(key_file, records_per_minute=1))
    first, second = ask(app, *({"headers": {"X-API-Key": key}} for _ in range(2)))
    assert (first.status_code, second.status_code) == (200, 429) and problem(second)["type"].endswith(":rate")


def test_bodies_are_bounded_and_streams_by_their_own_limit() -> None:
    config = ServeConfig(bundle="b", limits=LimitsConfig(body_bytes=10, stream_bytes=20))
    short, long, chunked, streamed = ask(
        application(config),
        {"content": b"x" * 10},
        {"content": b"x" * 11},
        {"content": pieces(b"x" * 6, b"x" * 6)},
        {"content": pieces(b"x" * 6, b"x" * 6), "path": "/v1/generate:stream"},
    )
    assert [one.status_code for one in (short, long, chunked, streamed)] == [200, 413, 413, 200]
    assert streamed.content == b"x" * 12


def test_cross_origin_requests_are_off_and_on_for_the_origins_named(key_file: Path, key: str) -> None:
    asking = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    asking["Access-Control-Request-Headers"] = "X-API-Key,Idempotency-Key,X-Deadline-Seconds"
    preflight = {"method": "OPTIONS", "headers": asking}
    for config in (ServeConfig(bundle="b"), beyond(key_file)):
        (off,) = ask(application(config), dict(preflight))
        assert off.status_code in (401, 403) and "access-control-allow-origin" not in off.headers
    app = application(beyond(key_file, cors_origins=("https://app.example",)))
    evil = {"method": "OPTIONS", "headers": {**asking, "Origin": "https://evil.example"}}
    allowed, refused, unknown, known = ask(
        app,
        dict(preflight),
        evil,
        {"headers": {"Origin": "https://app.example"}},
        {"headers": {"Origin": "https://app.example", "X-API-Key": key}},
    )
    assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert refused.status_code == 400 and "access-control-allow-origin" not in refused.headers
    assert "access-control-allow-credentials" not in allowed.headers
    for one, status in ((unknown, 401), (known, 200)):  # the page may read why
        assert one.status_code == status and one.headers["access-control-allow-origin"] == "https://app.example"
    assert "Retry-After" in known.headers["access-control-expose-headers"]


def test_a_stream_that_is_too_long_is_counted_as_that() -> None:
    metrics = Metrics()
    app = application(ServeConfig(bundle="b", limits=LimitsConfig(stream_bytes=20)), metrics)
    (response,) = ask(app, {"content": pieces(b"x" * 15, b"x" * 15), "path": "/v1/generate:stream"})
    assert response.status_code == 413
    assert 'agggen_refused_total{guard="size",replica="-"} 1.0' in metrics.exposition()[0].decode()


def test_every_refusal_is_counted_by_its_guard(key_file: Path, key: str) -> None:
    metrics = Metrics()
    app = application(beyond(key_file, requests_per_minute=3), metrics)
    mine = {"X-API-Key": key}
    ask(
        app,
        {},
        {"headers": {**mine, "Content-Encoding": "gzip"}},
        {"headers": mine, "content": pieces(b"x" * (5 << 20))},
        {"headers": {**mine, "Idempotency-Key": "a b"}},
        {"headers": mine},
    )
    text = metrics.exposition()[0].decode()
    for guard in ("key", "head", "size", "idempotency", "rate"):
        assert f'agggen_refused_total{{guard="{guard}",replica="-"}} 1.0' in text, guard
