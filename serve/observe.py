"""What can be seen of the endpoint: a request id, a line in the log for each request, and Prometheus metrics.

Logs hold no key, no address's query and, unless ``log.texts`` is on, nothing of what was asked and answered. Metrics
have few labels of few values: an unknown address counts as ``other``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Collection
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen_platform.serving.config import LogConfig
from serve.asgi import RequestInfo, headers, info_of, route_path
from serve.engine import ModelCard

_log = logging.getLogger("agggen.serve")
_access = logging.getLogger("agggen.serve.access")

current_request: ContextVar[str] = ContextVar("current_request", default="-")
"""The id of the request that is worked on; it stands in every line of the log."""

_LOGGERS = ("agggen", "agggen_platform", "serve")  # with all below them
_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OUTCOMES = frozenset({"ok", "record", "plan", "text", "unfulfilled", "deadline", "busy", "lost", "internal"})
_CLIENT_WENT_AWAY = 499
_TEXT_BYTES = 4096  # of a body that a log line holds where texts are asked for
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class JsonFormatter(logging.Formatter):
    """A JSON object a line: time, level, logger, request, message, and what ``extra={"fields": {...}}`` holds.

    Of an exception it holds the type and where it was raised; what it says may quote texts, and is left out unless
    `texts`.
    """

    def __init__(self, texts: bool = False, **constant: str) -> None:
        """`constant`: members of every line, like the replica."""
        super().__init__()
        self.texts, self.constant = texts, constant

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request": current_request.get(),
            "message": record.getMessage(),
            **self.constant,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            line["error"] = type(error).__name__
            line["trace"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
            ]
            if self.texts:
                line["says"] = str(error)
        return json.dumps(line, ensure_ascii=True, default=str)


def set_up_logging(log: LogConfig, stream: TextIO | None = None, **constant: str) -> None:
    """The endpoint's loggers write JSON lines to `stream` (standard error), from `log.level` on, and nowhere else."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter(log.texts, **constant))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(log.level.upper())
        logger.propagate = False


class Metrics:
    """The Prometheus metrics of one replica, in a registry of their own.

    Every sample names its replica: a scrape through the endpoint reaches any of them.
    """

    def __init__(self, replica: str = "-") -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._replica = replica
        self._requests = self._make(Counter, "agggen_requests", "Requests answered.", "route", "method", "status")
        self._seconds = self._make(
            Histogram, "agggen_request_seconds", "From the head to the end of the answer.", "route", buckets=_SECONDS
        )
        self._in_flight = self._make(Gauge, "agggen_requests_in_flight", "Requests that are worked on.")
        self._records = self._make(Counter, "agggen_records", "Records answered, by outcome.", "route", "outcome")
        self._refused = self._make(Counter, "agggen_refused", "Requests refused, by guard.", "guard")
        self._replayed = self._make(Counter, "agggen_replayed", "Answers given again from memory.")
        self._bundle = self._make(Gauge, "agggen_bundle_info", "1 for the bundle served.", "fingerprint", "address")

    def _make(self, kind: Any, name: str, text: str, *labels: str, **options: Any) -> Any:
        return kind(name, text, ("replica", *labels), registry=self.registry, **options)

    def serving(self, card: ModelCard) -> None:
        """Notes the bundle that is served, in place of an earlier one."""
        self._bundle.clear()
        self._bundle.labels(self._replica, card.fingerprint, card.address).set(1)

    def begin(self) -> None:
        """A request has come."""
        self._in_flight.labels(self._replica).inc()

    def end(self, route: str, method: str, status: int, seconds: float, info: RequestInfo) -> None:
        """A request is over."""
        method = method if method in _METHODS else "other"
        self._in_flight.labels(self._replica).dec()
        self._requests.labels(self._replica, route, method, str(status)).inc()
        self._seconds.labels(self._replica, route).observe(seconds)
        for outcome, records in info.outcomes.items():
            self._records.labels(self._replica, route, outcome if outcome in _OUTCOMES else "other").inc(records)
        if info.refused:
            self._refused.labels(self._replica, info.refused).inc()
        if info.replayed:
            self._replayed.labels(self._replica).inc()

    def exposition(self, accept: str | None = None) -> tuple[bytes, str]:
        """All of it in the text format that a scraper's Accept header asks for, and that format's media type."""
        encode, media_type = choose_encoder(accept or "")
        return encode(self.registry), media_type


