"""Requests that may be sent again: the answer to an ``Idempotency-Key`` is remembered, and given again.

A key belongs to its caller. It names one request: with another body or address it is refused (422), and while the first
is still worked on, a second gets 409 with Retry-After. What may succeed later (429, 5xx, a record that was lost) is not
remembered. Generation is deterministic but for the last digits of its numbers, so where the memory is out of reach
requests are served without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.asgi import headers, info_of, refuse, route_path
from serve.engine import RETRYABLE
from serve.errors import Problem

_log = logging.getLogger("agggen.serve")

LEASE_SECONDS = 10.0
"""How long a request holds its key without saying so again: a replica that died with it lets go of it then."""
_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_NOT_REMEMBERED = frozenset({401, 403, 408, 409, 425, 429, 499})
_OF_ONE_ANSWER = frozenset({b"date", b"server", b"x-request-id", b"connection", b"transfer-encoding"})
_OVERHEAD = 512  # bytes of an entry beside its answer, roughly


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body) + sum(len(name) + len(value) for name, value in self.headers)


class Begun(Enum):
    """What becomes of a request that has no answer yet."""

    FIRST = "first"  # work on it
    RUNNING = "running"  # somebody does
    OTHER = "other"  # the key names another request


class StoreUnavailable(Exception):
    """The memory of answers cannot be reached."""


class AnswerStore(Protocol):
    """Answers by key. Every method may raise StoreUnavailable."""

    async def begin(self, key: str, content: str, owner: str) -> Answer | Begun:
        """The remembered answer; or FIRST, and `owner` holds the key for LEASE_SECONDS. `content` is what was asked."""
        ...

    async def renew(self, key: str, owner: str) -> None:
        """Holds the key for LEASE_SECONDS from now."""
        ...

    async def finish(self, key: str, owner: str, answer: Answer) -> None:
        """Remembers the answer, if `owner` still holds the key."""
        ...

    async def drop(self, key: str, owner: str) -> None:
        """Lets go of the key, if `owner` holds it and did not finish."""
        ...


@dataclass(slots=True)
class _Entry:
    content: str
    until: float
    owner: str | None  # None: finished
    answer: Answer | None = None
    size: int = _OVERHEAD


class Answers:
    """An AnswerStore in memory: at most `most_bytes`, each answer for at most `seconds`, the longest unused go first.

    Plain, so that it can be one replica that all of an endpoint share.
    """

    def __init__(self, most_bytes: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most_bytes, seconds, clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the longest unused first
        self.size = 0  # bytes, roughly
        self._swept = clock()

    async def begin(self, key: str, content: str, owner: str) -> Answer | Begun:
        now = self._clock()
        self._sweep(now)
        entry = self._entries.get(key)
        if entry is not None and entry.until <= now:
            self._remove(key)
            entry = None
        if entry is None:
            self._add(key, _Entry(content, now + LEASE_SECONDS, owner))
            return Begun.FIRST
        if entry.content != content:
            return Begun.OTHER
        if entry.answer is None:
            return Begun.RUNNING
        self._entries.move_to_end(key)
        return entry.answer

    async def renew(self, key: str, owner: str) -> None:
        if entry := self._held(key, owner):
            entry.until = self._clock() + LEASE_SECONDS

    async def finish(self, key: str, owner: str, answer: Answer) -> None:
        if entry := self._held(key, owner):
            self._remove(key)
            size = _OVERHEAD + answer.size
            self._add(key, _Entry(entry.content, self._clock() + self._seconds, None, answer, size))

    async def drop(self, key: str, owner: str) -> None:
        if self._held(key, owner):
            self._remove(key)

    def _held(self, key: str, owner: str) -> _Entry | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.owner == owner else None

    def _add(self, key: str, entry: _Entry) -> None:
        if entry.size > self._most:
            return  # not remembered, rather than all others forgotten
        self._entries[key] = entry
        self.size += entry.size
        while self.size > self._most:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: str) -> None:
        self.size -= self._entries.pop(key).size

    def _sweep(self, now: float) -> None:
        """Forgets, once a minute, all whose time is over: they may be confidential."""
        if now - self._swept >= 60:
            self._swept = now
            for key in [key for key, entry in self._entries.items() if entry.until <= now]:
                self._remove(key)


class RemoteAnswers:
    """An AnswerStore behind a handle of Ray Serve to a deployment of `Answers`.

    Where it fails or takes longer than `seconds`, it counts as out of reach, and is left alone for `pause` seconds.
    """

    def __init__(
        self, handle: Any, seconds: float = 1.0, pause: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handle, self._seconds, self._pause, self._clock = handle, seconds, pause, clock
        self._down_until = float("-inf")

    async def begin(self, key: str, content: str, owner: str) -> Answer | Begun:
        return await self._ask("begin", key, content, owner)

    async def renew(self, key: str, owner: str) -> None:
        await self._ask("renew", key, owner)

    async def finish(self, key: str, owner: str, answer: Answer) -> None:
        await self._ask("finish", key, owner, answer)

    async def drop(self, key: str, owner: str) -> None:
        await self._ask("drop", key, owner)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        if self._clock() < self._down_until:
            raise StoreUnavailable
        task = asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        try:
            async with asyncio.timeout(self._seconds):
                return await getattr(self._handle, method).remote(*arguments)
        except (Exception, asyncio.CancelledError) as error:  # a memory that fails must not fail requests
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > cancelled):
                raise  # the request was; else its memory's replica stops, for which Serve raises the same
            self._down_until = self._clock() + self._pause
            _log.warning("requests are served without the memory of answers: %s", type(error).__name__)
            raise StoreUnavailable from error


class Idempotency:
    """ASGI middleware: answers POST requests with an ``Idempotency-Key`` once, and again from memory.

    A replay is the same status, headers and bytes, and says so: ``Idempotency-Replayed: true``. It stands inside of
    `BodyLimit` (it reads whole bodies) and of what finds the caller.
    """

    def __init__(self, app: ASGIApp, store: AnswerStore, paths: Collection[str], most_bytes: int = 8 << 20) -> None:
        """`paths` take keys; elsewhere they are ignored. Answers of more than `most_bytes` are not remembered."""
        self.app, self.store, self.paths, self.most_bytes = app, store, frozenset(paths), most_bytes
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = headers(scope, b"idempotency-key") if scope["type"] == "http" else []
        if not given or scope["method"] != "POST" or route_path(scope) not in self.paths:
            await self.app(scope, receive, send)
            return
        if len(given) > 1 or not _KEY.fullmatch(given[0]):
            detail = "an Idempotency-Key is 1 to 255 printable ASCII characters without blanks"
            await refuse(Problem("malformed", detail, field="Idempotency-Key"), "idempotency", scope, receive, send)
            return
        body = await _whole_body(receive)
        if body is None:
            return  # the client went away
        key, owner = f"{info_of(scope).caller} {given[0].decode('ascii')}", uuid.uuid4().hex
        receive = _read_again(body, receive)
        try:
            begun = await self.store.begin(key, _content(scope, body), owner)
        except StoreUnavailable:
            await self.app(scope, receive, send)
            return
        except asyncio.CancelledError:  # the key may be held by now
            self._later(self._settle(key, owner, None))
            raise
        if isinstance(begun, Answer):
            info_of(scope).replayed = True
            lines = [*begun.headers, (b"idempotency-replayed", b"true")]
            await send({"type": "http.response.start", "status": begun.status, "headers": lines})
            await send({"type": "http.response.body", "body": begun.body})
        elif begun is Begun.FIRST:
            await self._first(key, owner, scope, receive, send)
        else:
            running = begun is Begun.RUNNING
            detail = (
                "a request with this key is being worked on" if running else "this key was used for another request"
            )
            problem = Problem("conflict", detail, retry_after=1) if running else Problem("invalid", detail)
            problem.field = "Idempotency-Key"
            await refuse(problem, "idempotency", scope, receive, send)

    async def _first(self, key: str, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        copy, settled = _Copy(self.most_bytes), False

        async def copying(message: Message) -> None:
            nonlocal settled
            if copy.add(message):  # before the client has it all: it may ask again at once
                settled = True
                lost = set(info_of(scope).outcomes) & set(RETRYABLE)
                await self._settle(key, owner, None if lost else copy.answer)
            await send(message)

        renewing = asyncio.create_task(self._renew(key, owner))
        try:
            await self.app(scope, receive, copying)
        except asyncio.CancelledError:  # the client went away, and nothing may be waited for
            self._later(self._settle(key, owner, None))
            raise
        except Exception:
            await self._settle(key, owner, None)
            raise
        else:
            if not settled:
                await self._settle(key, owner, None)
        finally:
            renewing.cancel()

    async def _renew(self, key: str, owner: str) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            with suppress(StoreUnavailable):
                await self.store.renew(key, owner)

    async def _settle(self, key: str, owner: str, answer: Answer | None) -> None:
        with suppress(StoreUnavailable):
            await (self.store.drop(key, owner) if answer is None else self.store.finish(key, owner, answer))

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Copy:
    """The answer that passes by."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._body = most_bytes, bytearray()
        self._start: Message = {}

    def add(self, message: Message) -> bool:
        """Whether this is the last message."""
        if message["type"] == "http.response.start":
            self._start = message
        if message["type"] != "http.response.body":
            return False
        if len(self._body) <= self._most:
            self._body += message.get("body", b"")
        return not message.get("more_body", False)

    @property
    def answer(self) -> Answer | None:
        """The answer, if it is one to be remembered."""
        status = self._start["status"]
        if status >= 500 or status in _NOT_REMEMBERED or len(self._body) > self._most:
            return None
        lines = ((bytes(name), bytes(value)) for name, value in self._start.get("headers", ()))
        return Answer(status, tuple(line for line in lines if line[0].lower() not in _OF_ONE_ANSWER), bytes(self._body))


async def _whole_body(receive: Receive) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _read_again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _content(scope: Scope, body: bytes) -> str:
    """A fingerprint of what is asked for: address, formats, body."""
    digest = hashlib.sha256()
    parts = [route_path(scope).encode(), scope.get("query_string", b"")]
    parts += [b"\n".join(headers(scope, name)) for name in (b"content-type", b"accept")]
    for part in [*parts, body]:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
