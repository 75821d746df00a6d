"""Errors in HTTP responses: problem+json (RFC 9457), without stack traces and with at most a part of the input.

`record` is the record's id, `index` its position in the request, and `field` a dotted path (`triples.2.object`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
DETAIL_CHARS = 500  # maximal length of details and fields, which may quote the client's input


@dataclass(frozen=True, slots=True)
class Kind:
    code: str
    status: int
    title: str
    retry_after: int | None = None  # seconds; None: not retryable


KINDS = {
    kind.code: kind
    for kind in (
        Kind("malformed", 400, "The request cannot be read"),
        Kind("unauthorized", 401, "A valid API key is required"),
        Kind("forbidden", 403, "This host name is not allowed"),
        Kind("not-found", 404, "No resource has this path"),
        Kind("method", 405, "The path does not support the method"),
        Kind("too-large", 413, "The request is too large"),
        Kind("media-type", 415, "The body's format is not supported"),
        Kind("invalid", 422, "The request is invalid"),
        Kind("record", 422, "The record is invalid"),
        Kind("plan", 422, "The plan does not fit its record"),
        Kind("text", 422, "The text cannot be processed"),
        Kind("busy", 429, "Too many requests are waiting", 1),
        Kind("gone", 499, "The client disconnected"),
        Kind("internal", 500, "Internal error"),
        Kind("lost", 503, "The replica was lost", 1),
        Kind("unavailable", 503, "The endpoint is not ready", 2),
        Kind("deadline", 504, "The deadline passed before the work was finished", 1),
    )
}


class Problem(Exception):
    """An error that is returned to the client. `code` is a key of KINDS."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        record: str | None = None,
        index: int | None = None,
        field: str | None = None,
        errors: Iterable[Problem] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = KINDS[code]
        self.detail = printable(detail)
        self.record, self.index = record, index
        self.field = field and field[:DETAIL_CHARS]
        self.errors = list(errors)
        self.headers = headers or {}

    @property
    def retryable(self) -> bool:
        return self.kind.retry_after is not None

    def as_dict(self, request_id: str | None = None) -> dict[str, Any]:
        """The problem's JSON object; members without a value are omitted."""
        members = {
            "type": f"urn:agggen:problem:{self.kind.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "retryable": self.retryable,
            "record": self.record,
            "index": self.index,
            "field": self.field,
            "request_id": request_id,
            "errors": [problem.as_dict() for problem in self.errors] or None,
        }
        return {name: value for name, value in members.items() if value is not None}

    def response(self, request_id: str) -> Response:
        headers = self.headers | ({"Retry-After": str(self.kind.retry_after)} if self.retryable else {})
        body = json.dumps(self.as_dict(request_id), ensure_ascii=False, allow_nan=False).encode()
        return Response(body, self.kind.status, headers, MEDIA_TYPE)


def printable(text: str) -> str:
    """`text` with unprintable characters (such as lone surrogates) escaped, truncated to DETAIL_CHARS."""
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text[: DETAIL_CHARS + 1]
    )
    return escaped if len(escaped) <= DETAIL_CHARS else escaped[: DETAIL_CHARS - 3] + "..."


def combined_problem(problems: list[Problem]) -> Problem:
    """The problem of a request in which every record failed.

    It has the kind of the first retryable problem (so that the client retries), else server error, else problem.
    """
    first = min(problems, key=lambda problem: (not problem.retryable, problem.kind.status < 500))
    if len(problems) == 1:
        return first
    detail = f"all {len(problems)} records failed, for example: {first.detail}"
    return Problem(first.kind.code, detail, record=first.record, index=first.index, field=first.field, errors=problems)
