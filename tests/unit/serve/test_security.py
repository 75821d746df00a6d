"""Rate limits, and browsers that run other people's scripts; keys are in `test_keys`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.asgi import info_of
from serve.errors import Problem
from serve.security import LocalOnly, RateLimit, TokenBucket
from tests.unit.serve.http_calls import Clock, Echo, Server, answer, client, problem, scope

# --- browsers -----------------------------------------------------------------------------------------------------

ALLOWED = [
    {"Host": "localhost"},
    {"Host": "localhost:8000"},
    {"Host": "LOCALHOST:8000"},
    {"Host": "127.0.0.1:8000"},
    {"Host": "127.1.2.3"},
    {"Host": "[::1]:8000"},
    {"Host": "studio.internal"},
    {"Host": "localhost:8000", "Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"},
    {"Host": "localhost:8000", "Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"},
    {"Host": "localhost", "Sec-Fetch-Site": "none"},
]
REFUSED = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8000"},
    {"Host": "localhost.evil.example"},
    {"Host": "localhost@evil.example"},
    {"Host": "evil.example@localhost"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "0.0.0.0:8000"},
    {"Host": "192.168.1.7"},
    {"Host": "[::]"},
    {"Host": "[::1"},
    {"Host": "localhost:port"},
    {"Host": ""},
    {"Host": "localhost", "Origin": "http://evil.example"},
    {"Host": "localhost", "Origin": "null"},
    {"Host": "localhost:8000", "Origin": "http://localhost:3000"},
    {"Host": "localhost", "Origin": "https://app.example.evil.example"},
    {"Host": "localhost", "Origin": "http://app.example"},
    {"Host": "localhost", "Sec-Fetch-Site": "cross-site"},
    {"Host": "localhost", "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    {"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},  # a form that posts
]


@pytest.mark.parametrize("headers", ALLOWED + REFUSED, ids=str)
def test_without_keys_only_this_machines_programs_and_pages_may_ask(headers: dict[str, str]) -> None:
    app = Echo()

    async def ask() -> httpx.Response:
        async with client(LocalOnly(app, origins=["https://app.example"], hosts=["Studio.Internal"])) as http:
            return await http.post("/v1/generate", headers=headers)

    response = asyncio.run(ask())
    if headers in ALLOWED:
        assert response.status_code == 200
    else:
        assert response.status_code == 403 and problem(response)["type"].endswith(":forbidden") and app.calls == 0


def test_a_link_from_another_site_may_be_followed() -> None:
    async def ask() -> httpx.Response:
        async with client(LocalOnly(Echo())) as http:
            return await http.get("/docs", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})

    assert asyncio.run(ask()).status_code == 200


def test_a_request_without_host_or_with_two_is_refused() -> None:
    for lines in ([], [(b"host", b"localhost"), (b"host", b"evil.example")]):
        server = Server({"type": "http.request", "body": b""})
        asyncio.run(LocalOnly(Echo())({**scope(), "headers": lines}, server.receive, server.send))
        assert server.status == 403


# --- rates --------------------------------------------------------------------------------------------------------


@given(
    rate=st.floats(0.01, 1000),
    size=st.floats(1, 1000),
    asked=st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 500)), max_size=60),
)
def test_a_bucket_never_grants_more_than_it_holds_and_what_came_in(
    rate: float, size: float, asked: list[tuple[float, float]]
) -> None:
    clock = Clock()
    bucket = TokenBucket(rate, size, clock)
    granted = largest = 0.0
    start = clock.now
    for wait, amount in asked:
        clock.now += wait
        if bucket.take(amount) == 0:
            granted, largest = granted + amount, max(largest, amount)
            assert granted <= (size + rate * (clock.now - start) + largest) * (1 + 1e-9) + 1e-6
        assert bucket.level <= size


@given(rate=st.floats(0.01, 1000), size=st.floats(0.5, 1000), first=st.floats(0.01, 5000))
def test_after_the_seconds_that_a_bucket_names_it_grants_and_not_before(rate: float, size: float, first: float) -> None:
    clock = Clock()
    bucket = TokenBucket(rate, size, clock)
    assert bucket.take(first) == 0, "a full one grants any amount"
    seconds = bucket.take(1)
    if seconds > 0.01:
        clock.now += seconds * 0.9
        assert bucket.take(1) > 0
        clock.now += seconds * 0.1 + 1e-3
        assert bucket.take(1) == 0


def named(app: RateLimit) -> Callable:  # type: ignore[type-arg]
    """The application with a caller whom X-Caller names."""

    async def call(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        info_of(scope).caller = dict(scope["headers"]).get(b"x-caller", b"").decode()
        await app(scope, receive, send)

    return call


def test_a_key_has_its_requests_a_minute_and_is_told_when_to_come_again(clock: Clock) -> None:
    limit = RateLimit(Echo(), requests=60, records=0, replicas=2, clock=clock)

    async def ask() -> None:
        async with client(named(limit)) as http:
            for left in range(29, -1, -1):
                response = await http.post("/", headers={"X-Caller": "alice"})
                assert response.status_code == 200
                assert response.headers["ratelimit-policy"] == '"requests";q=30;w=60'
                assert response.headers["ratelimit"].startswith(f'"requests";r={left};t=')
            refused = await http.post("/", headers={"X-Caller": "alice"})
            assert refused.status_code == 429 and problem(refused)["retryable"]
            assert refused.headers["retry-after"] == "2" and "r=0" in refused.headers["ratelimit"]
            assert (await http.post("/", headers={"X-Caller": "bob"})).status_code == 200, "keys do not share"
            clock.now += 2
            assert (await http.post("/", headers={"X-Caller": "alice"})).status_code == 200
            assert (await http.post("/", headers={"X-Caller": "alice"})).status_code == 429

    asyncio.run(ask())


def test_a_caller_without_a_key_and_a_rate_of_zero_are_not_limited(clock: Clock) -> None:
    async def ask(limit: RateLimit, caller: str) -> set[int]:
        async with client(named(limit)) as http:
            return {(await http.post("/", headers={"X-Caller": caller})).status_code for _ in range(20)}

    assert asyncio.run(ask(RateLimit(Echo(), requests=1, records=1, clock=clock), "")) == {200}
    assert asyncio.run(ask(RateLimit(Echo(), requests=0, records=0, clock=clock), "alice")) == {200}


def test_records_are_limited_too_and_a_request_larger_than_the_rate_is_granted_once(clock: Clock) -> None:
    async def spend(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        try:
            info_of(scope).spend(100)
            await answer(send, b"done")
        except Problem as error:
            await error.response()(scope, receive, send)

    limit = RateLimit(spend, requests=0, records=60, clock=clock)

    async def ask() -> list[httpx.Response]:
        async with client(named(limit)) as http:
            found = []
            for _ in range(2):
                found.append(await http.post("/", headers={"X-Caller": "alice"}))
            clock.now += 41
            return [*found, await http.post("/", headers={"X-Caller": "alice"})]

    first, second, third = asyncio.run(ask())
    assert (first.status_code, second.status_code, third.status_code) == (200, 429, 200)
    assert second.headers["retry-after"] == "41"


def test_a_stream_waits_for_its_allowance() -> None:
    async def stream() -> float:
        info = info_of({})
        info.allowance = TokenBucket(rate=100, size=10)
        since = asyncio.get_running_loop().time()
        for _ in range(30):
            await info.spend_in_time(1)
        return asyncio.get_running_loop().time() - since

    assert asyncio.run(stream()) > 0.18  # 20 of them at 100 a second


def test_buckets_of_names_that_came_and_went_are_forgotten(clock: Clock) -> None:
    limit = RateLimit(Echo(), requests=60, records=60, clock=clock)

    async def ask() -> None:
        async with client(named(limit)) as http:
            for number in range(3000):
                await http.post("/", headers={"X-Caller": f"name{number}"})
                clock.now += 0.5
                assert len(limit._buckets) <= 1025

    asyncio.run(ask())
