"""Errors of the HTTP interface: kind, status, field, and whether a retry may help."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from agggen_platform.serving.config import LimitsConfig, ServeConfig
from serve.api import api
from serve.engine import EngineError, Failure, ModelCard
from tests.unit.serve.http_calls import CONFIG, JSON, NDJSON, SILICON, Ask, asking, problem, records
from tests.unit.serve.stub_engine import StubEngine


def test_a_request_fails_only_if_all_of_its_records_fail(ask_stub: Ask, stub: StubEngine) -> None:
    stub.failures["bad"] = Failure("plan", "it does not fit", "plan")
    alone = ask_stub("POST", "/v1/generate", json={"records": records("bad")})
    among = ask_stub("POST", "/v1/generate", json={"records": records("a", "bad", "c")})
    assert alone.status_code == 422
    assert among.status_code == 200
    first, error, last = among.json()["answers"]
    assert [first["status"], error["status"], last["status"]] == ["ok", "error", "ok"]
    assert [error["index"], error["id"]] == [1, "bad"]
    refused = problem(alone)
    expected = {"record": "bad", "field": "plan", "detail": "it does not fit", "index": 0}
    assert {name: refused[name] for name in expected} == expected
    del refused["request_id"], error["error"]["request_id"]
    assert error["error"] == refused | {"index": 1}


@pytest.mark.parametrize(("code", "status"), [("busy", 429), ("deadline", 504), ("lost", 503)])
def test_temporary_failures_are_retryable(ask_stub: Ask, stub: StubEngine, code: str, status: int) -> None:
    stub.failures = {name: Failure(code, "later") for name in ("a", "b")}
    response = ask_stub("POST", "/v1/generate", json={"records": records("a", "b")})
    failed = problem(response)
    assert (response.status_code, failed["retryable"]) == (status, True)
    assert int(response.headers["Retry-After"]) >= 1
    assert [error["record"] for error in failed["errors"]] == ["a", "b"]
    partly = ask_stub("POST", "/v1/generate", json={"records": records("a", "c")})
    assert partly.status_code == 200
    assert partly.json()["answers"][0]["error"]["retryable"] is True


def test_a_request_is_retryable_if_one_of_its_records_is(ask_stub: Ask, stub: StubEngine) -> None:
    stub.failures = {"a": Failure("record", "bad"), "b": Failure("busy", "later")}
    assert ask_stub("POST", "/v1/generate", json={"records": records("a", "b")}).status_code == 429


def test_internal_errors_are_hidden_from_clients(ask_stub: Ask, stub: StubEngine) -> None:
    stub.failures["a"] = Failure("internal", "a secret")
    failed = ask_stub("POST", "/v1/generate", json={"records": records("a")})
    stub.error = KeyError("a secret")
    broken = ask_stub("POST", "/v1/plan", json={"records": records("a")})
    for response in (failed, broken):
        assert problem(response)["status"] == 500
        assert "secret" not in response.text and "Traceback" not in response.text
        assert response.headers["X-Request-Id"] == problem(response)["request_id"]


@pytest.mark.parametrize("address", ["/v1/generate", "/v1/generate:stream"])
def test_the_deadline_also_limits_the_wait_for_the_model_card(stub: StubEngine, address: str) -> None:
    async def silent() -> ModelCard:
        await asyncio.sleep(600)
        raise AssertionError

    stub.card = silent  # type: ignore[method-assign]
    headers = {"X-Deadline-Seconds": "0.05"} | (NDJSON if address.endswith("stream") else JSON)
    response = asking(api(stub, CONFIG))("POST", address, content=json.dumps({"records": [SILICON]}), headers=headers)
    assert (response.status_code, problem(response)["retryable"]) == (504, True)


@pytest.mark.parametrize("address", ["/v1/generate", "/v1/plan", "/v1/generate:stream"])
def test_each_answer_names_the_bundle_that_gave_it(ask_stub: Ask, stub: StubEngine, address: str) -> None:
    """During an update, a request may get answers of both bundles."""
    stub.models["b"] = "cd34"
    requested = records("a", "b", "c")
    if address.endswith("stream"):
        body = b"\n".join(json.dumps(record).encode() for record in requested)
        response = ask_stub("POST", address, content=body, headers=NDJSON)
        answers = [json.loads(line) for line in response.text.splitlines()][:-1]
    else:
        answers = ask_stub("POST", address, json={"records": requested}).json()["answers"]
    assert [answer["model"] for answer in answers] == ["ab12", "cd34", "ab12"]


def test_an_endpoint_whose_engine_cannot_answer_is_alive_but_not_ready(ask_stub: Ask, stub: StubEngine) -> None:
    assert ask_stub("GET", "/readyz").json() == {"status": "ready", "model": "ab12"}
    stub.error = EngineError("no planner is ready")
    assert ask_stub("GET", "/healthz").status_code == 200
    for response in (ask_stub("GET", "/readyz"), ask_stub("POST", "/v1/generate", json={"records": records("a")})):
        assert (response.status_code, problem(response)["retryable"]) == (503, True)
        assert "Retry-After" in response.headers


def test_a_repeated_id_is_an_error_that_names_the_first_record(ask_stub: Ask) -> None:
    repeated = [*records("a", "b", "a"), {"triples": SILICON["triples"]}, {"triples": SILICON["triples"]}]
    answers = ask_stub("POST", "/v1/generate", json={"records": repeated}).json()["answers"]
    assert [answer["status"] for answer in answers] == ["ok", "ok", "error", "ok", "ok"]
    assert "record 0" in answers[2]["error"]["detail"]
    assert answers[2]["error"]["field"] == "id"
    assert [answer["id"] for answer in answers] == ["a", "b", "a", "3", "4"]


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"triples": []}, "triples"),
        ({"triples": [["a", "b"]]}, "triples.0"),
        ({"triples": [["a", "b", "c"], ["a", "b", 3]]}, "triples.1.2"),
        ({"triples": [["a", "b", "c"], ["a", "b", " "]]}, "triples.1"),
        ({"triples": [{"subject": "a", "predicate": "b"}]}, "triples.0.object"),
        ({"triples": [["a", "b", "\u0000"]]}, "triples.0"),
        ({"triples": [["a", "", "c"]]}, "triples.0"),
        ({"triples": [[None, "b", "c"]]}, "triples.0.0"),
        ({"triples": [{"subject": "", "predicate": "", "object": "c"}]}, "triples.0.predicate"),
        ({"triples": [["a", "b", "c" * 4001]]}, "triples"),
        ({"triples": [["a", f"p{i}", "c" * 1500] for i in range(3)]}, "triples"),
        ({"triples": [["a", f"p{i}", "c"] for i in range(25)]}, "triples"),
        ({"id": True, "triples": [["a", "b", "c"]]}, "id"),
        ({"id": "i" * 3000, "triples": [["a", "b", "c"]]}, "id"),
        ({"triples": [["a", "b", "c"]], "plan": "[b"}, "plan"),
        ({"triples": [["a", "b", "c"]], "plan": 3}, "plan"),
        ({"triples": [["a", "b", "c"]], "plna": "[b]"}, "plna"),
        ({"id": "\ud800", "triples": [["a", "b", "c"]]}, "id"),
        ({"\ud800": 1, "triples": [["a", "b", "c"]]}, "\\ud800"),
        ({"triples": [["a", "b", "c"]], "references": [{"x": "\ud800"}]}, "references.0.x"),
        ({"triples": [["a", "b", "c"]], "plan": "[\ud800]"}, "plan"),
        ({"triples": "abc"}, "triples"),
        (7, None),
    ],
)
def test_an_invalid_record_fails_alone_and_names_its_field(ask_stub: Ask, record: Any, field: str | None) -> None:
    def response_to(*records: Any) -> httpx.Response:
        return ask_stub("POST", "/v1/generate", content=json.dumps({"records": records}), headers=JSON)

    alone = response_to(record)
    assert (alone.status_code, problem(alone).get("field"), problem(alone)["index"]) == (422, field, 0)
    assert [answer["status"] for answer in response_to(SILICON, record).json()["answers"]] == ["ok", "error"]
    lines = "\n".join(map(json.dumps, (record, SILICON)))
    streamed = ask_stub("POST", "/v1/generate:stream", content=lines, headers=NDJSON).text.splitlines()
    assert [json.loads(line)["status"] for line in streamed] == ["error", "ok", "end"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "empty"),
        (b"  \n", 400, "empty"),
        (b"{", 400, "line 1, column 2"),
        (b'{"records": [], "records": []}', 400, "'records' twice"),
        (b"[]", 422, "must be an object, not a list"),
        (b"{}", 422, "records"),
        (b'{"records": []}', 422, "at least 1"),
        (b'{"records": {}}', 422, "list"),
        (b'{"record": []}', 422, "records"),
        (b'{"records": [1], "options": []}', 422, "options"),
    ],
)
def test_an_invalid_body_is_refused(ask_stub: Ask, body: bytes, status: int, says: str) -> None:
    response = ask_stub("POST", "/v1/generate", content=body, headers=JSON)
    assert response.status_code == status
    assert says in problem(response)["detail"]


def test_a_large_body_that_is_nested_deeply_is_refused(ask_stub: Ask) -> None:
    """Regression: a depth at which the thread's parser still succeeds ended in status 500."""
    for depth in (*range(900, 1000, 4), 60_000):
        body = '{"records": [{"triples": [["a", "b", ' + "[" * depth + "]" * depth + "]]}]}" + " " * 40_000
        response = ask_stub("POST", "/v1/generate", content=body, headers=JSON)
        assert response.status_code in (400, 422)


