"""`Client`: the endpoint as an object."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Unpack

import httpx

from agggen_platform.client.answers import (
    AlignedAnswer,
    CheckedAnswer,
    ErrorAnswer,
    GenerateOptions,
    ModelDict,
    PlanOptions,
    PlansAnswer,
    RealiseOptions,
    RecordLike,
    TextsAnswer,
)
from agggen_platform.client.calls import Calls
from agggen_platform.client.errors import RefusedError
from agggen_platform.client.retry import Retry
from agggen_platform.client.transport import Settings, Transport

KEY_VARIABLE = "AGGGEN_API_KEY"


class Client:
    """Calls the endpoint and waits for the answer. Safe to share between threads; a context manager.

    Calls are retried (`Retry`) when the endpoint cannot be reached, is busy, or lost the work; generation is
    deterministic, so a retried call has the same texts. Every call raises:

    - RefusedError: the request is invalid; `error.problem` names the record and field.
    - UnavailableError: no attempt had an answer; the same call may succeed later.
    - DeadlineError: the deadline passed.
    - FailedError: an error inside the endpoint.
    - AnswerError: the server is not this endpoint.

    A record that fails while others succeed is an answer with ``status`` "error", not an exception.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 75.0,
        deadline: float = 300.0,
        retry: Retry | None = None,
        streams: int | None = None,
        piece_records: int = 256,
        piece_bytes: int = 1 << 20,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """
        Args:
            url: of the endpoint, like http://127.0.0.1:8000.
            api_key: sent with every request; None: the environment's AGGGEN_API_KEY, if there is one.
            timeout: seconds to connect, and without a byte of an answer; the endpoint's own deadline is nine tenths of
                it.
            deadline: seconds of a call with all its attempts and waits; of a stream: between two answers.
            retry: number and pace of attempts.
            streams: concurrent requests of `stream`; None: as many as the endpoint says keep all generators busy.
            piece_records: records in one request of `stream`; twice as many a request may be in memory.
            piece_bytes: bytes in one request of `stream`; a longer record is sent alone.
            transport: httpx transport for certificates, proxies or sockets.

        Raises:
            RefusedError: the address is invalid, or the key cannot be sent.
            ValueError: a number is out of range.
        """
        key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
        if timeout <= 0 or min(piece_records, piece_bytes, 1 if streams is None else streams) < 1:
            raise ValueError("timeout, streams, piece_records and piece_bytes must be above 0")
        self.url = _checked(url)
        settings = Settings(self.url, _headers(key), timeout, deadline, retry or Retry())
        self._http = httpx.Client(transport=transport)
        self._calls = Calls(Transport(settings, self._http), piece_records, piece_bytes, streams)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"  # never the key

    def generate(
        self, records: Iterable[RecordLike], *, deadline: float | None = None, **options: Unpack[GenerateOptions]
    ) -> list[TextsAnswer | ErrorAnswer]:
        """Texts for records by one request; `stream` takes any number. A record may carry a ``plan`` to follow."""
        return self._calls.batch("/v1/generate", records, options, deadline)

    def plan(
        self, records: Iterable[RecordLike], *, deadline: float | None = None, **options: Unpack[PlanOptions]
    ) -> list[PlansAnswer | ErrorAnswer]:
        """The k most likely plans of each record, with their probabilities."""
        return self._calls.batch("/v1/plan", records, options, deadline)

    def realise(
        self, records: Iterable[RecordLike], *, deadline: float | None = None, **options: Unpack[RealiseOptions]
    ) -> list[TextsAnswer | ErrorAnswer]:
        """Texts for records by the ``plan`` that each carries."""
        return self._calls.batch("/v1/realise", records, options, deadline)

    def align(
        self, records: Iterable[RecordLike], *, deadline: float | None = None
    ) -> list[AlignedAnswer | ErrorAnswer]:
        """The triples behind each fact of the ``text`` that each record carries."""
        return self._calls.batch("/v1/align", records, {}, deadline)

    def check(
        self, records: Iterable[RecordLike], *, deadline: float | None = None
    ) -> list[CheckedAnswer | ErrorAnswer]:
        """What the checks find in the ``text`` that each record carries."""
        return self._calls.batch("/v1/check", records, {}, deadline)

    def stream(
        self, records: Iterable[RecordLike], *, deadline: float | None = None, **options: Unpack[GenerateOptions]
    ) -> Generator[TextsAnswer | ErrorAnswer, None, None]:
        """Texts for any number of records, in their order, each answered exactly once, as they arrive.

        Records are read as needed, `piece_records` at a time; several requests are concurrent, so that one client uses
        all generators. A broken stream resumes after its last answer. Close the iterator, or read it to its end, to
        release its connections.
        """
        return self._calls.stream("/v1/generate:stream", records, options, deadline)

    def model(self, *, deadline: float | None = None) -> ModelDict:
        """What is served, its settings, and what a request may ask for."""
        return self._calls.get("/v1/model", deadline)

    def width(self, records: int) -> Callable[[], int]:
        """A function that returns how many concurrent requests of `records` records keep all generators busy.

        It asks the endpoint again every few seconds.
        """
        return self._calls.width(records)

    def ready(self) -> bool:
        """Whether the endpoint answers and its model is loaded; asked once."""
        return self._calls.is_ready()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _checked(url: str) -> str:
    """The address without a slash at its end; one with a password in it is refused."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise RefusedError(f"not a valid address: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise RefusedError("the endpoint's address is like http://127.0.0.1:8000 or https://texts.example.org")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise RefusedError("the endpoint's address takes no user, query or fragment; the key goes into api_key")
    return str(parsed).rstrip("/")


def _headers(key: str | None) -> dict[str, str]:
    try:
        own = version("agggen")
    except PackageNotFoundError:
        own = "source"
    headers = {"user-agent": f"agggen/{own}", "accept": "application/json"}
    if key:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise RefusedError(f"the API key ({KEY_VARIABLE}) holds blanks or characters that no header takes")
        headers["authorization"] = f"Bearer {key}"
    return headers
