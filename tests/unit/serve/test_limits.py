"""Sizes, pace, and how many requests there are at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from agggen_platform.serving.config import LimitsConfig
from serve.asgi import info_of
from serve.errors import Problem
from serve.limits import Admission, BodyLimit, Pace
from tests.unit.serve.http_calls import Echo, Server, answer, client, part, pieces, problem, read, scope

LIMITS = replace(LimitsConfig(), body_bytes=10, stream_bytes=100, head_bytes=1000)


def ask(app: Callable, **request: object) -> httpx.Response:  # type: ignore[type-arg]
    async def call() -> httpx.Response:
        async with client(app) as http:
            return await http.post(str(request.pop("path", "/v1/generate")), **request)  # type: ignore[arg-type]

    return asyncio.run(call())


async def until(true: Callable[[], bool]) -> None:
    """Waits, for as long as a busy machine may take."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.001)


# --- sizes --------------------------------------------------------------------------------------------------------


def test_a_body_up_to_the_limit_passes_unchanged() -> None:
    for size in (0, 1, 10):
        assert ask(BodyLimit(Echo(), LIMITS), content=b"x" * size).content == b"x" * size
        assert ask(BodyLimit(Echo(), LIMITS), content=pieces(b"x" * size, b"")).content == b"x" * size


def test_a_longer_body_is_refused_before_any_of_it_is_read() -> None:
    app = Echo()
    server = Server()  # nothing comes
    lines = [(b"content-length", b"11")]
    asyncio.run(BodyLimit(app, LIMITS)(scope(headers=lines), server.receive, server.send))
    assert server.status == 413 and app.calls == 0


@pytest.mark.parametrize("path", ["/v1/generate", "/v1/generate:stream"])
def test_a_longer_body_without_a_length_is_refused_as_soon_as_it_is_too_long(path: str) -> None:
    app = Echo()
    most = 100 if path.endswith("stream") else 10
    server = Server(part(b"x" * (most - 1)), part(b"xx"))  # and then nothing: more is not waited for
    limit = BodyLimit(app, LIMITS, ["/v1/generate:stream"])
    asyncio.run(asyncio.wait_for(limit(scope(path), server.receive, server.send), 20))
    assert server.status == 413 and b"too-large" in server.body and str(most).encode() in server.body


def test_a_body_longer_than_its_length_says_is_counted() -> None:
    server = Server(part(b"x" * 5), part(b"x" * 6, more=False))
    limit = BodyLimit(Echo(), LIMITS)
    asyncio.run(limit(scope(headers=[(b"content-length", b"3")]), server.receive, server.send))
    assert server.status == 413


def test_a_stream_has_a_limit_of_its_own() -> None:
    limit = BodyLimit(Echo(), LIMITS, ["/v1/generate:stream"])
    assert ask(limit, path="/v1/generate:stream", content=b"x" * 100).content == b"x" * 100
    assert ask(limit, path="/v1/generate:stream", content=b"x" * 101).status_code == 413
    assert ask(limit, path="/v1/generate", content=b"x" * 11).status_code == 413


@pytest.mark.parametrize("value", ["-1", "+5", "1e3", "0x5", "5, 5", "", "٣", " 5"])
def test_a_length_that_is_no_number_is_refused(value: str) -> None:
    server = Server(part(b"", more=False))
    limit = BodyLimit(Echo(), LIMITS)
    lines = [(b"content-length", value.encode())]
    asyncio.run(limit(scope(headers=lines), server.receive, server.send))
    assert server.status == 400


def test_two_lengths_are_refused_and_a_huge_one_is_too_large() -> None:
    for lengths, status in (([b"3", b"4"], 400), ([b"9" * 900], 413), ([b"0" * 300 + b"3"], 200), ([b"3", b"3"], 200)):
        server = Server(part(b"abc", more=False))
        lines = [(b"content-length", length) for length in lengths]
        asyncio.run(BodyLimit(Echo(), LIMITS)(scope(headers=lines), server.receive, server.send))
        assert server.status == status, lengths


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP", "x"])
def test_a_coded_body_is_refused_so_nothing_is_ever_unpacked(coding: str) -> None:
    app = Echo()
    response = ask(BodyLimit(app, LIMITS), content=b"x", headers={"Content-Encoding": coding})
    assert response.status_code == 415 and response.headers["accept-encoding"] == "identity" and app.calls == 0
    assert ask(BodyLimit(app, LIMITS), content=b"x", headers={"Content-Encoding": "Identity"}).status_code == 200


