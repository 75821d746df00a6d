"""A synchronous client of the endpoint's HTTP API."""

import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, count, islice
from typing import Any, Self, TypeVar

import httpx

import agggen
from agggen_platform.client.answers import (
    AlignedAnswer,
    CheckedAnswer,
    ErrorAnswer,
    ModelDict,
    PlansAnswer,
    RecordLike,
    TextsAnswer,
)
from agggen_platform.client.transport import (
    AnswerError,
    Attempts,
    DeadlineError,
    EndpointError,
    RefusedError,
    Retry,
    UnavailableError,
    call,
    describe_problem,
)

KEY_VARIABLE = "AGGGEN_API_KEY"
_MAX_REQUESTS = 64  # maximum concurrent requests of a stream
_SECONDS_BETWEEN_QUERIES = 5.0  # seconds between queries of `records_at_once`

P = TypeVar("P")
R = TypeVar("R")


class Client:
    """Sends requests to an endpoint and waits for the answers. Thread-safe; a context manager.

    Requests are retried (`Retry`) if the endpoint is unreachable or busy, or lost the request; generation is
    deterministic, so a retry returns the same texts. All methods raise subclasses of `EndpointError`.
    If only some records fail, their answers have the ``status`` "error". Options: serve/README.md.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 75.0,
        deadline: float = 300.0,
        retry: Retry | None = None,
        concurrency: int | None = None,
        piece_records: int = 64,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Raises RefusedError for an invalid address or key, and ValueError if a number is out of range.

        Args:
            api_key: None: the environment variable AGGGEN_API_KEY, if set.
            timeout: seconds to connect, and to wait for the next byte of an answer.
            deadline: maximum seconds without a new answer, including all attempts and waits.
            concurrency: concurrent requests of `stream`; None: as many as keep all of the endpoint's generators busy.
            piece_records: records per request of `stream`.
            transport: an httpx transport, for certificates, proxies or sockets.
        """
        key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
        if timeout <= 0 or min(piece_records, 1 if concurrency is None else concurrency) < 1:
            raise ValueError("timeout, concurrency and piece_records must be above 0")
        if not 0 < deadline < math.inf:
            raise ValueError(f"the deadline must be a number of seconds above 0, not {deadline}")
        self.url = _checked_url(url)
        self._timeout, self._deadline, self._retry = timeout, deadline, retry or Retry()
        self._concurrency, self._piece_records = concurrency, piece_records
        self._http = httpx.Client(transport=transport, headers=_headers(key))

    def generate(self, records: Iterable[RecordLike], **options: Any) -> list[TextsAnswer | ErrorAnswer]:
        """Generates texts for records in one request (for many records: `stream`); follows the ``plan`` of a record."""
        return self._request("/v1/generate", records, options)

    def plan(self, records: Iterable[RecordLike], **options: Any) -> list[PlansAnswer | ErrorAnswer]:
        """The k most probable plans of each record, with their probabilities."""
        return self._request("/v1/plan", records, options)

    def align(self, records: Iterable[RecordLike]) -> list[AlignedAnswer | ErrorAnswer]:
        """The triples that each fact of a record's ``text`` states."""
        return self._request("/v1/align", records, {})

    def check(self, records: Iterable[RecordLike]) -> list[CheckedAnswer | ErrorAnswer]:
        """Checks each record's ``text`` for faults."""
        return self._request("/v1/check", records, {})

    def stream(self, records: Iterable[RecordLike], **options: Any) -> Iterator[TextsAnswer | ErrorAnswer]:
        """Texts for any number of records: one answer per record, in order; `index` is the position in `records`.

        Reads records lazily, `piece_records` at a time, and sends concurrent requests. A request that is too large for
        the endpoint is divided in half; the answer to a single record that is too large is an error.
        """

        def answers_to(numbered_batch: tuple[int, list[RecordLike]]) -> list[Any]:
            start, batch = numbered_batch
            try:
                answers = self._request("/v1/generate", batch, options, start)
            except EndpointError as error:
                if error.is_too_large and len(batch) > 1:
                    middle = len(batch) // 2
                    return answers_to((start, batch[:middle])) + answers_to((start + middle, batch[middle:]))
                answers = _error_answers(error, batch)
            return [_reindexed(answer, start + n, batch[n]) for n, answer in enumerate(answers)]

        batches = _batches(records, self._piece_records)
        first_two = list(islice(batches, 2))
        width = self.width(self._piece_records) if len(first_two) == 2 else lambda: 1
        for answers in in_parallel(chain(first_two, batches), answers_to, width):
            yield from answers

    def model(self) -> ModelDict:
        """The served model, its settings, and the limits of requests."""
        return self._model(Attempts(self._retry, self._deadline, self._timeout))

    def width(self, records: int) -> Callable[[], int]:
        """Returns a function that returns how many requests of `records` records each should be concurrent now.

        This is `concurrency` if set, else the requests that contain `ModelDict.records_at_once` records, which is
        queried every few seconds, plus one request to keep the generators busy between two requests.
        """
        next_query, width = 0.0, self._concurrency or 1

        def current_width() -> int:
            nonlocal next_query, width
            if self._concurrency is None and time.monotonic() >= next_query:
                # After an error keeps the last width; if the error persists, the requests fail, too.
                with suppress(UnavailableError, DeadlineError):
                    model = self._model(Attempts(Retry(attempts=1), self._timeout, self._timeout))
                    width = min(_MAX_REQUESTS, 1 + math.ceil(model["records_at_once"] / records))
                next_query = time.monotonic() + _SECONDS_BETWEEN_QUERIES
            return width

        return current_width

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _model(self, attempts: Attempts) -> Any:
        return call(self._http, "GET", f"{self.url}/v1/model", attempts)

    def _request(
        self, path: str, records: Iterable[RecordLike], options: Mapping[str, Any], start: int = 0
    ) -> list[Any]:
        """An answer per record, in order; raises EndpointError if all failed. `start`: the first record's index."""
        objects = [_object(record, index) for index, record in enumerate(records, start)]
        attempts = Attempts(self._retry, self._deadline, self._timeout)
        answers = self._send(path, objects, options, attempts)
        while retryable_indices := [index for index, answer in enumerate(answers) if _is_retryable(answer)]:
            problem = answers[retryable_indices[0]]["error"]
            # With the option alone, repeat the whole batch, because log-probabilities depend on all its records.
            indices_to_repeat = range(len(answers)) if options.get("alone") else retryable_indices
            try:
                attempts.pause(UnavailableError(describe_problem(problem), problem))
                new_answers = self._send(path, [objects[index] for index in indices_to_repeat], options, attempts)
            except EndpointError:
                break  # keep the error answers
            for index, answer in zip(indices_to_repeat, new_answers, strict=True):
                answers[index] = _reindexed(answer, index, objects[index])
            if sum(map(_is_retryable, answers)) < len(retryable_indices):
                attempts.restart()
        return answers

    def _send(self, path: str, records: Sequence[Any], options: Mapping[str, Any], attempts: Attempts) -> list[Any]:
        url, body = f"{self.url}{path}", _json({"records": records, "options": options})
        answers = call(self._http, "POST", url, attempts, body).get("answers")
        if not isinstance(answers, list) or not all(map(_is_answer, answers, count())) or len(answers) != len(records):
            raise AnswerError(f"POST {url}: expected {len(records)} answers in the order of the records")
        return answers


