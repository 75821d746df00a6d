"""Asking the HTTP interface in this process, and records to ask it about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from starlette.types import ASGIApp

from agggen_platform.serving.config import ServeConfig
from tests.unit.serve.http_calls import client

SILICON = {"id": "Si", "triples": [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]}
CSV = b"id,subject,predicate,object\nSi,Silicon,symbol,Si\nSi,Silicon,category,metalloid\n"
CONFIG = ServeConfig(bundle="toy")

Ask = Callable[..., httpx.Response]


def asking(app: ASGIApp) -> Ask:
    """Asks the application once: ``ask(method, address, ...)`` as in httpx."""

    def ask(method: str, address: str, **request: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            async with client(app) as http:
                return await http.request(method, address, **request)

        return asyncio.run(once())

    return ask


def records(*ids: str) -> list[dict[str, Any]]:
    return [SILICON | {"id": name} for name in ids]
