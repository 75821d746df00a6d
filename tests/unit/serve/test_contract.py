"""Generated and unusual requests: responses conform to the OpenAPI document, none is an internal error."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks
from starlette.types import ASGIApp, Receive, Scope, Send

from agggen.records import Plan
from agggen_platform.serving.config import LimitsConfig, SecurityConfig, ServeConfig
from serve.api import api
from serve.handles import HandleEngine
from tests.unit.serve.http_calls import CONFIG as STUB_CONFIG
from tests.unit.serve.http_calls import SILICON, Ask
from tests.unit.serve.stub_engine import StubEngine


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


CONFIG = ServeConfig(
    bundle="tiny",
    limits=LimitsConfig(plans=3, beam=3, n_best=3),
    security=SecurityConfig(hosts=("testserver",)),  # the test client's host name
)


SERVED: list[ASGIApp] = []
"""The tested application; schemathesis needs a reference to it before the fixture `engine` exists."""


async def served(scope: Scope, receive: Receive, send: Send) -> None:
    await SERVED[-1](scope, receive, send)


@pytest.fixture
def _application(engine: HandleEngine) -> None:
    SERVED.append(api(engine, CONFIG))


schema = schemathesis.openapi.from_dict(api(StubEngine(), CONFIG).openapi())
schema.app = served


@schema.parametrize()
@settings(
    max_examples=10,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.usefixtures("_application")
def test_answers_conform_to_the_document(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)


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


STUBBED = Ask(api(StubEngine(), STUB_CONFIG))


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.binary(max_size=200),
    name=st.sampled_from(["generate", "plan", "generate:stream"]),
    kind=st.sampled_from(["application/json", "application/x-ndjson", "application/json;charset=utf-8", "\u00ff/;;="]),
)
def test_arbitrary_bytes_cause_no_internal_error(data: bytes, name: str, kind: str) -> None:
    response = STUBBED(f"/v1/{name}", content=data, headers={"Content-Type": kind.encode("latin-1")})
    assert response.status_code < 500, response.text
