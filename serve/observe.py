"""Request ids, access log, metrics, and the conversion of exceptions to problem responses.

Logs contain no key, query string, record or text. An unknown path is logged and counted as ``other``.
"""

import json
import logging
import re
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from ray import serve
from ray.exceptions import TaskCancelledError
from ray.serve import metrics
from ray.serve.exceptions import RayServeException
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen_platform.serving.config import LogConfig
from serve.errors import Problem
from serve.schemas import GenerateOptions, problem_at

_log = logging.getLogger("agggen.serve")
_access = logging.getLogger("agggen.serve.access")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_COUNTS = [1.0, 2, 4, 8, 16, 32, 64, 128, 256]
_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]


@dataclass(slots=True)
class RequestInfo:
    id: str = "-"
    trace: str = ""  # id of the request's trace; empty: the request is not traced
    caller: str = ""  # name of the request's API key; empty: no key
    status: int = 0  # HTTP status of the answer; 0: not answered yet
    complete: bool = False  # whether the whole answer was sent
    problem: str = ""  # code of the problem that was returned
    outcomes: Counter[str] = field(default_factory=Counter)  # outcomes of its records: "ok", or a problem's code
    calls: int = 0  # calls of replicas with a span in the trace
    totals: Counter[str] = field(default_factory=Counter)  # sums over these calls
    unfulfilled: list[str] = field(default_factory=list)  # ids of the trace's first unfulfilled records


_current: ContextVar[RequestInfo | None] = ContextVar("current_request", default=None)


def current_request() -> RequestInfo:
    """The current request; outside of a request, a new one without an id."""
    return _current.get() or RequestInfo()