class RequestContext:
    """ASGI middleware, the outermost: gives a request its id, and counts and logs what became of it.

    The client's X-Request-Id is taken where it is 1 to 128 letters, digits and ``._:-``; the answer has it again.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        routes: Collection[str],
        texts: bool = False,
        echo: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`routes` are the addresses that are counted by name; `texts`: the log holds the first 4 KiB of bodies.

        `echo=False`: the server in front (Serve's proxy) already puts the client's X-Request-Id into the answer.
        """
        self.app, self.metrics, self.routes = app, metrics, frozenset(routes)
        self.texts, self.echo, self.clock = texts, echo, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = headers(scope, b"x-request-id")
        known = len(given) == 1 and bool(_ID.fullmatch(given[0]))
        identifier = given[0].decode() if known else uuid.uuid4().hex
        scope["state"] = {**scope.get("state", {}), "request_id": identifier}
        exchange = _Exchange(receive, send, identifier if self.echo or not known else None, self.texts)
        since, info, token = self.clock(), info_of(scope), current_request.set(identifier)
        self.metrics.begin()
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            exchange.status = exchange.status or _CLIENT_WENT_AWAY
            raise
        except Exception:
            exchange.status = exchange.status or 500
            raise
        finally:
            path = route_path(scope)
            route, status = path if path in self.routes else "other", exchange.status or _CLIENT_WENT_AWAY
            seconds = self.clock() - since
            self.metrics.end(route, scope["method"], status, seconds, info)
            self._say(scope["method"], route, status, seconds, info, exchange)
            current_request.reset(token)

    def _say(
        self, method: str, route: str, status: int, seconds: float, info: RequestInfo, exchange: _Exchange
    ) -> None:
        fields: dict[str, Any] = {
            "method": method if method in _METHODS else "other",
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "caller": info.caller or None,
            "records": info.outcomes.total(),
            "failed": {name: count for name, count in info.outcomes.items() if name != "ok"},
            "refused": info.refused or None,
            "replayed": info.replayed,
            "bytes_in": exchange.bytes_in,
            "bytes_out": exchange.bytes_out,
            "whole": exchange.whole,
        }
        if self.texts:
            fields["asked"] = bytes(exchange.asked).decode(errors="replace")
            fields["answered"] = bytes(exchange.answered).decode(errors="replace")
        _access.info("%s %s %d", fields["method"], route, status, extra={"fields": fields})


class _Exchange:
    """What goes in and out."""

    def __init__(self, receive: Receive, send: Send, identifier: str | None, texts: bool) -> None:
        self._receive, self._send, self._identifier, self._texts = receive, send, identifier, texts
        self.status = self.bytes_in = self.bytes_out = 0
        self.whole = False  # the answer went out to its end
        self.asked, self.answered = bytearray(), bytearray()

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            body = message.get("body", b"")
            self.bytes_in += len(body)
            if self._texts:
                self.asked += body[: _TEXT_BYTES - len(self.asked)]
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._identifier is not None:
                line = (b"x-request-id", self._identifier.encode())
                message = {**message, "headers": [*message.get("headers", []), line]}
        await self._send(message)
        if message["type"] == "http.response.body":
            body = message.get("body", b"")
            self.bytes_out += len(body)
            self.whole = not message.get("more_body", False)
            if self._texts:
                self.answered += body[: _TEXT_BYTES - len(self.answered)]
