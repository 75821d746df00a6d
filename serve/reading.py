"""Reads requests: admission, bodies and streams within their limits, and JSON values, which are validated later.

JSON is parsed strictly: UTF-8, no NaN or Infinity, no number too large for a double, no duplicate key in an object.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from agggen_platform.serving.config import LimitsConfig
from serve.errors import Problem

JSON = "application/json"
NDJSON = "application/x-ndjson"

_PIECE_BYTES = 64 << 10
_THREAD_BYTES = 32 << 10  # larger documents are parsed in a thread, so that the event loop stays free
_MAX_CONTAINERS = 1 << 16  # lists and objects per document: the parser holds the GIL while it creates them


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


def check_media_type(request: Request, expected: str) -> None:
    """Raises Problem if the body is not of the media type `expected`, or compressed."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != expected:
        raise Problem("media-type", f"Content-Type is {media_type or 'missing'}; it must be {expected}")
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        detail = "compressed bodies are not supported: send it without Content-Encoding"
        raise Problem("media-type", detail, headers={"Accept-Encoding": "identity"})


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
    """The body of a stream, received independently of its processing, since Serve receives as fast as a client sends.

    More than `limits.stream_bytes` fail with 413. If a stream already has unread bytes, a chunk that would raise the
    unread bytes of all streams above `limits.stream_buffer_bytes` fails with 429.
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


async def parsed(data: bytes, subject: str = "the body") -> Any:
    """Parses strict JSON without blocking the event loop; raises Problem with the position of the first error."""
    if len(data) < _THREAD_BYTES:
        return _parse_json(data, subject)
    return await asyncio.to_thread(_parse_json, data, subject)


def _parse_json(data: bytes, subject: str) -> Any:
    if data.count(b"[") + data.count(b"{") > _MAX_CONTAINERS:
        raise Problem("too-large", f"{subject} has more than {_MAX_CONTAINERS} lists and objects")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        return json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite_number,
        )
    except UnicodeDecodeError as error:
        position = f"byte 0x{data[error.start]:02x} at position {error.start + 1}"
        raise Problem("malformed", f"{subject} is not UTF-8: {position}") from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise Problem("malformed", f"{subject} is not JSON at {position}: {error.msg}") from None
    except RecursionError:
        raise Problem("malformed", f"{subject} is nested too deeply") from None
    except ValueError as error:  # from the functions below, or Python's limit on the digits of an integer
        raise Problem("malformed", f"{subject} is not strict JSON: {error}") from None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((duplicate, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"an object has the key {duplicate!r:.80} twice")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite_number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits:.40} is too large")
    return value


def check_unicode(value: Any) -> None:
    """Raises Problem for a lone surrogate in a string, which UTF-8 answers cannot contain."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem("record", "the record has half of a surrogate pair, which is not a Unicode character") from None
