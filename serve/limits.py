"""Limits of requests: the size of a body, the unread bytes of streams, and the number of concurrent requests."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from agggen_platform.serving.config import LimitsConfig
from serve.errors import Problem

_PIECE_BYTES = 64 << 10


class Admission:
    """A FastAPI dependency that admits `queue` concurrent requests: others get 429, and all get 503 while `closed`."""

    def __init__(self, queue: int) -> None:
        self._queue, self._active, self.closed = queue, 0, False
        self._idle = asyncio.Event()
        self._idle.set()

    async def __call__(self) -> AsyncIterator[None]:
        if self.closed:
            raise Problem("unavailable", "this endpoint is shutting down")
        if self._active >= self._queue:
            raise Problem("busy", f"{self._queue} requests are already in progress; try again later")
        self._active += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()

    async def close(self) -> None:
        """Refuses new requests, and returns when no request is active."""
        self.closed = True
        await self._idle.wait()


def check_length(request: Request, max_bytes: int) -> None:
    """Raises Problem if the announced length of the body is above `max_bytes`."""
    length = request.headers.get("content-length", "0").strip()
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > max_bytes):
        raise _too_large(max_bytes)


async def read_body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """The body; raises Problem if it is empty, above `max_bytes`, or not complete within `seconds`."""
    check_length(request, max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise Problem("deadline", f"the body did not arrive within {seconds:g} seconds") from None
    if not body.strip():
        raise Problem("malformed", "the body is empty")
    return bytes(body)


def _too_large(max_bytes: int) -> Problem:
    return Problem("too-large", f"the body has more than {max_bytes} bytes")


class StreamBuffer:
    """Counts the unread bytes of all streams in this process."""

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits, self.unread_bytes = limits, 0


class StreamBody:
    """The body of a stream, received independently of its processing.

    Serve receives as fast as a client sends, so limits apply on arrival: more than `limits.stream_bytes` fail with 413.
    If a stream already has unread bytes, a chunk that would raise the unread bytes of all streams above
    `limits.stream_buffer_bytes` fails with 429.
    """

    def __init__(self, receive: Receive, buffer: StreamBuffer) -> None:
        self._receive, self._buffer = receive, buffer
        self._data, self._complete = bytearray(), False
        self._problem: Problem | None = None
        self._changed = asyncio.Event()

    async def receive(self) -> None:
        """Receives until a limit is exceeded; raises ClientDisconnect when the client leaves."""
        limits, received_bytes = self._buffer.limits, 0
        while self._problem is None:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            received_bytes += len(chunk)
            if received_bytes > limits.stream_bytes:
                self._problem = _too_large(limits.stream_bytes)
            elif self._data and self._buffer.unread_bytes + len(chunk) > limits.stream_buffer_bytes:
                self._problem = Problem("busy", "the buffer of all streams is full: send more slowly")
            else:
                self._data += chunk
                self._buffer.unread_bytes += len(chunk)
                self._complete = not message.get("more_body", False)
            self._changed.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body in pieces as it arrives; raises Problem as soon as a limit is exceeded."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._data and self._problem is None:
                piece = bytes(self._data[:_PIECE_BYTES])
                self._drop(len(piece))
                yield piece
            if self._problem is not None:
                raise self._problem
            if self._complete:
                return

    def close(self) -> None:
        self._drop(len(self._data))

    def _drop(self, size: int) -> None:
        del self._data[:size]
        self._buffer.unread_bytes -= size
