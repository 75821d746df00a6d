"""Requests that are retried with exponential backoff after transient failures, until a deadline, and their errors."""

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from agggen.errors import AggGenError

_TRANSIENT = (408, 429, 502, 503, 504)
_DEADLINE_SHARE = 0.9  # the endpoint's deadline as a share of the timeout, so that it stops before the client does


class EndpointError(AggGenError):
    """Base of all errors of a client call."""

    exit_code = 10

    def __init__(
        self,
        message: str,
        problem: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        members = problem or {}
        self.problem = problem  # the endpoint's problem document (`ProblemDict`), if it sent one
        self.status: int | None = members.get("status")
        self.record: str | None = members.get("record")  # id of the record that caused the error
        self.request_id: str | None = request_id or members.get("request_id")  # in the endpoint's logs
        self.retry_after = retry_after  # seconds, from the header Retry-After

    @property
    def is_too_large(self) -> bool:
        """Whether the request was refused for its size; smaller parts of it may be accepted."""
        return str((self.problem or {}).get("type")).endswith(":too-large")


class RefusedError(EndpointError):
    """The request is invalid; a retry would fail again."""

    exit_code = 2


class UnavailableError(EndpointError):
    """In all attempts the endpoint was unreachable or busy, or lost the request; a later call may succeed."""


class FailedError(EndpointError):
    """An internal error of the endpoint; search its log for the request id."""


class DeadlineError(EndpointError):
    """The deadline of the call passed."""


class AnswerError(EndpointError):
    """The response is not an agggen endpoint's, or that of an incompatible version."""


def describe_problem(problem: Mapping[str, Any]) -> str:
    """A one-line message for a problem document."""
    detail = str(problem.get("detail") or problem.get("title") or "no reason given")
    record, field, request = problem.get("record"), problem.get("field"), problem.get("request_id")
    location = [f"record {record!r}"] * (record is not None and repr(record) not in detail)
    location += [f"field {field}"] * (field is not None)
    prefix = f"{', '.join(location)}: " if location else ""
    code = str(problem.get("type", "no code")).rpartition(":")[2]
    return f"{prefix}{detail} ({code}, {problem.get('status')}{f', request {request}' if request else ''})"


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts, and the exponential backoff between them.

    Waits double from `first_wait` to `longest_wait`. Jitter shortens each by up to half, but not below Retry-After.
    """

    attempts: int = 10  # maximum number of consecutive failed attempts; 1: no retries
    first_wait: float = 0.25  # seconds
    longest_wait: float = 10.0  # seconds; a longer Retry-After takes precedence

    def wait(self, attempt: int, retry_after: float | None, draw: float) -> float:
        """Seconds between attempt number `attempt` (from 1) and the next; `draw`: a random number in [0, 1]."""
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 64))
        return max(longest * (0.5 + draw / 2), 0.0 if retry_after is None else retry_after + self.first_wait * draw)


class Attempts:
    """Counts the attempts of a call and measures the time until its deadline."""

    def __init__(self, retry: Retry, deadline: float, timeout: float) -> None:
        """`deadline`: seconds for all attempts; `timeout`: seconds per attempt."""
        self._retry, self._seconds, self._timeout = retry, deadline, timeout
        self.restart()

    def restart(self) -> None:
        """Resets the number of attempts and the deadline; called when an attempt made progress."""
        self._failures, self._deadline = 0, time.monotonic() + self._seconds

    def timeout(self) -> float:
        """The timeout in seconds for an attempt that starts now; raises DeadlineError if the deadline has passed."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineError(f"no answer within {self._seconds:g} s")
        return min(self._timeout, remaining)

    def pause(self, cause: EndpointError) -> None:
        """Waits before the next attempt; raises `cause` after the last one, DeadlineError if time is too short."""
        self._failures += 1
        seconds_left = self._deadline - time.monotonic()
        if self._failures >= self._retry.attempts and seconds_left > 0:
            raise cause
        wait = self._retry.wait(self._failures, cause.retry_after, random.random())
        if wait >= seconds_left:
            message = f"no answer within {self._seconds:g} s; the last error: {cause}"
            raise DeadlineError(message, cause.problem, cause.request_id) from cause
        time.sleep(wait)


def call(http: httpx.Client, method: str, url: str, attempts: Attempts, body: bytes | None = None) -> dict[str, Any]:
    """Sends a request, retries transient failures, and returns the JSON object. Raises EndpointError."""
    while True:
        try:
            return _attempt(http, method, url, attempts.timeout(), body)
        except UnavailableError as error:
            attempts.pause(error)


def _attempt(http: httpx.Client, method: str, url: str, timeout: float, body: bytes | None) -> dict[str, Any]:
    headers = {"x-deadline-seconds": f"{_DEADLINE_SHARE * timeout:.3f}"}
    headers |= {} if body is None else {"content-type": "application/json"}
    request = f"{method} {url}"
    try:
        response = http.request(method, url, content=body, headers=headers, timeout=timeout)
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
    try:
        value = json.loads(response.content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def retry_after(header: str | None) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, section 10.2.3); None if it is missing or a date."""
    text = (header or "").strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else None