def in_parallel(inputs: Iterator[P], function: Callable[[P], R], width: Callable[[], int]) -> Generator[R, None, None]:
    """Applies `function` to all inputs, at most `width()` concurrently; yields the results in order.

    At most ``2 * width()`` inputs are being processed or have buffered results.
    """
    pending: deque[Future[R]] = deque()
    while True:
        limit = width()
        while len(pending) < 2 * limit and sum(not future.done() for future in pending) < limit:
            if (next_input := next(inputs, None)) is None:
                break
            pending.append(_start(function, next_input))
        if not pending:
            return
        yield pending.popleft().result()


def _start(function: Callable[[P], R], argument: P) -> Future[R]:
    """Runs `function` in a daemon thread; threads of an executor would delay the exit of the process."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(function(argument))
        except BaseException as error:  # raised again by `Future.result`
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _batches(records: Iterable[RecordLike], size: int) -> Iterator[tuple[int, list[RecordLike]]]:
    """Batches of at most `size` records, each with the index of its first record."""
    start, iterator = 0, iter(records)
    while batch := list(islice(iterator, size)):
        yield start, batch
        start += len(batch)


def _object(record: object, index: int) -> dict[str, Any]:
    if not isinstance(record, Mapping):
        raise RefusedError(f"record {index} must be an object with triples, not {type(record).__name__}")
    return dict(record)


def _json(request: object) -> bytes:
    try:
        return json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:  # a lone surrogate causes UnicodeEncodeError, a ValueError
        raise RefusedError(f"the request cannot be written as JSON: {error}") from error


def _is_answer(value: object, index: int) -> bool:
    if not isinstance(value, dict) or value.get("index") != index:
        return False
    return value.get("status") == "ok" or (value.get("status") == "error" and isinstance(value.get("error"), dict))


def _is_retryable(answer: Any) -> bool:
    return answer["status"] == "error" and answer["error"].get("retryable") is True


def _error_answers(error: EndpointError, batch: Sequence[RecordLike]) -> list[Any]:
    """The error answers for the records of a request if `error` has a problem for each of them; else raises `error`."""
    problem = dict(error.problem or {})
    if error.is_too_large:  # the problem is about the request, so it names no record
        problem |= {"record": "0" if _lacks_id(batch[0]) else str(batch[0]["id"]).strip(), "index": 0}
    problems = problem.get("errors") or [problem]
    if len(problems) != len(batch) or any(problem.get("record") is None for problem in problems):
        raise error
    return [{"index": n, "id": p["record"], "status": "error", "error": p} for n, p in enumerate(problems)]


def _lacks_id(record: Mapping[str, Any]) -> bool:
    """Whether the record has no id or a blank one, so that the endpoint uses its index as id."""
    record_id = record.get("id")
    return record_id is None or (isinstance(record_id, str) and not record_id.strip())


def _reindexed(answer: Any, index: int, record: Mapping[str, Any]) -> Any:
    """The answer with the record's `index` in the stream, also as id if the record has none."""
    if answer["index"] == index:
        return answer
    answer = answer | {"index": index} | ({"id": str(index)} if _lacks_id(record) else {})
    if answer["status"] == "error":
        answer["error"] = answer["error"] | {"index": index, "record": answer["id"]}
    return answer


def _checked_url(url: str) -> str:
    """The address without a trailing slash; raises RefusedError if it is invalid or has a user, query or fragment."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise RefusedError(f"not a valid address: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise RefusedError("the endpoint's address must be like http://127.0.0.1:8000 or https://texts.example.org")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise RefusedError("the endpoint's address must not have a user, query or fragment; pass the key as api_key")
    return str(parsed).rstrip("/")


def _headers(key: str | None) -> dict[str, str]:
    headers = {"user-agent": f"agggen/{agggen.__version__}", "accept": "application/json"}
    if key:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise RefusedError(f"the API key ({KEY_VARIABLE}) contains characters that an HTTP header cannot contain")
        headers["authorization"] = f"Bearer {key}"
    return headers
