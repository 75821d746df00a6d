"""Traces of requests for MLflow, with ids and sizes but no content of records; imported if `tracing.experiment` is set.

A thread of OpenTelemetry's SDK exports the spans from a bounded queue, so that no request waits for MLflow.
"""

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen.errors import ConfigError
from agggen.generation.results import Candidates, Generation
from agggen_platform.mlflow_client import get_or_create_experiment, mlflow_client
from agggen_platform.tracking.origin import masked
from agggen_platform.tracking.store import reason
from serve.engine import Failure, ReplicaAnswers
from serve.observe import RequestInfo, current_request

_log = logging.getLogger("agggen.serve")

ROUTES = ("/v1/generate", "/v1/plan", "/v1/align", "/v1/check", "/v1/generate:stream")
_UNTRACED_STATUSES = (401, 403, 404, 405)  # otherwise, unauthorized requests could fill the experiment
_MAX_CALLS = 256  # the largest number of calls with a span in a trace; a stream may make thousands of calls
_MAX_IDS = 20  # the largest number of ids of unfulfilled records in a trace
_QUEUE, _EXPORT_DELAY_MS = 2048, 2000
_TAG_PREFIX = "mlflow.traceTag."  # MLflow makes attributes of the root span with this prefix tags of the trace


class Traces:
    def __init__(self, exporter: SpanExporter) -> None:
        self.provider = TracerProvider(resource=Resource({"service.name": "agggen"}))
        processor = BatchSpanProcessor(exporter, max_queue_size=_QUEUE, schedule_delay_millis=_EXPORT_DELAY_MS)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("agggen.serve")

    @contextmanager
    def span(self, name: str, records: int) -> Iterator[Callable[[Any], None]]:
        """Traces a call within a traced request; yields a function that takes the call's result."""
        info = current_request()
        if not info.trace or info.calls >= _MAX_CALLS:
            yield lambda result: None
            return
        info.calls += 1
        span = self.tracer.start_span(name, attributes=_as_json({"records": records}))
        try:
            yield lambda result: self._record_result(span, result, info)
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    def _record_result(self, span: trace.Span, result: ReplicaAnswers[Any] | Failure, info: RequestInfo) -> None:
        if isinstance(result, Failure):
            span.set_status(Status(StatusCode.ERROR, result.code))
            return
        _add_counts(span, result, info)
        if seconds := result.verify_seconds:  # one span for all strict checks, which alternate with search steps
            end, parent = time.time_ns(), trace.set_span_in_context(span)
            self.tracer.start_span("verify", context=parent, start_time=end - int(seconds * 1e9)).end(end)

    def middleware(self, app: ASGIApp) -> ASGIApp:
        """ASGI middleware inside `RequestContext`: one trace for each admitted request of `ROUTES`."""

        async def traced_app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in ROUTES:
                await self._trace(app, scope, receive, send)
            else:
                await app(scope, receive, send)

        return traced_app

    async def _trace(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        route = scope["path"]
        info, body_bytes, failure, started_at = current_request(), 0, "", time.time_ns()
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

        try:
            with trace.use_span(root, record_exception=False, set_status_on_exception=False):
                await app(scope, receive_traced, send)
        except BaseException as error:
            failure = type(error).__name__
            raise
        finally:
            if info.status not in _UNTRACED_STATUSES:
                _describe(root, route, body_bytes, info, failure)
                root.end()


def _describe(root: trace.Span, route: str, body_bytes: int, info: RequestInfo, failure: str) -> None:
    failed = info.outcomes.total() - info.outcomes["ok"]
    counts = {"records": info.outcomes.total(), "failed": failed, **info.totals}
    yes_or_no = {False: "no", True: "yes"}
    tags = {"request": info.id, "route": route, "status": str(info.status), "failed": yes_or_no[failed > 0]}
    if info.totals["texts"]:
        tags["fulfilled"] = yes_or_no[info.totals["unfulfilled"] == 0]
        tags["fallback"] = yes_or_no[info.totals["fallback"] > 0]
    leading = {name: info.totals[name] for name in ("unfulfilled", "fallback")}  # first: MLflow truncates the column
    outputs = {"status": info.status, **leading, **counts, "unfulfilled_ids": info.unfulfilled}
    inputs = {"route": route, "bytes": body_bytes, "records": counts["records"]}
    root.set_attributes(_as_json(counts | {_TAG_PREFIX + name: value for name, value in tags.items()}))
    root.set_attributes(_as_json({"mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}))
    problem = failure or info.problem or ("" if info.complete else "gone")
    if problem or info.status >= 400:
        root.set_status(Status(StatusCode.ERROR, problem or f"status {info.status}"))
    else:
        root.set_status(StatusCode.OK)


def _add_counts(span: trace.Span, result: ReplicaAnswers[Any], info: RequestInfo) -> None:
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
            if not best.fulfilled and len(info.unfulfilled) < _MAX_IDS:
                info.unfulfilled.append(best.id)
        elif isinstance(answer, list):
            counts["plans"] += len(answer)
    span.set_attributes(_as_json({"model": result.model, **counts}))
    info.totals.update({name: count for name, count in counts.items() if not name.startswith("failed.")})


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
