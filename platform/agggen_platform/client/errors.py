"""Errors of calls, with the endpoint's problem document if there is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agggen.errors import AggGenError

_TYPE = "urn:agggen:problem:"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document (RFC 9457) of the endpoint: of a request, or of one record of it."""

    status: int
    code: str
    """Its kind, for programs: ``record``, ``plan``, ``busy``, ... (the last part of the document's type)."""
    detail: str
    record: str | None = None  # its id
    index: int | None = None  # its place in the request, from 0
    field: str | None = None  # of the record or the request, in dotted form
    retryable: bool = False  # the same request may succeed later
    request_id: str | None = None
    errors: tuple[Problem, ...] = ()
    """Of each record, where there are several."""
    document: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Its JSON form, as the endpoint sent it."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Problem:
        """Reads the JSON form; members that are missing or of another type are left at their defaults."""

        def text(name: str) -> str | None:
            value = document.get(name)
            return value if isinstance(value, str) else None

        index, status, errors = document.get("index"), document.get("status"), document.get("errors")
        kind = text("type") or ""
        return cls(
            status=status if isinstance(status, int) else 500,
            code=kind.rpartition(":")[2] if kind.startswith(_TYPE) else kind,
            detail=text("detail") or text("title") or "no reason given",
            record=text("record"),
            index=index if isinstance(index, int) else None,
            field=text("field"),
            retryable=document.get("retryable") is True,
            request_id=text("request_id"),
            errors=tuple(cls.of(error) for error in errors if isinstance(error, Mapping))
            if isinstance(errors, list)
            else (),
            document=document,
        )

    def __str__(self) -> str:
        named = self.record is None or repr(self.record) in self.detail
        place = [] if named else [f"record {self.record!r}"]
        place += [] if self.field is None else [f"field {self.field}"]
        where = f"{', '.join(place)}: " if place else ""
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{where}{self.detail} ({self.code or 'no code'}, {self.status}{request})"


class EndpointError(AggGenError):
    """A call got no usable answer."""

    exit_code = 10

    def __init__(
        self,
        message: str,
        problem: Problem | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.problem = problem
        self.request_id = request_id or (problem.request_id if problem else None)
        """Names the request in the endpoint's logs."""
        self.retry_after = retry_after
        """Seconds that the endpoint asked to wait."""

    @property
    def status(self) -> int | None:
        return self.problem.status if self.problem else None

    @property
    def record(self) -> str | None:
        """The id of the record that it is about."""
        return self.problem.record if self.problem else None

    @property
    def field(self) -> str | None:
        """The field of the request that it is about."""
        return self.problem.field if self.problem else None


class RefusedError(EndpointError):
    """The endpoint refuses the request as it is: sent again, it would be refused again."""

    exit_code = 2


class UnavailableError(EndpointError):
    """The endpoint was unreachable, busy or lost the work at every attempt; a later call may succeed."""


class FailedError(EndpointError):
    """Something failed inside the endpoint; its log has the reason under the request id."""


class DeadlineError(EndpointError):
    """The deadline of the call passed."""


class AnswerError(EndpointError):
    """What answered is not this endpoint, or a version of it that this client does not know."""
