"""A client of the endpoint (example: serve/README.md). It needs httpx, but not torch or Ray."""

from agggen_platform.client.answers import (
    AlignedAnswer,
    ErrorAnswer,
    ModelDict,
    PlansAnswer,
    ProblemDict,
    RecordLike,
    TextsAnswer,
)
from agggen_platform.client.client import Client
from agggen_platform.client.errors import (
    AnswerError,
    DeadlineError,
    EndpointError,
    FailedError,
    RefusedError,
    UnavailableError,
)
from agggen_platform.client.transport import Retry

__all__ = [
    "AlignedAnswer",
    "AnswerError",
    "Client",
    "DeadlineError",
    "EndpointError",
    "ErrorAnswer",
    "FailedError",
    "ModelDict",
    "PlansAnswer",
    "ProblemDict",
    "RecordLike",
    "RefusedError",
    "Retry",
    "TextsAnswer",
    "UnavailableError",
]
