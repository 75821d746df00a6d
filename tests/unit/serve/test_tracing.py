"""Traces of requests: content of spans; failures of tracing do not affect requests."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agggen.errors import ConfigError
from agggen_platform.serving.config import ServeConfig, TracingConfig
from serve.api import api
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.local import LocalHandle
from serve.planner import PlannerReplica
from serve.tracing import MlflowExporter, Traces
from tests.processes import free_ports
from tests.unit.serve.http_calls import NDJSON, Ask, records

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
