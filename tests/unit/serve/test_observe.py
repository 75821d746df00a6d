"""The content of logs, metrics and traces, and what they must not contain."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import ray.serve
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ray.exceptions import TaskCancelledError
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen.errors import ConfigError
from agggen_platform.serving.config import LogConfig, ServeConfig, TracingConfig
from serve.api import api
from serve.engine import Failure
from serve.errors import Problem
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.local import LocalHandle
from serve.observe import Metrics, RequestContext, current_request, log_as_replica, set_up_logging
from serve.planner import PlannerReplica
from serve.tracing import MlflowExporter, Traces
from tests.processes import free_ports
from tests.unit.serve.http_calls import CONFIG, NDJSON, Ask, Server, StubEngine, asynchronous, records, scope

PATHS = ["/v1/generate"]


Log = Callable[[], list[dict[str, Any]]]


def in_context(app: ASGIApp, **options: Any) -> Ask:
    return Ask(RequestContext(app, PATHS, **options))


@contextmanager
def logging_to(stream: io.StringIO, config: LogConfig = LogConfig()) -> Iterator[None]:  # noqa: B008
    loggers = [logging.getLogger(name) for name in ("agggen", "agggen_platform", "serve")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    try:
        set_up_logging(config, "r7", stream)
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate


@pytest.fixture
def log() -> Iterator[Log]:
    stream = io.StringIO()
    with logging_to(stream):
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


async def answer_with_id(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.001)
    await PlainTextResponse(current_request().id)(scope, receive, send)


@pytest.mark.parametrize("name", ["a", "0123-abc_DEF.x:y", "x" * 128])
def test_a_valid_id_of_the_client_is_used_and_returned(name: str) -> None:
    response = in_context(answer_with_id)(headers={"X-Request-Id": name})
    assert response.headers.get_list("x-request-id") == [name] and response.text == name
    behind_proxy = in_context(answer_with_id, echo=False)(headers={"X-Request-Id": name})
    assert "x-request-id" not in behind_proxy.headers and behind_proxy.text == name
    assert current_request().id == "-"


@pytest.mark.parametrize("names", [[""], ["x" * 129], ["a b"], ["a\tb"], ['{"level":"error"}'], ["é"], ["a", "b"]])
def test_an_invalid_id_is_replaced(names: list[str]) -> None:
    headers = [(b"X-Request-Id", name.encode("latin-1")) for name in names]
    asks = [in_context(answer_with_id, echo=echo) for echo in (True, False)]
    ids = {ask(headers=headers).headers["x-request-id"] for ask in asks}
    assert len(ids) == 2 and all(len(name) == 32 for name in ids)


def test_a_request_is_logged_as_one_line(log: Log) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        info = current_request()
        info.caller = "alice"
        info.outcomes.update(ok=99, record=1)
        await PlainTextResponse(await Request(scope, receive).body())(scope, receive, send)

    in_context(app)(headers={"X-Request-Id": "a"}, content=b"12345")
    (line,) = log()
    assert 0 <= line.pop("ms") < 60_000 and line.pop("time").endswith("+00:00")
    request = {"method": "POST", "route": "/v1/generate", "status": 200, "caller": "alice"}
    assert line == request | {
        **{"level": "info", "logger": "agggen.serve.access", "message": "POST /v1/generate 200"},
        **{"request": "a", "replica": "r7", "problem": None, "complete": True, "records": 100, "failed": {"record": 1}},
    }


SECRET = "tantalum"


def test_the_log_has_no_text_address_or_key(log: Log) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError(f"cannot say {(await Request(scope, receive).body()).decode()}")

    headers = {"Authorization": f"Bearer {SECRET}", "X-Request-Id": f"{SECRET} "}
    for app in (answer_with_id, failing):
        response = in_context(app)(f"/{SECRET}/v1?{SECRET}=1", content=SECRET, headers=headers)
        assert SECRET not in response.text
    assert [line.get("error") for line in log()] == [None, "ValueError", None]
    assert "test_observe.py" in log()[1]["trace"][-1] and SECRET not in json.dumps(log()).lower()


@pytest.mark.parametrize("name", ["agggen.serve", "serve.handles", "serve.batching", "agggen.generation.planner"])
def test_messages_of_exceptions_are_logged_only_if_texts_may_be_logged(name: str) -> None:
    for texts in (False, True):
        stream = io.StringIO()
        with logging_to(stream, LogConfig(texts=texts)):
            logging.getLogger(name).error("a call failed", exc_info=ValueError(SECRET))
        line = json.loads(stream.getvalue())
        assert (line["logger"], line["error"]) == (name, "ValueError") and (SECRET in json.dumps(line)) == texts


@given(st.text(), st.text())
def test_any_message_and_field_is_logged_as_one_line(message: str, field: str) -> None:
    stream = io.StringIO()
    with logging_to(stream, LogConfig(level="warning")):
        set_up_logging(LogConfig(level="warning"), "r7", stream)  # set up twice; each line is logged once
        logging.getLogger("serve.any").info("below the level")
        logging.getLogger("serve.any").warning("%s", message, extra={"fields": {"field": field}})
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == message and json.loads(line)["field"] == field


def test_planners_and_generators_log_in_the_format_of_the_ingress(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with logging_to(io.StringIO()):
        log_as_replica(LogConfig())  # outside Ray Serve, logging is not set up
        assert logging.getLogger("serve").handlers[0].stream is not sys.stderr  # type: ignore[attr-defined]
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(ray.serve, "get_replica_context", lambda: SimpleNamespace(replica_tag="r9"))
        log_as_replica(LogConfig())
        logging.getLogger("agggen.serve").error("a record could not be processed")
    assert json.loads(stream.getvalue())["replica"] == "r9"


GONE = (499, False)
START = {"type": "http.response.start", "status": 200, "headers": []}
HALF = {"type": "http.response.body", "body": b"half", "more_body": True}


@pytest.mark.parametrize(
    ("sent", "error", "end"),
    [
        ([], RuntimeError(), (500, True)),
        ([START, HALF], RuntimeError(), (200, False)),
        ([], asyncio.CancelledError(), GONE),
        ([], TaskCancelledError(), GONE),  # cancelled by Serve
        ([], None, GONE),
    ],
)
@asynchronous
async def test_disconnections_are_logged_as_499_and_errors_as_500(
    sent: list[Message], error: BaseException | None, end: tuple[int, bool], log: Log
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in sent:
            await send(message)
        if error is not None:
            raise error

    server = Server()
    with suppress(RuntimeError, TaskCancelledError, asyncio.CancelledError):
        await RequestContext(app, PATHS)(scope(), server.receive, server.send)
    assert [(line["status"], line["complete"]) for line in log() if "status" in line] == [end]


def test_records_and_problems_are_counted_by_route(stub: StubEngine) -> None:
    class RecordingMeters(Metrics):
        def request(self, *arguments: Any) -> None:
            requests.append(arguments)

    requests: list[Any] = []
    ask = Ask(api(stub, CONFIG, meters=RecordingMeters()))
    stub.failures["bad"] = Failure("plan", "it does not fit")
    ask(json={"records": records("a", "bad", "c")})
    ask("/v1/plan", json={"records": records("bad")})
    ask("/v1/generate:stream", content=b"{}\n{", headers=NDJSON)
    ask("/v1/models/7", "GET")
    stub.error = Problem("unavailable", "not yet")
    ask("/readyz", "GET")
    assert requests == [
        ("/v1/generate", {"ok": 2, "plan": 1}, ""),
        ("/v1/plan", {"plan": 1}, "plan"),
        ("/v1/generate:stream", {"record": 1, "malformed": 1}, ""),
        ("other", {}, "not-found"),
        ("/readyz", {}, "unavailable"),
    ]


Spans = Callable[..., tuple[httpx.Response, dict[str, ReadableSpan]]]


@pytest.fixture(scope="module")
def traced_generator(serve_config: ServeConfig) -> GeneratorReplica:
    return GeneratorReplica(replace(serve_config, tracing=TracingConfig("requests"), critic=None))


@pytest.fixture
def traced(planner: PlannerReplica, traced_generator: GeneratorReplica, serve_config: ServeConfig) -> Spans:
    """Returns a function that posts a request to a traced endpoint; it returns the response and the spans by name."""
    exporter = InMemorySpanExporter()
    traces = Traces(exporter)
    engine = HandleEngine(LocalHandle(planner), LocalHandle(traced_generator), serve_config, span=traces.span)
    ask = Ask(api(engine, serve_config, traces=traces))

    def post(address: str, **request: object) -> tuple[httpx.Response, dict[str, ReadableSpan]]:
        exporter.clear()
        answer = ask(address, **request)
        assert traces.provider.force_flush()
        return answer, {span.name: span for span in exporter.get_finished_spans()}

    return post


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name: json.loads(str(value)) for name, value in (span.attributes or {}).items()}


@pytest.mark.parametrize("verify", ["strict", "off"])
def test_a_trace_has_spans_with_sizes_and_no_content(
    traced: Spans, verify: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"records": records("a", "b"), "options": {"verify": verify}}
    with caplog.at_level("INFO", "agggen.serve.access"):
        answer, spans = traced("/v1/generate", json=body, headers={"x-request-id": "r1"})
    root = spans["POST /v1/generate"]
    assert caplog.records[-1].fields["trace_id"] == format(root.context.trace_id, "032x")
    assert set(spans) == {root.name, "read", "plan", "write", "verify"}
    assert {span.context.trace_id for span in spans.values()} == {root.context.trace_id}
    parents = {span.parent and span.parent.span_id for name, span in spans.items() if name in ("read", "plan", "write")}
    assert parents == {root.context.span_id}
    write, checks = spans["write"], spans["verify"]
    assert checks.parent is not None and checks.parent.span_id == write.context.span_id
    assert write.start_time < checks.start_time < checks.end_time <= write.end_time
    texts = [item["texts"][0] for item in answer.json()["answers"]]
    assert attributes(spans["read"])["bytes"] == len(answer.request.content)
    assert attributes(spans["plan"])["plans"] >= 2
    assert attributes(spans["write"])["tokens"] == sum(len(text["text"].split()) for text in texts)
    assert attributes(spans["write"])["fallback"] == sum(fact.get("fallback", 0) for t in texts for fact in t["facts"])
    bad = [item["id"] for item in answer.json()["answers"] if not item["texts"][0]["fulfilled"]]
    assert bad == ([] if verify == "strict" else ["a", "b"])  # random weights give faulty texts
    assert attributes(root)["mlflow.traceTag.fulfilled"] == ("no" if bad else "yes")
    assert attributes(root)["unfulfilled"] == len(bad)
    assert attributes(root)["mlflow.spanOutputs"]["unfulfilled_ids"] == bad
    assert (attributes(root)["mlflow.traceTag.request"], attributes(root)["mlflow.traceTag.status"]) == ("r1", "200")
    assert root.status.is_ok
    exported = json.dumps([attributes(span) for span in spans.values()])
    assert not any(word in exported for word in ("Silicon", "metalloid", texts[0]["text"]))


def test_other_routes_and_failed_requests_are_traced_if_they_were_admitted(traced: Spans) -> None:
    answer, spans = traced("/v1/plan", json={"records": [{"triples": []}]})
    assert (answer.status_code, spans["POST /v1/plan"].status.description) == (422, "record")
    for name in ("align", "check"):
        body = {"records": [records("a")[0] | {"text": "The symbol of silicon is Si."}]}
        answer, spans = traced(f"/v1/{name}", json=body)
        assert (answer.status_code, attributes(spans[name])["records"]) == (200, 1)
    answer, spans = traced("/v1/generate:stream", content=json.dumps(records("a")[0]).encode(), headers=NDJSON)
    assert spans["POST /v1/generate:stream"].status.is_ok
    assert attributes(spans["write"])["texts"] == 1
    answer, spans = traced("/v1/generate", json={"records": records("a")}, headers={"host": "elsewhere.example"})
    assert (answer.status_code, spans) == (403, {}), "the request was not admitted"


def test_an_unreachable_mlflow_loses_spans_but_no_requests(
    planner: PlannerReplica, generator: GeneratorReplica, serve_config: ServeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = MlflowExporter("requests", f"http://user:hunter2@127.0.0.1:{free_ports(1)[0]}")
    traces = Traces(exporter)
    engine = HandleEngine(LocalHandle(planner), LocalHandle(generator), serve_config, span=traces.span)
    answer = Ask(api(engine, serve_config, traces=traces))("/v1/plan", json={"records": records("a")})
    traces.provider.force_flush()
    assert (answer.status_code, exporter.lost) == (200, 3)
    assert "MLflow did not accept 3 spans (Failed to establish a new connection" in caplog.text
    assert "hunter2" not in caplog.text


def test_without_a_server_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs/mlflow.db")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI"):
        MlflowExporter("requests")


def test_without_tracing_its_module_is_not_imported() -> None:
    code = "import sys, serve.app; print('serve.tracing' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert out.stdout.split() == ["False"]
