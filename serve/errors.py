"""What a client is told when something went wrong: problem+json (RFC 9457), one kind for each cause.

A problem names the record (`record` is its id, `index` its place in the request, from 0) and the `field` in dotted form
(`triples.2.object`, `options.n_best`); `retryable` says whether the same request may succeed later. No problem holds
a stack trace or a whole input. The request id stands in ``scope["state"]["request_id"]``.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agggen.errors import AggGenError, ConfigError, PlanError, RecordError
from serve.engine import EngineError, Failure

MEDIA_TYPE = "application/problem+json"
DETAIL_CHARS = 500
"""Longer details are cut: they quote what a client sent."""
LISTED = 100
"""Problems of records that one body lists."""

_log = logging.getLogger("agggen.serve")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem; its type is ``urn:agggen:problem:CODE``."""

    code: str
    status: int
    title: str
    retry_after: int | None = None  # seconds; such a problem is retryable

    @property
    def type(self) -> str:
        return f"urn:agggen:problem:{self.code}"


KINDS = {
    kind.code: kind
    for kind in (
        Kind("malformed", 400, "The request cannot be read"),
        Kind("unauthorized", 401, "A key is needed"),
        Kind("forbidden", 403, "This may not be asked from there"),
        Kind("not-found", 404, "There is nothing at this address"),
        Kind("method", 405, "This address does not take that method"),
        Kind("slow", 408, "The request came too slowly", 1),
        Kind("conflict", 409, "Another request is in the way"),
        Kind("too-large", 413, "The request is too large"),
        Kind("media-type", 415, "The body is in no format that is read here"),
        Kind("invalid", 422, "The request asks for something impossible"),
        Kind("record", 422, "The record cannot be written about"),
        Kind("plan", 422, "The plan does not fit its record"),
        Kind("text", 422, "The text cannot be aligned"),
        Kind("unfulfilled", 422, "No text mentions all values of the record"),
        Kind("busy", 429, "Too much work is waiting", 1),
        Kind("rate", 429, "Too many requests of this key", 1),
        Kind("gone", 499, "The client went away"),
        Kind("internal", 500, "Something failed inside"),
        Kind("lost", 503, "The replica that worked on it was lost", 1),
        Kind("unavailable", 503, "Nothing can answer yet", 2),
        Kind("deadline", 504, "The time was over before the work was done", 1),
    )
}


class Problem(Exception):
    """An answer that is an error. `code` is one of KINDS."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        record: str | None = None,
        index: int | None = None,
        field: str | None = None,
        errors: Iterable[Problem] = (),
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = KINDS[code]
        self.detail = printable(detail)
        self.record, self.index, self.field = record, index, field
        self.errors = list(errors)
        self.retry_after = self.kind.retry_after if retry_after is None else math.ceil(retry_after)
        self.headers = headers or {}

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.retry_after is not None

    def as_dict(self, request_id: str | None = None) -> dict[str, Any]:
        """The problem's JSON form; what is not known is left out."""
        data: dict[str, Any] = {
            "type": self.kind.type,
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "retryable": self.retryable,
        }
        for name in ("record", "index", "field"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        if request_id is not None:
            data["request_id"] = request_id
        if self.errors:
            data["errors"] = [problem.as_dict() for problem in self.errors[:LISTED]]
        return data

    def response(self, request_id: str | None = None) -> Response:
        """The HTTP response, with Retry-After where a retry may help."""
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers.setdefault("Retry-After", str(self.retry_after))
        body = json.dumps(self.as_dict(request_id), ensure_ascii=False, allow_nan=False).encode()
        return Response(body, self.kind.status, headers, MEDIA_TYPE)


def printable(text: str) -> str:
    """`text` for an answer: no lone surrogates or control characters, at most DETAIL_CHARS characters."""
    text = text if len(text) <= DETAIL_CHARS else text[: DETAIL_CHARS - 3] + "..."
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def request_id(scope: MutableMapping[str, Any]) -> str | None:
    """The id under which the request is logged, None outside of `RequestContext`."""
    return scope.get("state", {}).get("request_id")


def problem_of(
    error: AggGenError | EngineError | Failure, record: str | None = None, index: int | None = None
) -> Problem:
    """The problem that an error of the library, or a failure of the engine, is to a client."""
    if isinstance(error, Failure):
        code = error.code if error.code in KINDS else "internal"
        detail = error.message if code != "internal" else "an unexpected error; the server's log has it"
        if code == "internal":
            _log.error("record %r failed inside: %s", record, error.message)
        return Problem(code, detail, record=record, index=index, field=error.field)
    if isinstance(error, EngineError):
        return Problem("unavailable", str(error), record=record, index=index)
    code = "plan" if isinstance(error, PlanError) else "record" if isinstance(error, RecordError) else "invalid"
    if code == "invalid" and not isinstance(error, ConfigError):
        code = "malformed"
    return Problem(code, str(error), record=record, index=index)


def combined(problems: list[Problem]) -> Problem:
    """The problem of a request in which every record failed: retryable if a retry may bring any of them an answer.

    Its kind is that of the first record's problem among the retryable ones, else among those inside, else of the
    client's; all are listed in `errors` where there are several.
    """
    first = min(problems, key=lambda problem: (not problem.retryable, problem.kind.status < 500))
    if len(problems) == 1:
        return first
    same = all(problem.kind is first.kind for problem in problems)
    detail = (
        f"none of the {len(problems)} records was answered; {'the first' if same else 'one of them'}: {first.detail}"
    )
    return Problem(
        first.kind.code,
        detail,
        record=first.record,
        index=first.index,
        field=first.field,
        errors=problems,
        retry_after=first.retry_after,
    )


def install(app: FastAPI) -> None:
    """Makes every error that a route raises a problem."""

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.response(request_id(request.scope))

    async def library(request: Request, error: Exception) -> Response:
        assert isinstance(error, AggGenError | EngineError)
        return problem_of(error).response(request_id(request.scope))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        codes = {404: "not-found", 405: "method"}
        details = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not for this address"}
        if error.status_code not in codes:
            raise error
        problem = Problem(codes[error.status_code], details[error.status_code], headers=dict(error.headers or {}))
        return problem.response(request_id(request.scope))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return Problem("invalid", first["msg"], field=place).response(request_id(request.scope))

    async def gone(request: Request, error: Exception) -> Response:
        return Problem("gone", "the client went away").response(request_id(request.scope))

    app.add_exception_handler(Problem, known)
    app.add_exception_handler(AggGenError, library)
    app.add_exception_handler(EngineError, library)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(ClientDisconnect, gone)


class Unexpected:
    """ASGI middleware: whatever else is raised is logged with its trace, and the client gets a 500 without one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except Exception:
            identifier = request_id(scope)
            _log.exception("request %s failed", identifier)
            if started:
                raise  # the answer has begun; only a cut connection can still say that it is not whole
            problem = Problem("internal", "an unexpected error; the server's log has it under the request id")
            await problem.response(identifier)(scope, receive, send)
