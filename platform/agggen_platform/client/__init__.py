"""A client of the endpoint. It needs httpx, but not torch or Ray.

from agggen_platform.client import Client

with Client("http://127.0.0.1:8000") as client:
    (answer,) = client.generate([{"triples": [["Aromi", "food", "English"], ["Aromi", "area", "city centre"]]}])
    for answer in client.stream(records, n_best=2):
        ...
"""

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
from agggen_platform.client.retry import Retry

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
