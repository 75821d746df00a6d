"""Deployment handles without Ray: calls of an object in this process, as coroutines that can be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any


class LocalResponse:
    """What a handle's call gives: to be awaited or cancelled."""

    def __init__(self, work: Any) -> None:
        self.task = asyncio.ensure_future(work)
        self.cancelled = False

    def __await__(self) -> Generator[Any, None, Any]:
        return self.task.__await__()

    def cancel(self) -> None:
        self.cancelled = True
        self.task.cancel()


class LocalHandle:
    """``LocalHandle(replica).method.remote(...)``."""

    def __init__(self, replica: Any) -> None:
        self._replica = replica

    def __getattr__(self, name: str) -> Any:
        return _Method(getattr(self._replica, name))


class _Method:
    def __init__(self, method: Any) -> None:
        self._method = method

    def remote(self, *arguments: Any) -> LocalResponse:
        return LocalResponse(self._method(*arguments))
