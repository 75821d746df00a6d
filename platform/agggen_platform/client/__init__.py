"""A client of the endpoint (example: serve/README.md). It needs httpx, but not torch or Ray."""

from agggen_platform.client.client import Client
from agggen_platform.client.transport import (
    AnswerError,
    DeadlineError,
    EndpointError,
    FailedError,
    RefusedError,
    Retry,
    UnavailableError,
)

__all__ = [
    "AnswerError",
    "Client",
    "DeadlineError",
    "EndpointError",
    "FailedError",
    "RefusedError",
    "Retry",
    "UnavailableError",
]