def test_address_and_headers_are_bounded() -> None:
    limit = BodyLimit(Echo(), LIMITS)
    assert ask(limit, path="/" + "x" * 1000).status_code == 413
    assert ask(limit, path="/?" + "x" * 1000).status_code == 413
    assert ask(limit, headers={"X-Long": "x" * 1000}).status_code == 413
    assert ask(limit, headers={"X-Long": "x" * 500}).status_code == 200


def test_what_a_handler_makes_of_the_problem_does_not_matter() -> None:
    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(Problem):
            await read(receive)
        with pytest.raises(Problem):
            await receive()  # it stays so
        await answer(send, b"fine!")

    async def translating(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await read(receive)
        except Problem as error:
            raise RuntimeError("cannot parse") from error

    for app in (stubborn, translating):
        assert ask(BodyLimit(app, LIMITS), content=pieces(b"x" * 11)).status_code == 413


def test_an_answer_that_has_begun_goes_on_and_can_tell_the_problem() -> None:
    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun;", "more_body": True})
        try:
            await read(receive)
        except Problem as error:
            await send({"type": "http.response.body", "body": error.kind.code.encode()})

    for path in ("/v1/generate", "/v1/generate:stream"):
        response = ask(
            BodyLimit(streaming, LIMITS, ["/v1/generate:stream"]), path=path, content=pieces(b"x", b"x" * 100)
        )
        assert (response.status_code, response.content) == (200, b"begun;too-large")


# --- streams are read ahead ---------------------------------------------------------------------------------------


def paused(go: asyncio.Event) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """A handler that does not read before it may."""

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await answer(send, await read(receive))

    return handler


def test_a_stream_that_is_not_read_is_counted_all_the_same() -> None:
    async def check() -> None:
        go = asyncio.Event()
        limit = BodyLimit(paused(go), LIMITS, ["/s"])
        server = Server(*[part(b"x" * 30)] * 10)
        request = asyncio.create_task(limit(scope("/s"), server.receive, server.send))
        await until(lambda: server.coming.qsize() == 6)
        await asyncio.sleep(0.05)
        assert server.coming.qsize() == 6, "after the fourth, which was too much, no more is taken in"
        go.set()
        await request
        assert server.status == 413 and limit.waiting == 0

    asyncio.run(check())


def test_a_stream_that_is_too_long_says_so_before_what_still_waits() -> None:
    async def check() -> None:
        go = asyncio.Event()

        async def handler(scope: Scope, receive: Receive, send: Send) -> None:
            await go.wait()
            with pytest.raises(Problem):
                await receive()

        server = Server(*[part(b"x" * 30)] * 4)
        limit = BodyLimit(handler, LIMITS, ["/s"])
        request = asyncio.create_task(limit(scope("/s"), server.receive, server.send))
        await until(server.coming.empty)
        await asyncio.sleep(0.01)
        go.set()
        await request
        assert server.status == 413

    asyncio.run(check())


def test_all_streams_together_hold_no_more_than_the_buffer_and_the_one_that_brings_more_ends() -> None:
    async def check() -> None:
        go = asyncio.Event()
        limit = BodyLimit(paused(go), replace(LIMITS, stream_buffer_bytes=60), ["/s"])
        first, second = Server(part(b"a" * 40)), Server(part(b"b" * 20))
        tasks = [asyncio.create_task(limit(scope("/s"), one.receive, one.send)) for one in (first, second)]
        await until(lambda: limit.waiting == 60)
        second.coming.put_nowait(part(b"b"))
        await until(second.coming.empty)
        go.set()
        await tasks[1]
        assert second.status == 429 and b"busy" in second.body
        first.coming.put_nowait(part(b"a", more=False))
        await tasks[0]
        assert first.status == 200 and first.body == b"a" * 41 and limit.waiting == 0

    asyncio.run(check())


def test_one_piece_larger_than_the_buffer_still_passes_where_nothing_else_of_it_waits() -> None:
    limit = BodyLimit(Echo(), replace(LIMITS, stream_buffer_bytes=5), ["/s"])
    assert ask(limit, path="/s", content=b"x" * 50).content == b"x" * 50


def test_the_order_of_a_stream_is_kept_but_a_client_that_is_gone_comes_first() -> None:
    async def all_of_it(scope: Scope, receive: Receive, send: Send) -> None:
        assert [(await receive())["body"] for _ in range(2)] == [b"1", b"2"]
        server.coming.put_nowait({"type": "http.disconnect"})
        await asyncio.sleep(0.01)
        assert [(await receive())["type"] for _ in range(2)] == ["http.disconnect"] * 2
        await answer(send, b"")

    server = Server(part(b"1"), part(b"2"), part(b"3"))
    asyncio.run(asyncio.wait_for(BodyLimit(all_of_it, LIMITS, ["/s"])(scope("/s"), server.receive, server.send), 20))
    assert server.status == 200


def test_a_failure_of_the_server_reaches_the_handler_and_nothing_is_left_behind() -> None:
    async def check() -> None:
        async def broken() -> Message:
            raise ConnectionResetError("gone")

        limit = BodyLimit(Echo(), LIMITS, ["/s"])
        with pytest.raises(ConnectionResetError):
            await limit(scope("/s"), broken, Server().send)
        task = asyncio.create_task(limit(scope("/s"), Server(part(b"12345")).receive, Server().send))
        await until(lambda: limit.waiting == 0 and limit.app.calls == 2)  # type: ignore[attr-defined]
        task.cancel()
        await asyncio.wait({task})
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        assert limit.waiting == 0

    asyncio.run(check())


# --- pace ---------------------------------------------------------------------------------------------------------

SLOW = replace(LimitsConfig(), body_wait_s=0.2, body_rate=100, send_wait_s=0.2)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    server = Server(part(b"x"))
    asyncio.run(asyncio.wait_for(Pace(Echo(), SLOW)(scope(), server.receive, server.send), 20))
    assert server.status == 408 and b'"retryable": true' in server.body
    assert (b"connection", b"close") in server.got[0]["headers"], "nor is the rest of it"


def test_a_body_that_drips_is_cut_off_though_each_piece_comes_soon() -> None:
    async def check() -> Server:
        server = Server()

        async def drip() -> None:
            while True:
                server.coming.put_nowait(part(b"x"))  # worth 0.01 s
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        await asyncio.wait_for(Pace(Echo(), SLOW)(scope(), server.receive, server.send), 20)
        dripping.cancel()
        return server

    assert asyncio.run(check()).status == 408


def test_what_comes_fast_enough_may_take_long_and_our_own_work_does_not_count() -> None:
    async def working(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(4):
            await receive()
            await asyncio.sleep(0.15)  # 0.6 s in all
        await answer(send, b"done")

    server = Server(*[part(b"x" * 1000)] * 3, part(b"", more=False))
    asyncio.run(Pace(working, SLOW)(scope(), server.receive, server.send))
    assert server.status == 200


def test_when_the_body_is_over_waiting_for_the_client_to_go_has_no_limit() -> None:
    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.5)
        await answer(send, b"done")

    server = Server(part(b"", more=False))
    asyncio.run(Pace(watching, SLOW)(scope(), server.receive, server.send))
    assert server.status == 200


def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    stopped = False

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal stopped
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        except OSError:
            stopped = True
            raise

    sent: list[Message] = []

    async def stuck(message: Message) -> None:
        sent.append(message)
        if len(sent) > 3:
            await asyncio.Event().wait()

    request = scope()
    asyncio.run(asyncio.wait_for(Pace(streaming, SLOW)(request, Server().receive, stuck), 20))
    assert stopped and info_of(request).refused == "pace"
    assert all(message.get("more_body", True) for message in sent), "the answer is not told to be whole"


# --- admission ----------------------------------------------------------------------------------------------------


def test_more_requests_than_the_queue_holds_are_refused_at_once_and_places_are_given_back() -> None:
    async def check() -> None:
        go = asyncio.Event()
        admission = Admission(paused(go), 3, ["/healthz"])
        async with client(admission) as http:
            inside = [asyncio.create_task(http.post("/", content=b"x")) for _ in range(3)]
            await until(lambda: admission.inside == 3)
            refused = await asyncio.wait_for(http.post("/"), 20)
            assert (
                refused.status_code == 429 and refused.headers["retry-after"] == "1" and problem(refused)["retryable"]
            )
            health = asyncio.create_task(http.get("/healthz"))
            await asyncio.sleep(0.01)
            inside[0].cancel()  # a client that went away
            await until(lambda: admission.inside == 2)
            go.set()
            assert {(await one).status_code for one in [*inside[1:], health]} == {200}
        assert admission.inside == 0

    asyncio.run(check())


def test_a_handler_that_fails_gives_its_place_back() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError

    async def check() -> None:
        admission = Admission(failing, 2)
        async with client(admission) as http:
            for _ in range(5):
                with pytest.raises(RuntimeError):
                    await http.post("/")
        assert admission.inside == 0

    asyncio.run(check())


def test_under_a_crowd_there_are_never_more_inside_than_may_be_and_each_gets_one_answer() -> None:
    inside = most = 0

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.002)
        inside -= 1
        await answer(send, b"")

    async def crowd() -> list[int]:
        async with client(Admission(counting, 5)) as http:
            return [one.status_code for one in await asyncio.gather(*(http.post("/") for _ in range(200)))]

    statuses = asyncio.run(crowd())
    assert most == 5 and set(statuses) == {200, 429} and len(statuses) == 200