class JsonFormatter(logging.Formatter):
    """One JSON object per line; messages of exceptions, which may quote records, only if `texts` is set."""

    def __init__(self, texts: bool, replica: str) -> None:
        super().__init__()
        self.texts, self.replica = texts, replica

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request": current_request().id,
            "message": record.getMessage(),
            "replica": self.replica,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            frames = traceback.extract_tb(error.__traceback__)
            line["error"] = type(error).__name__
            line["trace"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
            if self.texts:
                line["says"] = str(error)
        return json.dumps(line, ensure_ascii=True, default=str)


def set_up_logging(log: LogConfig, replica: str, stream: TextIO | None = None) -> None:
    """Sends the endpoint's logs as JSON lines only to `stream` (None: standard error)."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(log.texts, replica))
    for name in ("agggen", "agggen_platform", "serve"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(log.level.upper())
        logger.propagate = False


def log_as_replica(log: LogConfig) -> None:
    """Logs JSON lines if this process is a replica of Ray Serve; otherwise logging is unchanged."""
    with suppress(RayServeException):
        set_up_logging(log, serve.get_replica_context().replica_tag)


class Metrics:
    """Metrics of a replica that Ray exports to Prometheus, tagged with `application`, `deployment` and `replica`."""

    def __init__(self) -> None:
        def histogram(name: str, description: str, boundaries: list[float]) -> Any:
            return metrics.Histogram(name, description=description, boundaries=boundaries, tag_keys=("work",))

        def counter(name: str, description: str, *tags: str) -> Any:
            return metrics.Counter(name, description=description, tag_keys=tags)

        self._queue = metrics.Gauge("agggen_queue_records", description="Records that wait in a replica.")
        self._batch_records = histogram("agggen_batch_records", "Records of a batch.", _COUNTS)
        # Ray exports only an estimate of a histogram's sum, so exact sums are counters.
        self._records = counter("agggen_worked_records", "Records processed.", "work")
        self._seconds = counter("agggen_worked_seconds", "Seconds of work on batches.", "work")
        self._batch_wait = histogram("agggen_batch_wait_seconds", "Seconds that the oldest record waited.", _SECONDS)
        self._batch_work = histogram("agggen_batch_work_seconds", "Seconds of work on a batch.", _SECONDS)
        self._outcomes = counter("agggen_records", "Records answered, by outcome.", "route", "outcome")
        self._problems = counter("agggen_problems", "Requests answered with a problem, by its code.", "code")
        bundle_tags = ("fingerprint", "address")
        self._bundle = metrics.Gauge("agggen_bundle_info", description="1 for the bundle served.", tag_keys=bundle_tags)

    def queue(self, n_waiting: int) -> None:
        self._queue.set(n_waiting)

    def batch(self, work: str, n_records: int, wait_seconds: float, work_seconds: float) -> None:
        """`wait_seconds`: of the batch's oldest record."""
        tags = {"work": work}
        self._batch_records.observe(n_records, tags=tags)
        self._records.inc(n_records, tags=tags)
        self._seconds.inc(max(work_seconds, 1e-9), tags=tags)
        self._batch_wait.observe(max(wait_seconds, 1e-9), tags=tags)
        self._batch_work.observe(max(work_seconds, 1e-9), tags=tags)

    def request(self, route: str, outcomes: Mapping[str, int], problem: str) -> None:
        """Counts an answered request: its records by outcome, and the code of its problem, if any."""
        for outcome, count in outcomes.items():
            self._outcomes.inc(count, tags={"route": route, "outcome": outcome})
        if problem:
            self._problems.inc(tags={"code": problem})

    def bundle(self, fingerprint: str, address: str) -> None:
        """Exports the served bundle; must be called regularly, since Ray drops gauges that are not set again."""
        self._bundle.set(1, tags={"fingerprint": fingerprint, "address": address})


class RequestContext:
    """ASGI middleware: assigns request ids, logs and counts requests, and answers unhandled errors with 500.

    `paths`: paths that logs and metrics name; `echo`: whether the answer returns a valid X-Request-Id of the client.
    """

    def __init__(self, app: ASGIApp, paths: Collection[str], meters: Metrics | None = None, echo: bool = True) -> None:
        self.app, self.meters, self.paths, self.echo = app, meters, frozenset(paths), echo

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client_ids = Headers(scope=scope).getlist("x-request-id")
        valid = len(client_ids) == 1 and bool(_ID.fullmatch(client_ids[0]))
        info = RequestInfo(client_ids[0] if valid else uuid.uuid4().hex)
        started_at, token = time.monotonic(), _current.set(info)

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                info.status = message["status"]
                if self.echo or not valid:
                    MutableHeaders(scope=message)["x-request-id"] = info.id
            await send(message)
            info.complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self.app(scope, receive, send_observed)
        except TaskCancelledError:  # raised by Serve's `receive`: the client disconnected
            info.problem = "gone"
            raise
        except Exception:
            _log.exception("request %s failed", info.id)
            if info.status:
                raise  # the response has begun: closing the connection tells the client that it is incomplete
            info.problem = "internal"
            problem = Problem("internal", "an unexpected error; the server's log has it under this request_id")
            await problem.response(info.id)(scope, receive, send_observed)
        finally:
            route = scope["path"] if scope["path"] in self.paths else "other"
            if self.meters:
                self.meters.request(route, info.outcomes, info.problem)
            self._log(scope["method"], route, info, time.monotonic() - started_at)
            _current.reset(token)

    def _log(self, method: str, route: str, info: RequestInfo, seconds: float) -> None:
        status = info.status or 499  # the client disconnected
        fields: dict[str, Any] = {
            "method": method if method in _METHODS else "other",
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "caller": info.caller or None,
            "records": info.outcomes.total(),
            "failed": {name: count for name, count in info.outcomes.items() if name != "ok"},
            "problem": info.problem or None,
            "complete": info.complete,
        }
        if info.trace:
            fields["trace_id"] = info.trace
        _access.info("%s %s %d", fields["method"], route, status, extra={"fields": fields})


def add_exception_handlers(app: FastAPI) -> None:
    """Converts client errors to problem responses; `RequestContext` converts all other exceptions."""
    for error_type in (Problem, HTTPException, RequestValidationError, ClientDisconnect):
        app.add_exception_handler(error_type, _problem_response)


async def _problem_response(request: Request, error: Exception) -> Response:
    problem = _problem(request, error)
    info = current_request()
    info.problem = problem.kind.code
    return problem.response(info.id)


def _problem(request: Request, error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        if first["loc"][0] == "header":
            return Problem("invalid", first["msg"], field=str(first["loc"][1]))
        return problem_at(first, [], GenerateOptions.model_fields)
    if isinstance(error, ClientDisconnect):
        return Problem("gone", "the client disconnected")
    if isinstance(error, HTTPException) and error.status_code == 404:
        return Problem("not-found", f"no resource has the path {request.url.path}")
    if isinstance(error, HTTPException) and error.status_code == 405:
        headers = dict(error.headers or {})
        return Problem("method", f"{request.url.path} does not support {request.method}", headers=headers)
    raise error
