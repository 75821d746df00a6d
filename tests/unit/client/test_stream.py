"""Streams: any number of records, in order, each answered once, whatever breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen_platform.client import (
    AnswerError,
    Client,
    DeadlineError,
    RefusedError,
    Retry,
    UnavailableError,
    transport,
)
from agggen_platform.client.retry import Attempts
from tests.unit.client.conftest import QUICK, URL, answered, asked, error, lines, made, problem, text


def records(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "triples": [["s", "p", "o"]]} for i in range(count)]


def texts(count: int) -> list[dict[str, Any]]:
    return [text(i, f"r{i}") for i in range(count)]


class Log:
    """Answers as `answering` does, and keeps which ids each request asked for."""

    def __init__(self, answering: Any = answered) -> None:
        self.answering, self.ids, self.urls = answering, list[list[Any]](), list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.ids.append([record.get("id") for record in asked(request)])
        self.urls.append(str(request.url))
        return self.answering(request)


def test_records_are_cut_into_streams_and_answers_joined() -> None:
    log = Log()
    found = list(made(log, piece_records=3).stream(iter(records(7)), n_best=2, verify="off", complete=True))
    assert found == texts(7)
    assert [len(ids) for ids in log.ids] == [3, 3, 1]
    assert set(log.urls) == {f"{URL}/v1/generate:stream?n_best=2&verify=off&complete=true"}


def test_streams_are_cut_by_size_too_and_a_long_record_goes_alone() -> None:
    log = Log()
    size = len(json.dumps(records(1)[0], separators=(",", ":"))) + 1
    mixed = [*records(4), {"id": "r4", "triples": [["s", "p", "o" * 500]]}, {"id": "r5", "triples": []}]
    assert list(made(log, piece_bytes=2 * size).stream(mixed)) == texts(6)
    assert [len(ids) for ids in log.ids] == [2, 2, 1, 1]


def test_no_records_no_requests() -> None:
    log = Log()
    assert list(made(log).stream([])) == []
    assert not log.ids


def test_records_are_read_as_they_are_needed() -> None:
    read = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield {"triples": []}

    found = list(islice(made(Log(), piece_records=5).stream(endless()), 7))
    assert [answer["index"] for answer in found] == list(range(7))
    assert read <= 11  # one beyond the piece shows that it is full


def test_a_record_without_id_goes_by_its_place_in_the_whole_stream() -> None:
    def failing(request: httpx.Request) -> httpx.Response:
        return lines([error(i, str(i), "plan", False) for i in range(len(asked(request)))])

    log = Log(failing)
    found = list(made(log, piece_records=2).stream([{"triples": []}] * 3))
    assert [answer["id"] for answer in found] == ["0", "1", "2"]
    assert [answer["error"]["record"] for answer in found] == ["0", "1", "2"]
    assert [answer["error"]["index"] for answer in found] == [0, 1, 2]
    assert log.ids == [[None, None], [None]]


def cutting(*after: int) -> Any:
    """Cuts the nth request within its nth number of answers."""
    left = list(after)

    def answer(request: httpx.Request) -> httpx.Response:
        found = [text(i, record["id"]) for i, record in enumerate(asked(request))]
        return lines(found[: left.pop(0)], cut=True) if left else lines(found)

    return answer


def test_a_cut_stream_is_resumed_behind_its_last_whole_answer(waits: list[float]) -> None:
    log = Log(cutting(3, 2))  # 2 whole lines and a part; 1 whole line and a part
    assert list(made(log).stream(records(6))) == texts(6)
    assert [ids[0] for ids in log.ids] == ["r0", "r2", "r3"]
    assert len(waits) == 2


def test_cuts_count_only_in_a_row(waits: list[float]) -> None:
    log = Log(cutting(*[2] * 10))  # each brings one answer
    assert list(made(log).stream(records(12))) == texts(12)
    assert len(log.ids) == 11 > QUICK.attempts


def test_a_stream_that_brings_nothing_more_ends_with_the_answers_so_far(waits: list[float]) -> None:
    log = Log(cutting(3, *[0] * 10))
    found = []
    with pytest.raises(UnavailableError, match="peer closed connection"):
        for answer in made(log).stream(records(6)):
            found.append(answer)
    assert found == texts(2)
    assert len(log.ids) == QUICK.attempts  # the one that broke behind an answer is the first of them


def test_an_end_is_part_of_a_stream(waits: list[float]) -> None:
    """A stream that ends early without breaking, as behind some proxies, was cut off all the same."""

    def one_less(request: httpx.Request) -> httpx.Response:
        found = [text(i, record["id"]) for i, record in enumerate(asked(request))][:-1]
        return httpx.Response(200, content="".join(json.dumps(answer) + "\n" for answer in found))

    log = Log(one_less)
    with pytest.raises(UnavailableError, match="cut off after 0 of 1 answers"):
        list(made(log).stream(records(3)))
    assert log.ids == [["r0", "r1", "r2"], *[["r2"]] * (QUICK.attempts - 1)]


def test_all_answers_without_an_end_are_enough(waits: list[float]) -> None:
    """What is answered is answered: nothing is left to ask for."""
    content = "\n".join([*map(json.dumps, texts(2)), ""]).encode()
    log = Log(lambda request: httpx.Response(200, content=content))
    assert list(made(log).stream(records(2))) == texts(2)
    assert len(log.ids) == 1


def test_a_busy_endpoint_is_asked_again(waits: list[float]) -> None:
    busy = [problem(429, "busy", retryable=True, headers={"retry-after": "3"})]
    log = Log(lambda request: busy.pop() if busy else answered(request))
    assert list(made(log).stream(records(2))) == texts(2)
    assert 3 <= waits[0] < 4


def test_a_refused_stream_is_not_sent_again(waits: list[float]) -> None:
    log = Log(lambda request: problem(422, "invalid", field="options.n_best"))
    with pytest.raises(RefusedError) as caught:
        list(made(log).stream(records(2), n_best=999))
    assert caught.value.field == "options.n_best"
    assert len(log.ids) == 1


def end_error(code: str, retryable: bool) -> dict[str, Any]:
    return {"error": {"type": f"urn:agggen:problem:{code}", "detail": code, "status": 400, "retryable": retryable}}


def test_an_end_that_tells_why_not_all_was_read(waits: list[float]) -> None:
    log = Log(lambda request: lines([text(0, "r0")], end_error("too-large", False)))
    with pytest.raises(RefusedError, match="too-large"):
        list(made(log).stream(records(2)))
    assert len(log.ids) == 1
    ends = [lines([text(0, "r0")], end_error("deadline", True))]
    log = Log(lambda request: ends.pop() if ends else answered(request))
    assert list(made(log).stream(records(2))) == [text(0, "r0"), text(0, "r1") | {"index": 1}]
    assert log.ids == [["r0", "r1"], ["r1"]]


def losing(*ids: str, times: int = 1) -> Any:
    """Loses some records the first times that they are asked for."""
    left = dict.fromkeys(ids, times)

    def answer(request: httpx.Request) -> httpx.Response:
        found = []
        for i, record in enumerate(asked(request)):
            if left.get(record["id"]):
                left[record["id"]] -= 1
                found.append(error(i, record["id"], "lost", True))
            else:
                found.append(text(i, record["id"]))
        return lines(found)

    return answer


def test_lost_records_are_asked_for_again_and_the_order_stays(waits: list[float]) -> None:
    log = Log(losing("r1", "r3"))
    assert list(made(log).stream(records(5))) == texts(5)
    assert log.ids == [["r0", "r1", "r2", "r3", "r4"], ["r1", "r3"]]


def test_records_that_stay_lost_get_their_error_and_hold_no_others(waits: list[float]) -> None:
    log = Log(losing("r1", times=99))
    found = list(made(log, piece_records=3).stream(records(4)))
    assert found == [text(0, "r0"), error(1, "r1", "lost", True), text(2, "r2"), text(3, "r3")]
    assert log.ids == [["r0", "r1", "r2"], *[["r1"]] * (QUICK.attempts - 1), ["r3"]]


BAD_LINES = [
    b"<html>\n",
    b'{"index": 1, "id": "r1", "status": "ok"}\n',  # out of order
    b'{"index": 0, "id": "r0", "status": "odd"}\n',
    b'{"index": 0, "id": "r0", "status": "ok"}\n' * 2,  # the same place twice
    b'{"status": "end"}\n{"index": 0, "id": "r0", "status": "ok"}\n',
    b'{"status": "end"}\n',  # without all answers
    b'{"index": 0, "id": "r0", "status": "error"}\n',  # without a reason
    b'{"status": "end", "error": "no reason"}\n',
    b"[]\n",
]


@pytest.mark.parametrize("content", BAD_LINES)
def test_lines_that_are_no_such_answers_are_not_passed_on(waits: list[float], content: bytes) -> None:
    with pytest.raises(AnswerError):
        list(made(Log(lambda request: httpx.Response(200, content=content))).stream(records(2)))
    assert not waits


def test_the_deadline_of_a_stream_counts_from_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(transport, "Attempts", lambda retry, seconds: Attempts(retry, seconds, lambda: now))

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(transport.time, "sleep", sleep)
    log = Log(cutting(*[2] * 8))
    found = []
    with Client(URL, transport=httpx.MockTransport(log), deadline=30) as client:
        for answer in client.stream(records(9)):
            found.append(answer)
            now += 20  # the reader takes its time
    assert found == texts(9)
    patient = Retry(attempts=99)  # with fewer, unlucky draws of the waits end the attempts before the deadline
    with Client(URL, transport=httpx.MockTransport(Log(cutting(*[0] * 99))), deadline=30, retry=patient) as client:
        before = now
        with pytest.raises(DeadlineError):
            list(client.stream(records(2)))
        assert 10 < now - before <= 30


class Watched(httpx.SyncByteStream):
    """A body without end that notices when it is closed."""

    def __init__(self) -> None:
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for i in range(10_000):
            yield json.dumps(text(i, "x")).encode() + b"\n"

    def close(self) -> None:
        self.closed = True


def test_a_stream_that_is_left_gives_its_connection_back() -> None:
    body = Watched()
    stream = made(lambda request: httpx.Response(200, stream=body), piece_records=10_000).stream(records(10_000))
    assert len(list(islice(stream, 3))) == 3
    assert not body.closed
    stream.close()
    assert body.closed


@given(
    count=st.integers(0, 30),
    piece=st.integers(1, 12),
    cuts=st.lists(st.integers(1, 12), max_size=8),
    lost=st.sets(st.integers(0, 29), max_size=6),
    streams=st.integers(1, 4),
)
def test_whatever_breaks_each_record_is_answered_once_and_in_order(
    count: int, piece: int, cuts: list[int], lost: set[int], streams: int
) -> None:
    left, gone = iter(cuts), {f"r{i}" for i in lost}

    def answering(request: httpx.Request) -> httpx.Response:
        found = []
        for i, record in enumerate(asked(request)):
            if record["id"] in gone:
                gone.discard(record["id"])
                found.append(error(i, record["id"], "lost", True))
            else:
                found.append(text(i, record["id"]))
        if (cut := next(left, 99)) <= len(found):
            return lines(found[:cut], cut=True)
        return lines(found)

    retry = Retry(attempts=50, first_wait=0, longest_wait=0)
    with made(answering, retry=retry, streams=streams, piece_records=piece) as client:
        found = list(client.stream(records(count)))
    assert [(answer["index"], answer["id"], answer["status"]) for answer in found] == [
        (i, f"r{i}", "ok") for i in range(count)
    ]
