"""Generated requests: responses conform to the OpenAPI document, and none is an internal error."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from agggen_platform.serving.config import LimitsConfig, SecurityConfig, ServeConfig
from serve.api import api
from serve.handles import HandleEngine
from tests.unit.serve.stub_engine import StubEngine


def no_server_error(context: Any, response: Any, case: Any) -> None:
    """No 5xx, except 504 if the case sets a deadline."""
    assert response.status_code < 500 or (response.status_code == 504 and "X-Deadline-Seconds" in case.headers)


CHECKS = [
    no_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
    allow_header_conformance,
]
"""Without the check that valid bodies are accepted: a plan must fit its record too, which no schema can express."""


@schemathesis.serializer("application/x-ndjson")
def _unchanged(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


CONFIG = ServeConfig(
    bundle="tiny",
    limits=LimitsConfig(plans=3, beam=3, n_best=3),
    security=SecurityConfig(hosts=("testserver",)),  # as the test client calls this machine
)


class _Deferred:
    """A placeholder of the application, which schemathesis needs before the fixture `engine` exists."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


DEFERRED = _Deferred()
DOCUMENT = api(StubEngine(), CONFIG).openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT)
schema.app = DEFERRED
allowed = schemathesis.openapi.from_dict(DOCUMENT).include(method="POST")
allowed.app = DEFERRED
allowed.config.generation.update(modes=[schemathesis.GenerationMode.POSITIVE])


@pytest.fixture
def _application(engine: HandleEngine) -> None:
    DEFERRED.app = api(engine, CONFIG)


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@schema.parametrize()
@examples(8)
@pytest.mark.usefixtures("_application")
def test_answers_conform_to_the_document(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS)


@allowed.parametrize()
@examples(5)
@pytest.mark.usefixtures("_application")
def test_valid_bodies_get_200_or_422(case: schemathesis.Case) -> None:
    for name in ("X-Deadline-Seconds", "X-Model"):
        case.headers.pop(name, None)
    response = case.call_and_validate(checks=CHECKS)
    assert response.status_code in (200, 422)
