"""Streams: any number of records, in order, each answered once, whatever breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen_platform.client import RefusedError, Retry, UnavailableError
from tests.unit.client.conftest import QUICK, answered, asked, error, made, problem, text

WAIT = 20.0


def records(number: int) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "triples": [["s", "p", "o"]]} for i in range(number)]


def texts(number: int) -> list[dict[str, Any]]:
    return [text(i, f"r{i}") for i in range(number)]


class Log:
    """Answers as `answering` does, and keeps which ids each request asked for."""

    def __init__(self, answering: Callable[[httpx.Request], httpx.Response] = answered) -> None:
        self.answering, self.ids = answering, list[list[Any]]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.ids.append([record.get("id") for record in asked(request)])
        return self.answering(request)


def losing(*ids: str, times: int = 1) -> Callable[[httpx.Request], httpx.Response]:
    """Loses records the first times that they are asked for; all of a request: the request is lost."""
    left = dict.fromkeys(ids, times)

    def answer(request: httpx.Request) -> httpx.Response:
        names = [record["id"] for record in asked(request)]
        lost = {name for name in names if left.get(name)}
        left.update({name: left[name] - 1 for name in lost})
        answers = [error(i, name, "lost", True) if name in lost else text(i, name) for i, name in enumerate(names)]
        if len(lost) == len(names):
            errors = [answer["error"] for answer in answers]
            return problem(503, "lost", retryable=True, record=names[0], index=0, errors=errors)
        return httpx.Response(200, json={"answers": answers})

    return answer


def test_records_are_cut_into_requests_and_answers_joined() -> None:
    log = Log()
    assert list(made(log, piece_records=3).stream(iter(records(7)), n_best=2)) == texts(7)
    assert [len(ids) for ids in log.ids] == [3, 3, 1]
    assert list(made(log).stream([])) == []


@pytest.mark.parametrize("largest", [1, 4, 6])
def test_a_request_that_is_too_large_is_divided(largest: int) -> None:
    def limited(request: httpx.Request) -> httpx.Response:
        too_large = len(asked(request)) > largest
        return problem(413, "too-large", field="records") if too_large else answered(request)

    log = Log(limited)
    assert list(made(log, piece_records=8).stream(records(19))) == texts(19)
    assert sum(len(ids) for ids in log.ids if len(ids) <= largest) == 19


def test_a_record_that_is_too_large_is_refused() -> None:
    with pytest.raises(RefusedError):
        list(made(lambda request: problem(413, "too-large")).stream(records(1)))


def test_records_are_read_as_they_are_needed() -> None:
    read = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield {"triples": []}

    answers = list(islice(made(Log(), piece_records=5).stream(endless()), 12))
    assert [answer["index"] for answer in answers] == list(range(12))
    assert read <= 20


def test_a_record_without_id_goes_by_its_place_in_the_whole_stream() -> None:
    def failing(request: httpx.Request) -> httpx.Response:
        errors = [error(i, str(i), "plan", False)["error"] for i in range(len(asked(request)))]
        return problem(422, "plan", record="0", index=0, errors=errors if len(errors) > 1 else [])

    log = Log(failing)
    answers: list[Any] = list(made(log, piece_records=2).stream([{"triples": []}] * 3))
    assert [answer["id"] for answer in answers] == ["0", "1", "2"]
    assert [(answer["error"]["record"], answer["error"]["index"]) for answer in answers] == [
        ("0", 0),
        ("1", 1),
        ("2", 2),
    ]
    assert log.ids == [[None, None], [None]]


def test_attempts_count_only_without_an_answer(waits: list[float]) -> None:
    """Each request brings one answer; there are more of them than attempts in a row."""

    def one_at_a_time(request: httpx.Request) -> httpx.Response:
        names = [record["id"] for record in asked(request)]
        answers = [text(0, names[0]), *(error(i, name, "deadline", True) for i, name in enumerate(names) if i)]
        return httpx.Response(200, json={"answers": answers})

    log = Log(one_at_a_time)
    assert list(made(log).stream(records(12))) == texts(12)
    assert len(log.ids) == 12 > QUICK.attempts


@pytest.mark.parametrize("piece", [3, 1])
def test_records_that_stay_lost_get_their_error_and_hold_no_others(waits: list[float], piece: int) -> None:
    answers = list(made(Log(losing("r1", times=99)), piece_records=piece).stream(records(4)))
    assert [answer["status"] for answer in answers] == ["ok", "error", "ok", "ok"]
    assert answers[0::2] == texts(4)[0::2]
    assert len(waits) == QUICK.attempts - 1


def test_what_ends_a_stream_is_raised_behind_the_answers_before_it(waits: list[float]) -> None:
    def breaking(request: httpx.Request) -> httpx.Response:
        broken = asked(request)[0]["id"] == "r4"
        return problem(503, "unavailable", retryable=True) if broken else answered(request)

    names: list[str] = []
    with pytest.raises(UnavailableError):
        for answer in made(breaking, concurrency=3, piece_records=2).stream(records(10)):
            names.append(answer["id"])
    assert names == ["r0", "r1", "r2", "r3"]
    assert len(waits) == QUICK.attempts - 1


# --- several requests at once ---------------------------------------------------------------------------------------


class Endpoint:
    """Says how many records it can take at once; `meet` requests wait for each other, those of `held` for `go`."""

    def __init__(self, records_at_once: int = 10, meet: int = 1, held: str = "") -> None:
        self.records_at_once, self.held, self.go = records_at_once, held, threading.Event()
        self.meeting = threading.Barrier(meet, timeout=WAIT)
        self.requests: list[str] = []  # the first record of each
        self.looks = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/model":
            self.looks += 1
            return httpx.Response(200, json={"records_at_once": self.records_at_once})
        first = asked(request)[0]["id"]
        self.requests.append(first)
        self.meeting.wait()
        assert first != self.held or self.go.wait(WAIT)
        return answered(request)


@pytest.mark.parametrize(("records_at_once", "requests"), [(2, 2), (5, 4), (8, 5)])
def test_requests_hold_what_the_endpoint_can_take(records_at_once: int, requests: int) -> None:
    endpoint = Endpoint(records_at_once, meet=requests)
    client = made(endpoint, concurrency=None, piece_records=2)
    assert list(client.stream(records(4 * requests))) == texts(4 * requests)
    assert (len(endpoint.requests), endpoint.looks) == (2 * requests, 1)


def test_an_input_of_one_request_asks_for_nothing_else() -> None:
    endpoint = Endpoint()
    assert len(list(made(endpoint, concurrency=None, piece_records=3).stream(records(3)))) == 3
    assert (endpoint.requests, endpoint.looks) == (["r0"], 0)


def test_a_late_request_keeps_neither_the_order_nor_the_others_waiting() -> None:
    endpoint = Endpoint(held="r0")
    stream = made(endpoint, concurrency=3, piece_records=2).stream({"id": f"r{i}", "triples": []} for i in count())
    names: list[str] = []
    reader = threading.Thread(target=lambda: names.extend(answer["id"] for answer in islice(stream, 14)))
    reader.start()
    reader.join(0.5)
    assert names == []
    assert len(endpoint.requests) <= 6  # what later requests answered waits in memory, so it is bounded
    endpoint.go.set()
    reader.join(WAIT)
    assert names == [f"r{i}" for i in range(14)]


@given(
    number=st.integers(0, 30),
    piece=st.integers(1, 12),
    cuts=st.sets(st.integers(0, 10), max_size=6),
    lost=st.sets(st.integers(0, 29), max_size=6),
    concurrency=st.integers(1, 4),
)
def test_whatever_breaks_each_record_is_answered_once_and_in_order(
    number: int, piece: int, cuts: set[int], lost: set[int], concurrency: int
) -> None:
    requests, lose = count(), losing(*(f"r{i}" for i in lost))

    def answering(request: httpx.Request) -> httpx.Response:
        if next(requests) in cuts:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")
        return lose(request)

    retry = Retry(attempts=50, first_wait=0, longest_wait=0)
    with made(answering, retry=retry, concurrency=concurrency, piece_records=piece) as client:
        assert list(client.stream(records(number))) == texts(number)
