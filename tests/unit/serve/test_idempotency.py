"""Answers that are remembered: byte for byte, within bounds, and never in the way."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from serve.asgi import info_of
from serve.idempotency import Answer, Answers, Begun, Idempotency, RemoteAnswers, StoreUnavailable
from tests.sent import sent
from tests.unit.serve.http_calls import Clock, Echo, Server, answer, client, part, pieces, problem, read, scope

PATH = "/v1/generate"
KEY = {"Idempotency-Key": "k-1"}


class Fresh:
    """A handler whose every answer is another."""

    def __init__(self, status: int = 200, outcome: str = "ok") -> None:
        self.status, self.outcome, self.calls = status, outcome, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        await read(receive)
        info_of(scope).count(self.outcome)
        await answer(send, os.urandom(16), self.status, b"application/x-random")


def ask(app: Callable[..., Any], *requests: dict[str, Any]) -> list[httpx.Response]:
    """Sends the requests one after another; each is arguments of httpx, and `path`, `method`."""

    async def call() -> list[httpx.Response]:
        async with client(app) as http:
            found = []
            for request in requests:
                given = {"headers": KEY, "content": b"body", **request}
                found.append(await http.request(given.pop("method", "POST"), given.pop("path", PATH), **given))
            return found

    return asyncio.run(call())


def named(app: Idempotency) -> Callable[..., Any]:
    """The application with a caller whom X-Caller names."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        info_of(scope).caller = dict(scope["headers"]).get(b"x-caller", b"").decode()
        await app(scope, receive, send)

    return call


# --- replays ------------------------------------------------------------------------------------------------------


def test_the_first_answer_is_given_again_byte_for_byte_and_says_so(store: Answers) -> None:
    handler = Fresh(201)
    first, again, third = ask(Idempotency(handler, store, [PATH]), {}, {}, {"content": pieces(b"bo", b"dy")})
    assert handler.calls == 1 and "idempotency-replayed" not in first.headers
    for replay in (again, third):
        assert (replay.status_code, replay.content) == (201, first.content)
        assert replay.headers.pop("idempotency-replayed") == "true"
        assert replay.headers == first.headers


def test_a_client_error_of_the_request_itself_is_remembered(store: Answers) -> None:
    handler = Fresh(422)
    first, again = ask(Idempotency(handler, store, [PATH]), {}, {})
    assert handler.calls == 1 and first.content == again.content


@pytest.mark.parametrize("status", [401, 403, 408, 409, 425, 429, 499, 500, 502, 503, 504])
def test_what_may_succeed_later_is_not_remembered(store: Answers, status: int) -> None:
    handler = Fresh(status)
    ask(Idempotency(handler, store, [PATH]), {}, {})
    assert handler.calls == 2 and store.size == 0


@pytest.mark.parametrize(("outcome", "calls"), [("lost", 2), ("busy", 2), ("deadline", 2), ("record", 1), ("ok", 1)])
def test_an_answer_with_a_record_that_may_succeed_later_is_not_remembered(
    store: Answers, outcome: str, calls: int
) -> None:
    handler = Fresh(200, outcome)
    ask(Idempotency(handler, store, [PATH]), {}, {})
    assert handler.calls == calls


@pytest.mark.parametrize(
    "other",
    [
        {"content": b"another"},
        {"content": b""},
        {"path": PATH + "?n_best=2"},
        {"path": "/v1/plan"},
        {"headers": {**KEY, "Content-Type": "text/csv"}},
    ],
    ids=str,
)
def test_a_key_names_one_request(store: Answers, other: dict[str, Any]) -> None:
    handler = Fresh()
    first, refused, again = ask(Idempotency(handler, store, [PATH, "/v1/plan"]), {}, other, {})
    assert refused.status_code == 422 and problem(refused)["field"] == "Idempotency-Key"
    assert handler.calls == 1 and again.content == first.content


def test_callers_do_not_share_keys(store: Answers) -> None:
    handler = Fresh()
    given = [{"headers": {**KEY, "X-Caller": name}} for name in ("alice", "bob", "alice", "")]
    alice, bob, again, nobody = ask(named(Idempotency(handler, store, [PATH])), *given)
    assert handler.calls == 3 and alice.content == again.content
    assert len({alice.content, bob.content, nobody.content}) == 3


def test_a_callers_name_and_key_cannot_be_put_together_otherwise(store: Answers) -> None:
    handler = Fresh()
    given = [{"headers": {"Idempotency-Key": key, "X-Caller": name}} for name, key in (("a", "b-c"), ("a-b", "c"))]
    ask(named(Idempotency(handler, store, [PATH])), *given)
    assert handler.calls == 2


