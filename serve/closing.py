"""An ingress that is about to end: no new request, and time for those that are inside."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from serve.asgi import refuse
from serve.errors import Problem


class Gate:
    """ASGI application around another one: counts the requests inside, and can be closed (503, retryable)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self._inside, self._closed = app, 0, False
        self.routes = getattr(app, "routes", [])
        """By which Serve's proxies name a request in their metrics."""
        self._empty = asyncio.Event()
        self._empty.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._closed:
            await refuse(Problem("unavailable", "this endpoint is being taken down"), "closing", scope, receive, send)
            return
        self._inside += 1
        self._empty.clear()
        try:
            await self.app(scope, receive, send)
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    async def close(self) -> None:
        """Lets nothing in any more, and returns when nothing is inside."""
        self._closed = True
        await self._empty.wait()

    def open(self) -> None:
        """Lets requests in again."""
        self._closed = False
