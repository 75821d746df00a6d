"""A client of the endpoint (example: serve/README.md). It needs httpx, but not torch or Ray.

The types of its records and answers are in `agggen_platform.client.answers`.
"""

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
