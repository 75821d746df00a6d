"""What a request may cost before anybody works on it: its size, its pace, and how many there are at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen_platform.serving.config import LimitsConfig
from serve.asgi import headers, info_of, refuse, route_path
from serve.errors import Problem


class _Exchange:
    """A request whose `receive` may raise a Problem. Unless the answer has begun, that problem is the answer."""

    def __init__(self, guard: str, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.problem: Problem | None = None
        self.begun = False

    async def receive(self) -> Message:
        if self.problem is not None:
            raise self.problem
        try:
            return await self.next()
        except Problem as problem:
            self.problem = problem
            info = info_of(self.scope)
            info.refused = info.refused or self.guard  # the problem may be an outer one's
            raise

    async def next(self) -> Message:
        """The next message; raises Problem to refuse the request."""
        raise NotImplementedError

    async def send(self, message: Message) -> None:
        if self.problem is not None and not self.begun:
            return  # what the application makes of the problem
        self.begun = True
        await self._send(message)

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except Exception:
            if self.problem is None or self.begun:
                raise
        if self.problem is not None and not self.begun:
            await refuse(self.problem, self.guard, self.scope, self._receive, self._send)


class BodyLimit:
    """ASGI middleware: refuses heads and bodies that are too large (413), and bodies in a coding (415).

    A body is refused by its Content-Length before any of it is read, and else as soon as more has come than may.
    `receive` raises the Problem then, so that an answer that has begun can tell it too.

    Serve takes in whatever a client sends, however slowly it is worked on. So bodies of streams are read ahead here,
    where they are counted: with `limits.stream_buffer_bytes` of all waiting, the stream that brings more ends (429).
    """

    def __init__(self, app: ASGIApp, limits: LimitsConfig, stream_paths: Collection[str] = ()) -> None:
        """`stream_paths`: their bodies may have `limits.stream_bytes`, all others `limits.body_bytes`."""
        self.app, self.limits, self.stream_paths = app, limits, frozenset(stream_paths)
        self.waiting = 0  # bytes of streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        streams = route_path(scope) in self.stream_paths
        most = self.limits.stream_bytes if streams else self.limits.body_bytes
        if problem := self._bad_head(scope, most):
            await refuse(problem, "size" if problem.kind.status == 413 else "head", scope, receive, send)
        elif streams:
            await _ReadAhead(self, scope, receive, send).run(self.app)
        else:
            await _Counted(most, scope, receive, send).run(self.app)

    def _bad_head(self, scope: Scope, most: int) -> Problem | None:
        address = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
        if address + sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.head_bytes:
            return Problem("too-large", f"address and headers have more than {self.limits.head_bytes} bytes")
        codings = [value.strip().lower() for value in headers(scope, b"content-encoding")]
        if any(coding not in (b"", b"identity") for coding in codings):
            detail = "a body in a Content-Encoding is not read: send it as it is"
            return Problem("media-type", detail, headers={"Accept-Encoding": "identity"})
        lengths = set(headers(scope, b"content-length"))
        if len(lengths) > 1 or any(not length.isdigit() for length in lengths):
            return Problem("malformed", "Content-Length must be one number of bytes")
        digits = lengths.pop().lstrip(b"0") if lengths else b""
        if len(digits) > 18 or int(digits or b"0") > most:
            return Problem("too-large", f"the body has more than {most} bytes")
        return None


class _Counted(_Exchange):
    def __init__(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__("size", scope, receive, send)
        self.most, self.received = most, 0

    async def next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
            if self.received > self.most:
                raise Problem("too-large", f"the body has more than {self.most} bytes")
        return message


class _ReadAhead(_Exchange):
    def __init__(self, guard: BodyLimit, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__("size", scope, receive, send)
        self.all, self.limits = guard, guard.limits
        self.received = self.waiting = 0  # bytes
        self.queue: asyncio.Queue[Message | Exception] = asyncio.Queue()  # bounded by its bytes
        self.failure: Problem | None = None  # comes before what still waits
        self.end: Message | None = None  # the client went away

    async def run(self, app: ASGIApp) -> None:
        reading = asyncio.create_task(self._read())
        try:
            await super().run(app)
        finally:
            reading.cancel()
            self.all.waiting -= self.waiting

    async def next(self) -> Message:
        if self.end is not None:  # nobody waits for what came before it
            return self.end
        message = await self.queue.get() if self.failure is None else self.failure
        if isinstance(message, Exception):
            raise self.failure or message
        self._hold(-len(message.get("body", b"")))
        return message

    async def _read(self) -> None:
        try:
            while self.end is None and self.failure is None:
                message = await self._receive()
                size = len(message.get("body", b""))
                self.received += size
                if self.received > self.limits.stream_bytes:
                    self.failure = Problem("too-large", f"the body has more than {self.limits.stream_bytes} bytes")
                elif size and self.waiting and self.all.waiting + size > self.limits.stream_buffer_bytes:
                    self.failure = Problem("busy", "too much of this and other streams waits here: send it more slowly")
                elif message["type"] != "http.request":
                    self.end = message
                    info_of(self.scope).gone.set()
                self._hold(size)
                self.queue.put_nowait(self.failure or message)
        except Exception as error:
            self.queue.put_nowait(error)

    def _hold(self, size: int) -> None:
        self.waiting += size
        self.all.waiting += size


class Pace:
    """ASGI middleware: no client holds a place by sending or reading slowly.

    Only the time that we wait for the client counts. A body may keep us waiting `limits.body_wait_s` and a second more
    for each `limits.body_rate` bytes that have come (408); accepting a part of the answer may take
    `limits.send_wait_s`, then the connection is cut.
    """

    def __init__(self, app: ASGIApp, limits: LimitsConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self.limits, self.clock = app, limits, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        else:
            await _Paced(self.limits, self.clock, scope, receive, send).run(self.app)


class _Paced(_Exchange):
    def __init__(
        self, limits: LimitsConfig, clock: Callable[[], float], scope: Scope, receive: Receive, send: Send
    ) -> None:
        super().__init__("pace", scope, receive, send)
        self.limits, self.clock = limits, clock
        self.left, self.over, self.cut = limits.body_wait_s, False, False

    async def next(self) -> Message:
        if self.over:  # what comes now is that the client went away
            return await self._receive()
        since = self.clock()
        try:
            async with asyncio.timeout(self.left):
                message = await self._receive()
        except TimeoutError:
            seconds, rate = self.limits.body_wait_s, self.limits.body_rate
            detail = f"a body may keep us waiting {seconds:g} s, and longer at {rate} bytes a second or more"
            raise Problem("slow", detail, headers={"Connection": "close"}) from None
        self.over = not message.get("more_body", False)
        self.left += len(message.get("body", b"")) / self.limits.body_rate - (self.clock() - since)
        return message

    async def send(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self.limits.send_wait_s):
                await super().send(message)
        except TimeoutError:
            self.cut = True
            info_of(self.scope).refused = self.guard
            raise OSError("the client reads its answer too slowly") from None

    async def run(self, app: ASGIApp) -> None:
        try:
            await super().run(app)
        except Exception:
            if not self.cut:
                raise  # else it follows from the cut; an answer left unfinished makes the server close the connection


class Admission:
    """ASGI middleware: at most `queue` requests at once, streams too; further ones get 429 at once."""

    def __init__(self, app: ASGIApp, queue: int, open_paths: Collection[str] = ()) -> None:
        """`open_paths` are always let in: health, metrics."""
        self.app, self.queue, self.open_paths = app, queue, frozenset(open_paths)
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or route_path(scope) in self.open_paths:
            await self.app(scope, receive, send)
            return
        if self.inside >= self.queue:
            problem = Problem("busy", f"{self.queue} requests wait or are worked on here already")
            await refuse(problem, "queue", scope, receive, send)
            return
        self.inside += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.inside -= 1
