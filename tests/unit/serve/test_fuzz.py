"""Odd and invalid input: an answer or a problem, never an internal error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp

from agggen.records import Plan
from agggen_platform.serving.config import ServeConfig
from serve.api import api
from serve.handles import HandleEngine
from tests.unit.serve.http_calls import CONFIG, SILICON, asking
from tests.unit.serve.stub_engine import StubEngine

JSON, NDJSON = "application/json", "application/x-ndjson"
GENERATE, STREAM = "/v1/generate", "/v1/generate:stream"

Send = Callable[..., httpx.Response]


@pytest.fixture
def send(engine: HandleEngine, serve_config: ServeConfig) -> Send:
    """Sends a body to an endpoint with the tiny bundle; an exception in it fails the test."""
    return sending(api(engine, serve_config))


def sending(app: ASGIApp) -> Send:
    return lambda address, body, kind=JSON: asking(app)("POST", address, content=body, headers={"Content-Type": kind})


STUBBED = sending(api(StubEngine(), CONFIG))


def body_of(*records: Any) -> bytes:
    return json.dumps({"records": records}).encode()


ODD = [
    "\t\n\r",
    "a\tb\nc",
    "\x7f",
    "\u2028\u2029",
    "\u200b",
    "\ufeff",
    "e\u0301" * 50,
    "👩‍👩‍👧‍👦" * 20,
    "שלום",
    "\U0010ffff",
    "1" * 400,
    "-1e999",
    "١٢٣",
    "²½",
    "31/02/2020",
    "0000-00-00",
    "[a] [b]",
    '"',
    "a]b",
    "|",
    "__subject__",
    "<unk>",
    "%s{}",
    "a" * 650,
    "a " * 320,
]


@pytest.mark.parametrize("value", ODD)
def test_odd_values_cause_no_internal_error(send: Send, value: str) -> None:
    usable = bool(value.strip())
    triples = [[value, "symbol", "Si"], ["Si", value, "x"], ["Si", "name", value], ["Si", value, value]]
    for address, record in (
        (GENERATE, {"triples": triples}),
        ("/v1/plan", {"triples": triples}),
        ("/v1/align", {"triples": SILICON["triples"], "text": value}),
        ("/v1/align", {"triples": triples, "text": f"{value} is Si"}),
    ):
        response = send(address, body_of(record))
        assert response.status_code in (200, 422), response.text
        if usable and address != "/v1/align":
            assert response.status_code == 200, response.text
        for answer in response.json().get("answers", []):
            for result in answer.get("plans", []) + answer.get("texts", []):
                assert str(Plan.parse(result["plan"])) == result["plan"]


# --- generated ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.binary(max_size=200),
    address=st.sampled_from([GENERATE, "/v1/plan", STREAM]),
    kind=st.sampled_from([JSON, NDJSON, "application/json;charset=utf-8", "\u00ff/;;="]),
)
def test_arbitrary_bytes_cause_no_internal_error(data: bytes, address: str, kind: str) -> None:
    response = STUBBED(address, data, kind.encode("latin-1"))
    assert response.status_code < 500, response.text
