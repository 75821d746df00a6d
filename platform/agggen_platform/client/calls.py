"""Requests to the endpoint: one request, or a stream of any number of records."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from types import NoneType
from typing import Any
from urllib.parse import urlencode

from agggen_platform.client.errors import AnswerError, EndpointError, Problem, RefusedError, UnavailableError
from agggen_platform.client.parallel import in_parallel
from agggen_platform.client.retry import Attempts, Retry
from agggen_platform.client.transport import Request, Transport

JSON = "application/json"
NDJSON = "application/x-ndjson"
_MOST_STREAMS = 64
_SECONDS_BETWEEN_LOOKS = 5.0  # at the endpoint's `records_at_once`

Answer = Any
"""The JSON object of a record; `Client` knows its type."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Successive records of a stream as lines, and the position of the first one in the stream."""

    start: int
    lines: list[bytes]
    nameless: set[int]  # positions in the piece of records without an id

    def placed(self, answer: Answer, place: int) -> Answer:
        """The answer to the record at `place`, with its position in the whole stream."""
        return _placed(answer, self.start + place, place in self.nameless)


class Calls:
    """The calls of a client."""

    def __init__(self, transport: Transport, piece_records: int, piece_bytes: int, streams: int | None) -> None:
        self._transport, self._piece_records, self._piece_bytes = transport, piece_records, piece_bytes
        self._streams = streams

    def get(self, path: str, deadline: float | None = None) -> Answer:
        """The object at `path`."""
        return self._transport.answer(Request("GET", path), self._transport.attempts(deadline))

    def is_ready(self) -> bool:
        """Whether the endpoint answers and its model is loaded; asked once."""
        try:
            attempts = self._transport.attempts()
            with self._transport.opened(Request("GET", "/readyz"), attempts):
                return True
        except UnavailableError:
            return False

    # --- one request --------------------------------------------------------------------------------------------------

    def batch(
        self,
        path: str,
        records: Iterable[Mapping[str, Any]],
        options: Mapping[str, Any],
        deadline: float | None,
    ) -> list[Answer]:
        """An answer for each record, in their order; records with a retryable error are retried.

        Raises:
            EndpointError: no record has an answer.
        """
        objects = [_object(record, place) for place, record in enumerate(records)]
        attempts = self._transport.attempts(deadline)
        answers = self._once(path, objects, options, attempts)
        while failed := [place for place, answer in enumerate(answers) if _is_retryable(answer)]:
            if options.get("alone"):  # all together again: numbers depend on the batch
                failed = list(range(len(answers)))
            cause = _unavailable(answers[failed[0]])
            try:
                self._transport.pause(attempts, cause)
                retried = self._once(path, [objects[place] for place in failed], options, attempts)
            except EndpointError:
                break  # these records keep their errors
            for place, answer in zip(failed, retried, strict=True):
                answers[place] = _placed(answer, place, objects[place].get("id") is None)
        return answers

    def _once(self, path: str, records: Sequence[Any], options: Mapping[str, Any], attempts: Attempts) -> list[Answer]:
        body = _json({"records": records, "options": options}, "the request")
        response = self._transport.answer(Request("POST", path, body, {"content-type": JSON}), attempts)
        answers = response.get("answers")
        what = f"POST {self._transport.settings.url}{path}"
        if not isinstance(answers, list) or len(answers) != len(records):
            count = f"{len(answers)} answers" if isinstance(answers, list) else "no answers"
            raise AnswerError(f"{what}: {count} to {len(records)} records")
        if not all(map(_is_answer, answers)):
            raise AnswerError(f"{what}: answers without a status or an error's reason")
        if [answer.get("index") for answer in answers] != list(range(len(answers))):
            raise AnswerError(f"{what}: answers out of order")
        return answers

    # --- any number of records ----------------------------------------------------------------------------------------

    def stream(
        self,
        path: str,
        records: Iterable[Mapping[str, Any]],
        options: Mapping[str, Any],
        deadline: float | None,
    ) -> Generator[Answer, None, None]:
        """An answer for each record, in their order, each exactly once; `index` counts the whole stream.

        A stream that is cut off resumes after its last answer. Records with a retryable error are retried; later
        answers of the same piece wait for them.

        Raises:
            EndpointError: the remaining records have no answer.
        """
        address = path + (f"?{urlencode(_parameters(options))}" if options else "")
        pieces = self._pieces(records)
        first = list(islice(pieces, 1 if self._streams == 1 else 2))
        if len(first) == 2:
            yield from in_parallel(chain(first, pieces), partial(self._piece, address, deadline), self.width())
            return
        for piece in chain(first, pieces):
            yield from self._piece(address, deadline, piece)

    def _piece(self, address: str, deadline: float | None, piece: Piece) -> Generator[Answer, None, None]:
        attempts = self._transport.attempts(deadline)
        with closing(self._answered(address, piece, attempts)) as answers:
            for answer in answers:
                yield answer
                attempts.restart()  # the time of the reader is not the endpoint's

    def width(self, records: int | None = None) -> Callable[[], int]:
        """A function that returns how many concurrent requests of `records` records (None: streams) keep all generators
        busy: those that hold `records_at_once` of the endpoint, and one more, since requests that end are not full.

        It asks the endpoint again every few seconds.
        """
        due, width = 0.0, self._streams or 1

        def now() -> int:
            nonlocal due, width
            if self._streams is None and time.monotonic() >= due:
                try:
                    once = Attempts(Retry(attempts=1), self._transport.settings.timeout)
                    model = self._transport.answer(Request("GET", "/v1/model"), once)
                    held = records or model["limits"]["window"]
                    width = min(_MOST_STREAMS, 1 + math.ceil(model["records_at_once"] / held))
                except UnavailableError:  # the streams will say so, if it lasts
                    pass
                due = time.monotonic() + _SECONDS_BETWEEN_LOOKS
            return width

        return now

    def _pieces(self, records: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
        piece, size = Piece(0, [], set()), 0
        for record in records:
            place = piece.start + len(piece.lines)
            line = _json(_object(record, place), f"record {place}")
            if piece.lines and (len(piece.lines) == self._piece_records or size + len(line) > self._piece_bytes):
                yield piece
                piece, size = Piece(place, [], set()), 0
            if record.get("id") is None:
                piece.nameless.add(len(piece.lines))
            piece.lines.append(line)
            size += len(line) + 1
        if piece.lines:
            yield piece

    def _answered(self, address: str, piece: Piece, attempts: Attempts) -> Generator[Answer, None, None]:
        """The answers to a piece, by one request or more."""
        open_places = list(range(len(piece.lines)))  # records without a final answer
        final: dict[int, Answer] = {}  # final answers after an open record
        failed: dict[int, Answer] = {}  # retryable errors of open records
        emitted = 0
        while open_places:
            cause: UnavailableError | None = None
            try:
                with closing(self._lines(address, piece, open_places, attempts)) as answers:
                    for place, answer in answers:
                        if _is_retryable(answer):
                            failed[place] = answer
                            continue
                        final[place] = answer
                        attempts.restart()
                        while emitted in final:
                            yield piece.placed(final.pop(emitted), emitted)
                            emitted += 1
            except UnavailableError as error:
                cause = error
            open_places = [place for place in open_places if place >= emitted and place not in final]
            if not open_places:
                continue
            try:
                self._transport.pause(attempts, cause or _unavailable(failed[open_places[0]]))
            except EndpointError:
                if not all(place in failed for place in open_places):
                    raise
                final |= {place: failed[place] for place in open_places}
                open_places = []
        for place in sorted(final):
            yield piece.placed(final[place], place)

    def _lines(
        self, address: str, piece: Piece, places: Sequence[int], attempts: Attempts
    ) -> Generator[tuple[int, Answer], None, None]:
        """The answers of one request for some records of a piece, with their places in the piece.

        Raises:
            UnavailableError: the stream was cut off, or ended with a retryable error.
            RefusedError: the endpoint refuses the rest.
            AnswerError: the lines are not answers of this endpoint.
        """
        content = b"".join(piece.lines[place] + b"\n" for place in places)
        request = Request("POST", address, content, {"content-type": NDJSON, "accept": NDJSON})
        what = f"POST {self._transport.settings.url}{address}"
        count, end = 0, None
        with self._transport.opened(request, attempts) as response:
            for line in self._transport.lines(response, attempts):
                answer = _line(line, what)
                if end is not None:
                    raise AnswerError(f"{what}: a line behind the end: {line[:60]!r}")
                if answer["status"] == "end":
                    end = answer
                    continue
                if count == len(places) or answer.get("index") != count:
                    raise AnswerError(f"{what}: answer {count} is out of order: {line[:60]!r}")
                yield places[count], answer
                count += 1
        if end is None:
            raise UnavailableError(f"{what}: cut off after {count} of {len(places)} answers")
        if (problem := end.get("error")) is not None:
            why = Problem.of(problem)
            raise (UnavailableError if why.retryable else RefusedError)(f"{what}: {why}", why)
        if count < len(places):
            raise AnswerError(f"{what}: {count} answers to {len(places)} records")


def _object(record: object, place: int) -> dict[str, Any]:
    if not isinstance(record, Mapping):
        raise RefusedError(f"record {place} must be an object with triples, not {type(record).__name__}")
    return dict(record)


def _json(value: object, what: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is one: half of a surrogate pair
        raise RefusedError(f"{what} cannot be written as JSON: {error}") from error


def _parameters(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}


def _line(line: bytes, what: str) -> Answer:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not _is_answer(answer) and not _is_end(answer):
        raise AnswerError(f"{what}: expected an answer, not {line[:60]!r}; is this the endpoint?")
    return answer


def _is_answer(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return value.get("status") == "ok" or (value.get("status") == "error" and isinstance(value.get("error"), dict))


def _is_end(value: object) -> bool:
    return isinstance(value, dict) and value.get("status") == "end" and isinstance(value.get("error"), dict | NoneType)


def _is_retryable(answer: Answer) -> bool:
    return answer["status"] == "error" and Problem.of(answer["error"]).retryable


def _unavailable(answer: Answer) -> UnavailableError:
    problem = Problem.of(answer["error"])
    return UnavailableError(str(problem), problem)


def _placed(answer: Answer, place: int, nameless: bool) -> Answer:
    """The answer with the record's `place` in the whole input as its index, and as its id if it has none."""
    if answer["index"] == place:
        return answer
    name = {"id": str(place)} if nameless else {}
    placed = {**answer, "index": place, **name}
    if answer["status"] == "error":
        record = {"record": str(place)} if nameless else {}
        placed["error"] = {**answer["error"], "index": place, **record}
    return placed
