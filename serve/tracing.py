"""Traces of requests for MLflow, with ids and sizes but no content of records.

Imported only if `tracing.experiment` is set. A thread of OpenTelemetry's SDK exports the spans from a bounded queue, so
no request waits for MLflow. Attribute values are JSON, as MLflow stores them.
"""

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen.errors import ConfigError
from agggen.generation.results import Candidates, Generation
from agggen_platform.mlflow_client import get_or_create_experiment, mlflow_client
from agggen_platform.tracking.origin import masked
from agggen_platform.tracking.store import reason
from serve.engine import Failure, ReplicaAnswers
from serve.observe import current_request

_log = logging.getLogger("agggen.serve")

ROUTES = ("/v1/generate", "/v1/plan", "/v1/align", "/v1/check", "/v1/generate:stream")
_UNTRACED_STATUSES = (401, 403, 404, 405)  # otherwise, unauthorized requests could fill the experiment
_MAX_CALLS = 256  # the largest number of calls with a span in a trace; a stream may make thousands of calls
_MAX_IDS = 20  # the largest number of ids of unfulfilled records in a trace
_QUEUE, _EXPORT_DELAY_MS = 2048, 2000
_TAG_PREFIX = "mlflow.traceTag."  # MLflow makes attributes of the root span with this prefix tags of the trace


@dataclass(slots=True)
class _RequestTotals:
    totals: Counter[str] = field(default_factory=Counter)
    unfulfilled: list[str] = field(default_factory=list)  # ids of records
    calls: int = 0


_request: ContextVar[_RequestTotals | None] = ContextVar("traced_request", default=None)


class Traces:
    def __init__(self, exporter: SpanExporter) -> None:
        self.provider = TracerProvider(resource=Resource({"service.name": "agggen"}))
        processor = BatchSpanProcessor(exporter, max_queue_size=_QUEUE, schedule_delay_millis=_EXPORT_DELAY_MS)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("agggen.serve")

    @contextmanager
    def span(self, name: str, records: int) -> Iterator[Callable[[Any], None]]:
        """Traces a call within a traced request; yields a function that takes the call's result."""
        request = _request.get()
        if request is None or request.calls >= _MAX_CALLS:
            yield lambda result: None
            return
        request.calls += 1
        span = self.tracer.start_span(name, attributes=_as_json({"records": records}))
        try:
            yield lambda result: self._record_result(span, result, request)
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    def _record_result(self, span: trace.Span, result: ReplicaAnswers[Any] | Failure, request: _RequestTotals) -> None:
        if isinstance(result, Failure):
            span.set_status(Status(StatusCode.ERROR, result.code))
            return
        _add_counts(span, result, request)
        if seconds := result.verify_seconds:  # one span for all strict checks, which alternate with search steps
            end, parent = time.time_ns(), trace.set_span_in_context(span)
            self.tracer.start_span("verify", context=parent, start_time=end - int(seconds * 1e9)).end(end)

    def middleware(self) -> Middleware:
        return Middleware(TraceMiddleware, tracer=self.tracer)


class TraceMiddleware:
    """ASGI middleware inside `RequestContext`: one trace for each admitted request of `ROUTES`."""

    def __init__(self, app: ASGIApp, tracer: trace.Tracer) -> None:
        self.app, self.tracer = app, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = str(scope.get("path"))
        if scope["type"] != "http" or scope["method"] != "POST" or route not in ROUTES:
            await self.app(scope, receive, send)
            return
        info, request, body_bytes, started_at = current_request(), _RequestTotals(), 0, time.time_ns()
        root = self.tracer.start_span(f"POST {route}", context=trace.Context(), start_time=started_at)
        info.trace = format(root.get_span_context().trace_id, "032x")

        async def receive_traced() -> Message:
            nonlocal body_bytes
            message = await receive()
            if message["type"] == "http.request":
                body_bytes += len(message.get("body", b""))
                if not message.get("more_body", False):
                    attributes = _as_json({"bytes": body_bytes})
                    self.tracer.start_span("read", start_time=started_at, attributes=attributes).end()
            return message

        token, failure = _request.set(request), ""
        try:
            with trace.use_span(root, record_exception=False, set_status_on_exception=False):
                await self.app(scope, receive_traced, send)
        except BaseException as error:
            failure = type(error).__name__
            raise
        finally:
            _request.reset(token)
            if info.status not in _UNTRACED_STATUSES:
                _describe(root, route, body_bytes, request, failure)
                root.end()


