"""Plain ASGI applications, clients and a clock for tests of what stands in front of the handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def read(receive: Receive) -> bytes:
    """The whole body."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body


async def answer(send: Send, body: bytes, status: int = 200, kind: bytes = b"text/plain") -> None:
    """Sends a whole answer."""
    lines = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def client(app: ASGIApp, host: str = "localhost") -> httpx.AsyncClient:
    """An HTTP client of the application; it raises what the application raises."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}")


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """A body without Content-Length."""
    for part in parts:
        yield part


def scope(path: str = "/v1/generate", method: str = "POST", headers: Iterable[tuple[bytes, bytes]] = ()) -> Scope:
    """A request's scope, for calls in which the test is the server."""
    lines = [(b"host", b"localhost"), *headers]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": lines,
    }


class Server:
    """The server's end of a request: what it got, and what it still gives."""

    def __init__(self, *messages: Message) -> None:
        self.got: list[Message] = []
        self.coming: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.coming.put_nowait(message)

    async def receive(self) -> Message:
        return await self.coming.get()

    async def send(self, message: Message) -> None:
        self.got.append(message)

    @property
    def status(self) -> int:
        return int(self.got[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)


def part(body: bytes, more: bool = True) -> Message:
    """A piece of a request's body."""
    return {"type": "http.request", "body": body, "more_body": more}


def problem(response: httpx.Response) -> dict[str, Any]:
    """The members of a problem+json answer."""
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == response.status_code
    return found
