"""What differs between the blocking and the asynchronous client: how bytes come and how time passes.

All else is written once, as coroutines over an `Io`. `Blocking` never suspends, so `completed` runs such a coroutine to
its end by a single step, without an event loop.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, Protocol, TypeVar

import anyio
import httpx

T = TypeVar("T")


class Io(Protocol):
    """Sends requests and waits."""

    async def open(self, request: httpx.Request) -> httpx.Response:
        """The response, its body still to come."""
        ...

    def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The body, decompressed, as it comes."""
        ...

    async def close(self, response: httpx.Response) -> None: ...

    async def sleep(self, seconds: float) -> None: ...


class Blocking:
    """By an `httpx.Client`; no coroutine of it ever suspends."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    async def open(self, request: httpx.Request) -> httpx.Response:
        return self._client.send(request, stream=True)

    async def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        for piece in response.iter_bytes():
            yield piece

    async def close(self, response: httpx.Response) -> None:
        response.close()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Suspending:
    """By an `httpx.AsyncClient`, on asyncio or trio."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def open(self, request: httpx.Request) -> httpx.Response:
        return await self._client.send(request, stream=True)

    async def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        async for piece in response.aiter_bytes():
            yield piece

    async def close(self, response: httpx.Response) -> None:
        with anyio.CancelScope(shield=True):  # a cancelled call gives its connection back
            await response.aclose()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking client suspended")


def iterated(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """The items of an asynchronous generator that never suspends; closing the iterator closes it."""
    try:
        while True:
            try:
                yield completed(_next(items))
            except StopAsyncIteration:
                return
    finally:
        completed(_closed(items))


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()