def _describe(root: trace.Span, route: str, body_bytes: int, request: _RequestTotals, failure: str) -> None:
    info = current_request()
    failed = info.outcomes.total() - info.outcomes["ok"]
    counts = {"records": info.outcomes.total(), "failed": failed, **request.totals}
    yes_or_no = {False: "no", True: "yes"}
    tags = {"request": info.id, "route": route, "status": str(info.status), "failed": yes_or_no[failed > 0]}
    if request.totals["texts"]:
        tags["fulfilled"] = yes_or_no[request.totals["unfulfilled"] == 0]
        tags["fallback"] = yes_or_no[request.totals["fallback"] > 0]
    leading = {name: request.totals[name] for name in ("unfulfilled", "fallback")}  # first: MLflow truncates the column
    outputs = {"status": info.status, **leading, **counts, "unfulfilled_ids": request.unfulfilled}
    inputs = {"route": route, "bytes": body_bytes, "records": counts["records"]}
    root.set_attributes(_as_json(counts | {_TAG_PREFIX + name: value for name, value in tags.items()}))
    root.set_attributes(_as_json({"mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}))
    problem = failure or info.problem or ("" if info.complete else "gone")
    if problem or info.status >= 400:
        root.set_status(Status(StatusCode.ERROR, problem or f"status {info.status}"))
    else:
        root.set_status(StatusCode.OK)


def _add_counts(span: trace.Span, result: ReplicaAnswers[Any], request: _RequestTotals) -> None:
    counts: Counter[str] = Counter()
    for answer in result.answers:
        if isinstance(answer, Failure):
            counts[f"failed.{answer.code}"] += 1
        elif isinstance(answer, Candidates):
            counts["plans"] += len(answer.plans)
        elif isinstance(answer, list) and answer and isinstance(answer[0], Generation):
            best = answer[0]
            counts["texts"] += len(answer)
            counts["tokens"] += sum(len(text.text.split()) for text in answer)
            counts["fallback"] += sum(fact.fallback for fact in best.facts)
            counts["unfulfilled"] += not best.fulfilled
            if not best.fulfilled and len(request.unfulfilled) < _MAX_IDS:
                request.unfulfilled.append(best.id)
        elif isinstance(answer, list):
            counts["plans"] += len(answer)
    span.set_attributes(_as_json({"model": result.model, **counts}))
    request.totals.update({name: count for name, count in counts.items() if not name.startswith("failed.")})


def _as_json(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in attributes.items()}


class MlflowExporter(SpanExporter):
    """Sends spans to an MLflow server; creates a missing experiment."""

    def __init__(self, experiment: str, uri: str | None = None) -> None:
        uri = uri or os.environ.get("MLFLOW_TRACKING_URI", "")
        if not uri.startswith(("http://", "https://")):
            raise ConfigError(
                "tracing.experiment needs the address of an MLflow server (http://HOST:PORT or https://...) as "
                "tracing.server, or as MLFLOW_TRACKING_URI in the environment of the ingress"
            )
        self._client = mlflow_client(uri)
        self._experiment, self._uri, self._id, self.lost = experiment, uri, "", 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        from mlflow.entities import Span
        from mlflow.tracing.client import TracingClient

        try:
            self._id = self._id or get_or_create_experiment(self._client, self._experiment).experiment_id
            TracingClient(self._uri).log_spans(self._id, [Span(span) for span in spans])
        except Exception as error:  # MLflow may raise anything
            self.lost += len(spans)
            cause = masked(reason(error))
            _log.warning("MLflow did not accept %d spans (%s); %d lost so far", len(spans), cause, self.lost)
            self._id = ""  # look the experiment up again next time: it may have been deleted
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS
