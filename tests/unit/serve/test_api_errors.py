"""Errors of the HTTP interface: kind, status, field, and whether a retry may help; strict JSON; generated requests."""

import asyncio
import json
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks
from starlette.types import ASGIApp

from agggen.records import Plan
from agggen_platform.serving.config import LimitsConfig, SecurityConfig, ServeConfig
from serve.api import api
from serve.engine import Failure
from serve.errors import DETAIL_CHARS, Problem, printable
from serve.handles import HandleEngine
from tests.unit.serve.http_calls import CONFIG, JSON, NDJSON, SILICON, Ask, StubEngine, limited, problem, records


def test_a_request_fails_only_if_all_of_its_records_fail(ask_stub: Ask, stub: StubEngine) -> None:
    stub.failures["bad"] = Failure("plan", "it does not fit", "plan")
    stub.models["c"] = "cd34"  # during an update, a response may have answers of both bundles
    first, error, last = ask_stub.answers("generate", *records("a", "bad", "c"))
    assert [first["status"], error["status"], last["status"]] == ["ok", "error", "ok"]
    assert [first["model"], last["model"], error["index"], error["id"]] == ["ab12", "cd34", 1, "bad"]
    refused = problem(ask_stub(json={"records": records("bad")}))
    expected = {"status": 422, "record": "bad", "field": "plan", "detail": "it does not fit", "index": 0}
    assert {name: refused[name] for name in expected} == expected
    del refused["request_id"], error["error"]["request_id"]
    assert error["error"] == refused | {"index": 1}


@pytest.mark.parametrize(("code", "status"), [("busy", 429), ("deadline", 504), ("lost", 503)])
def test_a_request_is_retryable_if_one_of_its_records_is(
    ask_stub: Ask, stub: StubEngine, code: str, status: int
) -> None:
    stub.failures = {"a": Failure("record", "bad"), "b": Failure(code, "later")}
    response = ask_stub(json={"records": records("a", "b")})
    failed = problem(response)
    assert (response.status_code, failed["retryable"]) == (status, True)
    assert int(response.headers["Retry-After"]) >= 1
    assert [error["record"] for error in failed["errors"]] == ["a", "b"]
    partly, _ = ask_stub.answers("generate", *records("b", "c"))
    assert partly["error"]["retryable"] is True


def test_internal_errors_are_hidden_from_clients(ask_stub: Ask, stub: StubEngine) -> None:
    stub.error = KeyError("a secret")
    response = ask_stub("/v1/plan", json={"records": records("a")})
    assert problem(response)["status"] == 500
    assert "secret" not in response.text and "Traceback" not in response.text
    assert response.headers["X-Request-Id"] == problem(response)["request_id"]


@pytest.mark.parametrize("address", ["/v1/generate", "/v1/generate:stream"])
def test_the_deadline_also_limits_the_wait_for_the_model_card(ask_stub: Ask, stub: StubEngine, address: str) -> None:
    async def silent() -> None:
        await asyncio.sleep(600)

    stub.card = silent
    headers = {"X-Deadline-Seconds": "0.05"} | (NDJSON if address.endswith("stream") else JSON)
    response = ask_stub(address, content=json.dumps({"records": [SILICON]}), headers=headers)
    assert (response.status_code, problem(response)["retryable"]) == (504, True)


def test_an_endpoint_whose_engine_cannot_answer_is_alive_but_not_ready(ask_stub: Ask, stub: StubEngine) -> None:
    assert ask_stub("/readyz", "GET").json() == {"status": "ready", "model": "ab12"}
    stub.error = Problem("unavailable", "no planner is ready")
    assert ask_stub("/healthz", "GET").status_code == 200
    for response in (ask_stub("/readyz", "GET"), ask_stub(json={"records": records("a")})):
        assert (response.status_code, problem(response)["retryable"]) == (503, True)
        assert "Retry-After" in response.headers