def test_without_a_key_or_elsewhere_nothing_is_remembered(store: Answers) -> None:
    handler = Fresh()
    app = Idempotency(handler, store, [PATH])
    elsewhere = [{"headers": {}}, {"path": "/v1/generate:stream"}, {"method": "GET"}, {"method": "PUT"}]
    ask(app, *elsewhere, *elsewhere)
    assert handler.calls == 8 and store.size == 0


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "\u00e9", "a\tb"])
def test_a_key_that_is_none_is_refused(store: Answers, key: str) -> None:
    (refused,) = ask(Idempotency(Fresh(), store, [PATH]), {"headers": {"Idempotency-Key": key.encode("latin-1")}})
    assert refused.status_code == 400 and problem(refused)["field"] == "Idempotency-Key"


def test_two_keys_are_refused(store: Answers) -> None:
    lines = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert ask(Idempotency(Fresh(), store, [PATH]), {"headers": lines})[0].status_code == 400


def test_an_answer_in_parts_is_remembered_whole_and_one_too_long_is_not(store: Answers) -> None:
    async def parts(scope: Scope, receive: Receive, send: Send) -> None:
        await read(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(4):
            await send({"type": "http.response.body", "body": os.urandom(25), "more_body": True})
        await send({"type": "http.response.body"})

    first, again = ask(Idempotency(parts, store, [PATH], most_bytes=100), {}, {})
    assert first.content == again.content and len(first.content) == 100
    first, again = ask(Idempotency(parts, Answers(1 << 20, 3600), [PATH], most_bytes=99), {}, {})
    assert first.content != again.content


# --- while the first is worked on ---------------------------------------------------------------------------------


class Gate:
    """A handler that answers when it may."""

    def __init__(self) -> None:
        self.go, self.begun = asyncio.Event(), asyncio.Event()
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        await read(receive)
        self.begun.set()
        await self.go.wait()
        await answer(send, os.urandom(16))


def test_the_same_request_again_meanwhile_is_told_to_come_again(store: Answers) -> None:
    async def check() -> None:
        gate = Gate()
        async with client(Idempotency(gate, store, [PATH])) as http:
            first = asyncio.create_task(http.post(PATH, headers=KEY, content=b"body"))
            await gate.begun.wait()
            meanwhile = await asyncio.gather(*(http.post(PATH, headers=KEY, content=b"body") for _ in range(20)))
            assert {one.status_code for one in meanwhile} == {409}
            assert meanwhile[0].headers["retry-after"] == "1" and problem(meanwhile[0])["retryable"]
            assert (await http.post(PATH, headers=KEY, content=b"other")).status_code == 422
            gate.go.set()
            done = await first
            again = await http.post(PATH, headers=KEY, content=b"body")
            assert again.content == done.content and gate.calls == 1

    asyncio.run(check())


def test_a_client_that_has_its_answer_finds_it_remembered(store: Answers) -> None:
    """Not a moment later: it may ask again as soon as the last byte has come."""

    async def check() -> None:
        found: list[Answer | Begun] = []
        content = ""

        class Noting(Answers):
            async def begin(self, key: str, what: str, owner: str) -> Answer | Begun:
                nonlocal content
                content = what
                return await super().begin(key, what, owner)

        noting = Noting(1 << 20, 60)
        server = Server(part(b"body", more=False))

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                found.append(await noting.begin(" k-1", content, "somebody"))

        app = Idempotency(Echo(), noting, [PATH])
        await app(scope(headers=[(b"idempotency-key", b"k-1")]), server.receive, send)
        assert isinstance(found[0], Answer) and found[0].body == b"body"

    asyncio.run(check())


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_first_caller_that_comes_to_nothing_lets_go_of_the_key(store: Answers, how: str) -> None:
    async def check() -> None:
        gate = Gate()

        async def failing(scope: Scope, receive: Receive, send: Send) -> None:
            await gate(scope, receive, send) if how == "cancelled" else await _raise()

        app = Idempotency(failing, store, [PATH])
        async with client(app) as http:
            first = asyncio.create_task(http.post(PATH, headers=KEY, content=b"body"))
            if how == "cancelled":
                await gate.begun.wait()
                first.cancel()
            with suppress(asyncio.CancelledError, RuntimeError):
                await first
            await asyncio.sleep(0.01)
            app.app = Echo()
            assert (await http.post(PATH, headers=KEY, content=b"body")).status_code == 200
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing goes on renewing"

    async def _raise() -> None:
        raise RuntimeError

    asyncio.run(check())


def test_a_client_that_goes_away_while_the_memory_is_asked_takes_no_key() -> None:
    async def check() -> None:
        asked = asyncio.Event()

        class Slow(Answers):
            async def begin(self, key: str, content: str, owner: str) -> Answer | Begun:
                begun = await super().begin(key, content, owner)
                asked.set()
                await asyncio.sleep(60)
                return begun

        store = Slow(1 << 20, 60)
        async with client(Idempotency(Echo(), store, [PATH])) as http:
            first = asyncio.create_task(http.post(PATH, headers=KEY, content=b"body"))
            await asked.wait()
            first.cancel()
            await asyncio.wait({first})
            await asyncio.sleep(0.01)
        assert store.size == 0

    asyncio.run(check())


def test_a_client_that_goes_away_while_it_sends_takes_no_key(store: Answers) -> None:
    handler = Echo()
    server = Server(part(b"bo"), {"type": "http.disconnect"})
    app = Idempotency(handler, store, [PATH])
    asyncio.run(app(scope(headers=[(b"idempotency-key", b"k-1")]), server.receive, server.send))
    assert handler.calls == 0 and store.size == 0


def test_a_key_is_held_as_long_as_its_request_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serve.idempotency.LEASE_SECONDS", 0.3)

    async def check() -> None:
        gate, store = Gate(), Answers(1 << 20, 60)
        async with client(Idempotency(gate, store, [PATH])) as http:
            first = asyncio.create_task(http.post(PATH, headers=KEY, content=b"body"))
            await gate.begun.wait()
            await asyncio.sleep(0.7)
            assert (await http.post(PATH, headers=KEY, content=b"body")).status_code == 409
            gate.go.set()
            await first

    asyncio.run(check())


# --- a memory elsewhere -------------------------------------------------------------------------------------------


class Handle:
    """A handle of Serve to a deployment of `Answers`, which may be slow or gone."""

    def __init__(self) -> None:
        self.answers, self.gone, self.slow, self.asked = Answers(1 << 20, 60), False, False, 0

    def __getattr__(self, name: str) -> Any:
        handle = self

        class Method:
            async def remote(self, *arguments: Any) -> Any:
                handle.asked += 1
                if handle.slow:
                    await asyncio.sleep(60)
                if handle.gone:
                    raise RuntimeError("the actor died")
                return sent(await getattr(handle.answers, name)(*arguments))

        return Method()


def test_replicas_share_the_memory_behind_a_handle() -> None:
    handle, handler = Handle(), Fresh()
    one, two = (Idempotency(handler, RemoteAnswers(handle), [PATH]) for _ in range(2))
    (first,), (again,) = ask(one, {}), ask(two, {})
    assert handler.calls == 1 and first.content == again.content


@pytest.mark.parametrize("trouble", ["gone", "slow"])
def test_where_the_memory_is_out_of_reach_requests_are_served_without_it(
    trouble: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    handle, handler = Handle(), Fresh()
    store = RemoteAnswers(handle, seconds=0.1, pause=5, clock=clock)
    app = Idempotency(handler, store, [PATH])
    setattr(handle, trouble, True)
    with caplog.at_level(logging.WARNING):
        assert [response.status_code for response in ask(app, *[{}] * 10)] == [200] * 10
    assert handle.asked == 1, "it is left alone for a while"
    assert len(caplog.records) == 1 and "k-1" not in caplog.text
    setattr(handle, trouble, False)
    clock.now += 6
    first, again = ask(app, {}, {})
    assert first.content == again.content and handler.calls == 11


def test_a_memory_that_goes_away_while_a_request_is_worked_on_does_not_hurt_it(clock: Clock) -> None:
    handle = Handle()

    async def breaking(scope: Scope, receive: Receive, send: Send) -> None:
        handle.gone = True
        await answer(send, await read(receive))

    (response,) = ask(Idempotency(breaking, RemoteAnswers(handle, clock=clock), [PATH]), {})
    assert (response.status_code, response.content) == (200, b"body")


def test_a_memory_elsewhere_says_that_it_is_out_of_reach(clock: Clock) -> None:
    async def check() -> None:
        handle = Handle()
        handle.gone = True
        store = RemoteAnswers(handle, clock=clock)
        for call in (store.begin("k", "c", "o"), store.finish("k", "o", Answer(200, (), b"")), store.drop("k", "o")):
            with pytest.raises(StoreUnavailable):
                await call

    asyncio.run(check())


def test_a_memory_whose_replica_stops_does_not_cancel_requests(clock: Clock) -> None:
    async def check() -> None:
        async def stopping() -> None:
            raise asyncio.CancelledError  # as Serve does

        handle = SimpleNamespace(begin=SimpleNamespace(remote=lambda *_: stopping()))
        with pytest.raises(StoreUnavailable):
            await RemoteAnswers(handle, clock=clock).begin("k", "c", "o")
        handle.begin.remote = lambda *_: asyncio.sleep(60)
        task = asyncio.create_task(RemoteAnswers(handle, seconds=60).begin("k", "c", "o"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(check())
