"""HTTP and ASGI calls of applications in this process, asynchronous tests, and example records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import wraps
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen_platform.serving.config import ServeConfig

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
SILICON = {"id": "Si", "triples": [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]}
CONFIG = ServeConfig(bundle="toy")

Ask = Callable[..., httpx.Response]
LONG = 60.0  # seconds; more than any test takes


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test in a new event loop, for at most `LONG` seconds."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), LONG))

    return run


def asking(app: ASGIApp) -> Ask:
    """A function ``ask(method, address, ...)`` that sends a request to the application, with arguments as in httpx."""
    return lambda method, address, **request: post(app, address, method, **request)


def post(app: ASGIApp, address: str = "/v1/generate", method: str = "POST", **request: Any) -> httpx.Response:
    """The application's response to a request, whose arguments are those of httpx."""

    async def response() -> httpx.Response:
        async with client(app) as http:
            return await http.request(method, address, **request)

    return asyncio.run(response())


def records(*ids: str) -> list[dict[str, Any]]:
    return [SILICON | {"id": name} for name in ids]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def read(receive: Receive) -> bytes:
    """The complete body of a request."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body


async def answer(send: Send, body: bytes, status: int = 200, kind: bytes = b"text/plain") -> None:
    """Sends a complete response."""
    lines = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def client(app: ASGIApp, host: str = "localhost") -> httpx.AsyncClient:
    """An HTTP client of the application; it raises what the application raises."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}")


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """A body in chunks, without Content-Length."""
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
    """The server's end of a request: messages `sent` by the application and `incoming` for it."""

    def __init__(self, *messages: Message) -> None:
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.incoming.put_nowait(message)

    async def receive(self) -> Message:
        return await self.incoming.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def part(body: bytes, more: bool = True) -> Message:
    """A piece of a request's body."""
    return {"type": "http.request", "body": body, "more_body": more}


def problem(response: httpx.Response) -> dict[str, Any]:
    """The members of a problem+json answer."""
    assert response.headers["content-type"] == "application/problem+json"
    members: dict[str, Any] = response.json()
    assert members["status"] == response.status_code
    return members