def test_a_repeated_id_is_an_error_that_names_the_first_record(ask_stub: Ask) -> None:
    nameless = {"triples": SILICON["triples"]}
    answers = ask_stub.answers("generate", *records("a", "b", "a"), nameless, nameless)
    assert [answer["status"] for answer in answers] == ["ok", "ok", "error", "ok", "ok"]
    assert "record 0" in answers[2]["error"]["detail"] and answers[2]["error"]["field"] == "id"
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
        ({"id": "\ud800", "triples": [["a", "b", "c"]]}, None),
        ({"\ud800": 1, "triples": [["a", "b", "c"]]}, None),
        ({"triples": "abc"}, "triples"),
        (7, None),
        ({"subject": "a", "predicate": "b", "object": "c"}, None),  # one triple, not a row
        # Flattening repeats the outer key for each of the inner values, which would exhaust memory.
        ({"x" * 100_000: {str(number): "1" for number in range(1000)}}, None),
    ],
)
def test_the_error_of_an_invalid_record_names_its_field(ask_stub: Ask, record: Any, field: str | None) -> None:
    def response_to(*records: Any) -> httpx.Response:
        return ask_stub(content=json.dumps({"records": records}), headers=JSON)

    alone = response_to(record)
    assert (alone.status_code, problem(alone).get("field"), problem(alone)["index"]) == (422, field, 0)
    assert [answer["status"] for answer in response_to(SILICON, record).json()["answers"]] == ["ok", "error"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "empty"),
        (b'{"a": "\xff"}', 400, "byte 0xff at position 8"),
        ('{"a": 1}'.encode("utf-16"), 400, "byte 0xff at position 1"),
        (b'{"a": NaN}', 400, "NaN is not a JSON number"),
        (b"[1e400]", 400, "1e400 is too large"),
        (b"[" + b"9" * 5000 + b"]", 400, "4300 digits"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', 400, "the key 'c' twice"),
        (b'{"a": 1,\n "b"}', 400, "line 2, column 5"),
        (b"[" + b" " * 50_000, 400, "the body is not JSON"),
        (b"[" * 60_000, 400, "too deeply"),
        (b"[1] [2]", 400, "line 1, column 5"),
        (b"[" + b"[],{}," * 35_000 + b"1]", 413, "lists and objects"),
        (b"[]", 422, "must be a JSON object"),
        (b"{}", 422, "records"),
        (b'{"records": []}', 422, "at least 1"),
        (b'{"record": []}', 422, "records"),
        (b'{"records": [1], "options": []}', 422, "options"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_invalid_body_is_refused(ask_stub: Ask, body: bytes, status: int, message: str) -> None:
    response = ask_stub(content=body, headers=JSON)
    assert response.status_code == status
    assert message in problem(response)["detail"]


@pytest.mark.parametrize("blanks", [0, 50_000], ids=["small", "large"])  # large bodies are parsed in a thread
def test_json_may_have_a_byte_order_mark_and_blanks(ask_stub: Ask, blanks: int) -> None:
    body = b"\xef\xbb\xbf" + b" " * blanks + json.dumps({"records": [SILICON]}).encode()
    assert ask_stub(content=body, headers=JSON).status_code == 200


def test_a_large_body_that_is_nested_deeply_is_refused(ask_stub: Ask) -> None:
    """Regression: status 500 at depths that the parser accepts in a thread."""
    for depth in (*range(900, 1000, 4), 60_000):
        body = '{"records": [{"triples": [["a", "b", ' + "[" * depth + "]" * depth + "]]}]}" + " " * 40_000
        assert ask_stub(content=body, headers=JSON).status_code in (400, 422)


def test_an_error_quotes_only_the_start_of_an_unknown_name(ask_stub: Ask) -> None:
    """Regression: an unknown name of megabytes was quoted in full and compared with all valid names."""
    name = "triples" * 500_000
    for body in ({"records": records("a"), name: 1}, {"records": [SILICON | {name: 1}]}):
        response = ask_stub(json=body)
        assert response.status_code == 422
        assert len(response.content) < 4000
        assert problem(response)["field"].startswith("triplestriples")


def test_details_are_truncated_and_unprintable_characters_escaped() -> None:
    assert printable("a\ud800\x00\u202e\nb") == "a\\ud800\\x00\\u202e\\nb"
    for character in ("x", "\x00", "\U000e0001"):
        detail = Problem("invalid", character * 10_000).detail
        assert len(detail) == DETAIL_CHARS and detail.endswith("...")


def test_too_many_records_are_refused(stub: StubEngine) -> None:
    response = limited(stub, records=2)(json={"records": records("a", "b", "c")})
    assert (response.status_code, problem(response)["field"]) == (413, "records")
    assert not stub.calls


def no_server_error(context: Any, response: Any, case: Any) -> None:
    """Check: no status 5xx, except 504 if the case sets a deadline."""
    assert response.status_code < 500 or (response.status_code == 504 and "X-Deadline-Seconds" in case.headers)


CHECKS = [
    *(no_server_error, checks.status_code_conformance, checks.content_type_conformance),
    *(checks.response_headers_conformance, checks.response_schema_conformance),
    *(checks.unsupported_method, checks.allow_header_conformance),
]
"""Without the check that schema-valid bodies are accepted, since a plan must also fit its record."""


@schemathesis.serializer("application/x-ndjson")
def _unchanged(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


CONTRACT = ServeConfig(
    bundle="tiny",
    limits=LimitsConfig(plans=3, beam=3, n_best=3),
    security=SecurityConfig(hosts=("testserver",)),  # the test client's host name
)
schema = schemathesis.openapi.from_dict(api(StubEngine(), CONTRACT).openapi())


@pytest.fixture
def contract(engine: HandleEngine) -> ASGIApp:
    return api(engine, CONTRACT)


@schema.parametrize()
@settings(
    max_examples=10, derandomize=True, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
def test_answers_conform_to_the_document(case: schemathesis.Case, contract: ASGIApp) -> None:
    case.call_and_validate(checks=CHECKS, app=contract)


ODD = [
    *("\t\n\r", "a\tb\nc", "\x7f", "\u2028\u2029", "\u200b", "\ufeff", "e\u0301" * 50, "\U0010ffff", "שלום"),
    "👩‍👩‍👧‍👦" * 20,
    *("1" * 400, "-1e999", "١٢٣", "²½", "31/02/2020", "0000-00-00", "[a] [b]", '"', "a]b", "|", "__subject__", "<unk>"),
    *("%s{}", "a" * 650, "a " * 320),
]


@pytest.mark.parametrize("value", ODD)
def test_odd_values_cause_no_internal_error(ask: Ask, value: str) -> None:
    triples = [[value, "symbol", "Si"], ["Si", value, "x"], ["Si", "name", value], ["Si", value, value]]
    for name, record in (
        ("generate", {"triples": triples}),
        ("plan", {"triples": triples}),
        ("align", {"triples": SILICON["triples"], "text": value}),
        ("align", {"triples": triples, "text": f"{value} is Si"}),
    ):
        response = ask(f"/v1/{name}", json={"records": [record]})
        refusable = name == "align" or not value.strip()
        assert response.status_code == 200 or (refusable and response.status_code == 422), response.text
        for answer in response.json().get("answers", []):
            for result in answer.get("plans", []) + answer.get("texts", []):
                assert str(Plan.parse(result["plan"])) == result["plan"]


STUBBED = Ask(api(StubEngine(), CONFIG))


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.binary(max_size=200),
    name=st.sampled_from(["generate", "plan", "generate:stream"]),
    kind=st.sampled_from(["application/json", "application/x-ndjson", "application/json;charset=utf-8", "\u00ff/;;="]),
)
def test_arbitrary_bytes_cause_no_internal_error(data: bytes, name: str, kind: str) -> None:
    response = STUBBED(f"/v1/{name}", content=data, headers={"Content-Type": kind.encode("latin-1")})
    assert response.status_code < 500, response.text
