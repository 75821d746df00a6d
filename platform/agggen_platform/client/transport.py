"""Sends one request at a time, and decides which failures are transient."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from agggen_platform.client.errors import (
    AnswerError,
    EndpointError,
    FailedError,
    Problem,
    RefusedError,
    UnavailableError,
)
from agggen_platform.client.retry import Attempts, Retry, seconds_of

_TRY_AGAIN = (408, 429, 502, 503, 504)
_LONGEST_ERROR = 1 << 20  # bytes of an error's body that are read
_SHARE = 0.9  # of the timeout is the deadline sent to the endpoint, so that it reports lateness before the client does


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a client."""

    url: str  # of the endpoint, without credentials or a slash at its end
    headers: Mapping[str, str] = field(repr=False)  # including the key
    timeout: float  # seconds to connect, and without a byte of an answer
    deadline: float  # seconds of a call, all its attempts together; of a stream: between two answers
    retry: Retry


@dataclass(frozen=True, slots=True)
class Request:
    """The content of one attempt."""

    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport:
    """Sends the requests of a client."""

    def __init__(self, settings: Settings, http: httpx.Client) -> None:
        self.settings, self._http = settings, http

    def attempts(self, deadline: float | None = None) -> Attempts:
        """The attempts of a new call; `deadline` in seconds, None: the client's."""
        seconds = self.settings.deadline if deadline is None else deadline
        if not 0 < seconds < math.inf:
            raise ValueError(f"the deadline must be a number of seconds above 0, not {seconds}")
        return Attempts(self.settings.retry, seconds)

    def pause(self, attempts: Attempts, cause: EndpointError) -> None:
        """Waits before the next attempt; raises after the last one."""
        time.sleep(attempts.next_wait(cause))

    def answer(self, request: Request, attempts: Attempts) -> dict[str, Any]:
        """The JSON object that the endpoint answers; transient failures are retried.

        Raises:
            RefusedError, UnavailableError, DeadlineError, AnswerError
        """
        while True:
            try:
                with self.opened(request, attempts) as response:
                    body = b"".join(self.pieces(response, attempts))
            except UnavailableError as error:
                self.pause(attempts, error)
                continue
            return self._object(request, response, body)

    @contextmanager
    def opened(self, request: Request, attempts: Attempts) -> Iterator[httpx.Response]:
        """A successful response, its body still to be read.

        Raises:
            UnavailableError: no connection, cut off, or a status after which the same request may succeed.
            RefusedError, AnswerError: another status.
            DeadlineError: the deadline had passed.
        """
        attempts.check()
        settings = self.settings
        patience = min(settings.timeout, attempts.left)
        sent = httpx.Request(
            request.method,
            settings.url + request.path,
            content=request.content,
            headers={**settings.headers, **request.headers, "x-deadline-seconds": f"{_SHARE * patience:.3f}"},
            extensions={"timeout": httpx.Timeout(patience).as_dict()},
        )
        what = f"{request.method} {settings.url}{request.path}"
        try:
            response = self._http.send(sent, stream=True)
            try:
                if response.status_code != 200:
                    raise self._failure(what, response)
                yield response
            finally:
                response.close()
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.TooManyRedirects) as error:
            raise RefusedError(f"{what}: {error}") from error
        except httpx.DecodingError as error:
            raise AnswerError(f"{what}: the answer cannot be decompressed: {error}") from error
        except httpx.TimeoutException as error:
            attempts.check(UnavailableError(f"{what}: no data for {patience:.3g} s"))
            raise UnavailableError(f"{what}: no data for {patience:.3g} s") from error
        except httpx.TransportError as error:
            raise UnavailableError(f"{what}: {str(error) or type(error).__name__}") from error

    def pieces(self, response: httpx.Response, attempts: Attempts) -> Iterator[bytes]:
        """The body as it comes, no longer than the deadline."""
        for piece in response.iter_bytes():
            attempts.check()
            yield piece

    def lines(self, response: httpx.Response, attempts: Attempts) -> Iterator[bytes]:
        """The complete lines of a body; a last one without its end was cut off and is left out."""
        rest = b""
        for piece in self.pieces(response, attempts):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines

    def _failure(self, what: str, response: httpx.Response) -> EndpointError:
        """The error for a response other than 200."""
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _LONGEST_ERROR:
                break
        status, request_id = response.status_code, response.headers.get("x-request-id")
        problem = _problem(response, bytes(body))
        retry_after = seconds_of(response.headers.get("retry-after"))
        message = f"{what}: {problem}" if problem else f"{what}: status {status} without a problem document"
        # A 5xx without a problem document comes from a proxy, whose application died.
        is_transient = (
            status in _TRY_AGAIN or (problem is not None and problem.retryable) or (problem is None and status >= 500)
        )
        if is_transient:
            return UnavailableError(message, problem, request_id, retry_after)
        if problem is None and not 400 <= status < 500:
            return AnswerError(message, problem, request_id)
        return (FailedError if status >= 500 else RefusedError)(message, problem, request_id)

    def _object(self, request: Request, response: httpx.Response, body: bytes) -> dict[str, Any]:
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            start = body[:60].decode(errors="replace")
            what = f"{request.method} {self.settings.url}{request.path}"
            request_id = response.headers.get("x-request-id")
            raise AnswerError(
                f"{what}: expected a JSON object, not {start!r}; is this the endpoint?", request_id=request_id
            )
        return value


def _problem(response: httpx.Response, body: bytes) -> Problem | None:
    """The problem document of a response, None where it holds none."""
    if response.headers.get("content-type", "").split(";")[0].strip().lower() != "application/problem+json":
        return None
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return Problem.of({"status": response.status_code, **document}) if isinstance(document, dict) else None
