"""Errors of client calls, with the endpoint's problem document if there is one."""

from collections.abc import Mapping
from typing import Any

from agggen.errors import AggGenError


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
        self.problem = problem
        """The endpoint's problem document (`ProblemDict`), if it sent one."""
        self.status: int | None = members.get("status")
        self.record: str | None = members.get("record")  # id of the record that caused the error
        self.field: str | None = members.get("field")  # field of the request that caused the error
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