def test_an_error_quotes_only_a_part_of_an_unknown_name(ask_stub: Ask) -> None:
    """Regression: the field was the name with all its megabytes, and comparing it with the valid names took seconds."""
    name = "triples" * 500_000
    for body in ({"records": records("a"), name: 1}, {"records": [SILICON | {name: 1}]}):
        response = ask_stub("POST", "/v1/generate", json=body)
        assert response.status_code == 422
        assert len(response.content) < 4000
        assert problem(response)["field"].startswith("triplestriples")


def test_too_many_records_are_refused(stub: StubEngine) -> None:
    ask = asking(api(stub, ServeConfig(bundle="toy", limits=LimitsConfig(records=2))))
    response = ask("POST", "/v1/generate", json={"records": records("a", "b", "c")})
    assert (response.status_code, problem(response)["field"]) == (413, "records")
    assert not stub.calls


@pytest.mark.parametrize(
    "kind", ["", "text/csv", "application/x-www-form-urlencoded", "application/json; charset=utf-16"]
)
def test_other_media_types_are_refused(ask_stub: Ask, kind: str) -> None:
    response = ask_stub("POST", "/v1/generate", content=b"{}", headers={"Content-Type": kind} if kind else {})
    assert problem(response)["status"] == 415


def test_unknown_addresses_and_methods_are_problems(ask_stub: Ask) -> None:
    assert problem(ask_stub("GET", "/v1/nothing"))["status"] == 404
    wrong = ask_stub("GET", "/v1/generate")
    assert (problem(wrong)["status"], wrong.headers["Allow"]) == (405, "POST")
