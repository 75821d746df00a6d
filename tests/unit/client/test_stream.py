"""Streams: each record is answered exactly once and in order, in spite of failures."""

import threading
import time
from collections.abc import Callable
from itertools import count, islice
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen_platform.client import RefusedError, Retry, UnavailableError
from tests.unit.client.conftest import QUICK, Script, answer_all, client_of, error, problem, records_in, text

WAIT = 20.0


def records(number: int) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "triples": [["s", "p", "o"]]} for i in range(number)]


def texts(number: int) -> list[dict[str, Any]]:
    return [text(i, f"r{i}") for i in range(number)]


def losing(*ids: str, times: int = 1) -> Callable[[httpx.Request], httpx.Response]:
    """A handler that loses these records `times` times; a request fails if all of its records are lost."""
    remaining_losses = dict.fromkeys(ids, times)

    def answer(request: httpx.Request) -> httpx.Response:
        names = [record["id"] for record in records_in(request)]
        lost = {name for name in names if remaining_losses.get(name)}
        remaining_losses.update({name: remaining_losses[name] - 1 for name in lost})
        answers = [error(i, name, "lost", True) if name in lost else text(i, name) for i, name in enumerate(names)]
        if len(lost) == len(names):
            errors = [answer["error"] for answer in answers]
            return problem(503, "lost", retryable=True, record=names[0], index=0, errors=errors)
        return httpx.Response(200, json={"answers": answers})

    return answer


def test_a_record_that_is_too_large_gets_an_error_and_does_not_end_the_stream() -> None:
    """Regression: its problem document names no record, so the error ended the stream."""

    def limited(request: httpx.Request) -> httpx.Response:
        large = [record for record in records_in(request) if len(record["triples"]) > 1]
        return problem(413, "too-large") if large else answer_all(request)

    sent = records(6)
    sent[4]["triples"] *= 2
    answers: list[Any] = list(client_of(limited, piece_records=3).stream(sent))
    refused = answers.pop(4)
    assert answers == texts(6)[:4] + texts(6)[5:]
    assert (refused["index"], refused["id"], refused["status"], refused["error"]["status"]) == (4, "r4", "error", 413)
    assert (refused["error"]["record"], refused["error"]["index"]) == ("r4", 4)


def test_a_problem_document_of_a_gateway_needs_no_type() -> None:
    """Regression: KeyError instead of the error; RFC 9457 makes all members optional."""
    kind = {"content-type": "application/problem+json"}
    with pytest.raises(RefusedError, match="Forbidden"):
        list(client_of(lambda _: httpx.Response(403, json={"title": "Forbidden"}, headers=kind)).stream(records(2)))


def test_an_invalid_record_is_named_by_its_index_in_the_stream() -> None:
    with pytest.raises(RefusedError, match="record 3 must be an object"):
        list(client_of(answer_all, piece_records=3).stream([*records(3), "x"]))


@pytest.mark.parametrize("fails", [False, True])
def test_the_default_id_is_the_position_in_the_stream(fails: bool) -> None:
    """Regression: the default id was the position in the request."""

    def handler(request: httpx.Request) -> httpx.Response:
        numbers = range(len(records_in(request)))
        errors = [error(i, str(i), "plan", False)["error"] for i in numbers]
        if fails:
            return problem(422, "plan", record="0", index=0, errors=errors if len(errors) > 1 else [])
        return httpx.Response(200, json={"answers": [text(i, str(i)) for i in numbers]})

    sent: list[dict[str, Any]] = [{"triples": []}, {"id": "", "triples": []}, {"id": " ", "triples": []}]
    answers: list[Any] = list(client_of(handler, piece_records=2).stream(sent))
    assert [(answer["index"], answer["id"]) for answer in answers] == [(0, "0"), (1, "1"), (2, "2")]
    if fails:
        assert [(a["error"]["index"], a["error"]["record"]) for a in answers] == [(0, "0"), (1, "1"), (2, "2")]


def test_progress_resets_the_number_of_attempts(waits: list[float]) -> None:
    """Each request answers one record, and there are more records than allowed attempts."""

    def first_record_only(request: httpx.Request) -> httpx.Response:
        names = [record["id"] for record in records_in(request)]
        answers = [text(0, names[0]), *(error(i, name, "deadline", True) for i, name in enumerate(names) if i)]
        return httpx.Response(200, json={"answers": answers})

    script = Script(first_record_only)
    assert list(client_of(script).stream(records(12))) == texts(12)
    assert len(script.requests) == 12 > QUICK.attempts


