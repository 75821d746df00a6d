"""Sends a request and retries it after transient failures."""

from __future__ import annotations

import json
from typing import Any

import httpx

from agggen_platform.client.errors import (
    AnswerError,
    EndpointError,
    FailedError,
    RefusedError,
    UnavailableError,
    describe_problem,
)
from agggen_platform.client.retry import Attempts, retry_after

_TRANSIENT = (408, 429, 502, 503, 504)
_DEADLINE_SHARE = 0.9  # the endpoint's deadline as a share of the timeout, so that it stops before the client does


def call(http: httpx.Client, method: str, url: str, attempts: Attempts, body: bytes | None = None) -> dict[str, Any]:
    """Sends a request, retries transient failures, and returns the JSON object. Raises EndpointError."""
    while True:
        try:
            return _attempt(http, method, url, attempts, body)
        except UnavailableError as error:
            attempts.pause(error)


def _attempt(http: httpx.Client, method: str, url: str, attempts: Attempts, body: bytes | None) -> dict[str, Any]:
    attempts.check()
    timeout = attempts.timeout
    headers = {"x-deadline-seconds": f"{_DEADLINE_SHARE * timeout:.3f}"}
    headers |= {} if body is None else {"content-type": "application/json"}
    request = f"{method} {url}"
    try:
        response = http.request(method, url, content=body, headers=headers, timeout=timeout)
    except httpx.TimeoutException as error:
        unavailable = UnavailableError(f"{request}: no data for {timeout:.3g} s")
        attempts.check(unavailable)
        raise unavailable from error
    except httpx.TransportError as error:
        raise UnavailableError(f"{request}: {str(error) or type(error).__name__}") from error
    except httpx.DecodingError as error:
        raise AnswerError(f"{request}: the answer cannot be decompressed: {error}") from error
    if response.status_code != 200:
        raise _failure(request, response)
    value = _object(response)
    if value is None:
        raise AnswerError(
            f"{request}: expected a JSON object, not {response.text[:60]!r}; is this the endpoint?",
            request_id=response.headers.get("x-request-id"),
        )
    return value


def _failure(request: str, response: httpx.Response) -> EndpointError:
    """The error for a response with a status other than 200."""
    status, request_id = response.status_code, response.headers.get("x-request-id")
    media_type = response.headers.get("content-type", "").split(";")[0].strip().lower()
    document = _object(response) if media_type == "application/problem+json" else None
    problem = None if document is None else {"status": status, **document}
    description = describe_problem(problem) if problem else f"status {status} without a problem document"
    message = f"{request}: {description}"
    # A 5xx response without a problem document comes from a proxy in front of a dead application: transient.
    if status in _TRANSIENT or (problem.get("retryable") is True if problem else status >= 500):
        return UnavailableError(message, problem, request_id, retry_after(response.headers.get("retry-after")))
    if problem is None and not 400 <= status < 500:
        return AnswerError(message, problem, request_id)
    return (FailedError if status >= 500 else RefusedError)(message, problem, request_id)


def _object(response: httpx.Response) -> dict[str, Any] | None:
    """The JSON object in the body of a response; None if the body is not a JSON object."""
    try:
        value = json.loads(response.content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