def test_records_that_stay_lost_get_their_error_and_do_not_block_others(waits: list[float]) -> None:
    answers = list(client_of(losing("r1", times=99), piece_records=1).stream(records(4)))
    assert [answer["status"] for answer in answers] == ["ok", "error", "ok", "ok"]
    assert answers[0::2] == texts(4)[0::2]
    assert len(waits) == QUICK.attempts - 1


def test_an_error_that_ends_a_stream_follows_the_earlier_answers(waits: list[float]) -> None:
    def breaking(request: httpx.Request) -> httpx.Response:
        broken = records_in(request)[0]["id"] == "r4"
        return problem(503, "unavailable", retryable=True) if broken else answer_all(request)

    names: list[str] = []
    with pytest.raises(UnavailableError):
        for answer in client_of(breaking, concurrency=3, piece_records=2).stream(records(10)):
            names.append(answer["id"])
    assert names == ["r0", "r1", "r2", "r3"]
    assert len(waits) == QUICK.attempts - 1


class Endpoint:
    """Reports its capacity; `meet` requests wait for each other; the one with first record `held` waits for `go`."""

    def __init__(self, records_at_once: int = 10, meet: int = 1, held: str = "") -> None:
        self.records_at_once, self.held, self.go = records_at_once, held, threading.Event()
        self.meeting = threading.Barrier(meet, timeout=WAIT)
        self.requests: list[str] = []  # first record ids
        self.model_requests = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/v1/model"):
            self.model_requests += 1
            return httpx.Response(200, json={"records_at_once": self.records_at_once})
        first = records_in(request)[0]["id"]
        self.requests.append(first)
        self.meeting.wait()
        assert first != self.held or self.go.wait(WAIT)
        return answer_all(request)


@pytest.mark.parametrize(
    ("records_at_once", "concurrent", "requests", "queries"), [(2, 2, 4, 1), (5, 4, 8, 1), (8, 5, 10, 1), (8, 1, 1, 0)]
)
def test_concurrency_follows_the_capacity_of_the_endpoint(
    records_at_once: int, concurrent: int, requests: int, queries: int
) -> None:
    endpoint = Endpoint(records_at_once, meet=concurrent)
    client = client_of(endpoint, concurrency=None, piece_records=2)
    assert list(client.stream(records(2 * requests))) == texts(2 * requests)
    assert (len(endpoint.requests), endpoint.model_requests) == (requests, queries)


def test_a_stream_continues_if_the_query_of_the_capacity_times_out() -> None:
    """Regression: the DeadlineError of the query ended the stream."""

    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/v1/model"):
            time.sleep(request.extensions["timeout"]["read"])
            raise httpx.ReadTimeout("slow")
        return answer_all(request)

    client = client_of(handler, concurrency=None, piece_records=2, timeout=0.2)
    assert list(client.stream(records(4))) == texts(4)


def test_a_slow_request_delays_no_later_ones_and_keeps_the_order() -> None:
    endpoint = Endpoint(held="r0")
    stream = client_of(endpoint, concurrency=3, piece_records=2).stream({"id": f"r{i}", "triples": []} for i in count())
    names: list[str] = []
    reader = threading.Thread(target=lambda: names.extend(answer["id"] for answer in islice(stream, 14)))
    reader.start()
    reader.join(0.5)
    assert names == []
    assert len(endpoint.requests) <= 6  # later answers wait in memory, so their number is bounded
    endpoint.go.set()
    reader.join(WAIT)
    assert names == [f"r{i}" for i in range(14)]


@given(
    number=st.integers(0, 30),
    piece=st.integers(1, 12),
    largest=st.integers(1, 12),
    cuts=st.sets(st.integers(0, 10), max_size=6),
    lost=st.sets(st.integers(0, 29), max_size=6),
    concurrency=st.integers(1, 4),
)
def test_with_any_failures_each_record_is_answered_once_and_in_order(
    number: int, piece: int, largest: int, cuts: set[int], lost: set[int], concurrency: int
) -> None:
    requests, lose = count(), losing(*(f"r{i}" for i in lost))

    def handler(request: httpx.Request) -> httpx.Response:
        if next(requests) in cuts:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")
        too_large = len(records_in(request)) > largest
        return problem(413, "too-large", field="records") if too_large else lose(request)

    retry = Retry(attempts=50, first_wait=0, longest_wait=0)
    with client_of(handler, retry=retry, concurrency=concurrency, piece_records=piece) as client:
        assert list(client.stream(records(number))) == texts(number)
