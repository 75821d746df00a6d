"""Several streams at once: as many as the endpoint can take, and answers in order all the same."""

from __future__ import annotations

import threading
from itertools import count, islice
from typing import Any

import httpx
import pytest

from agggen_platform.client import UnavailableError
from tests.unit.client.conftest import QUICK, answered, asked, made, problem

WAIT = 20.0


def records(number: int) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "triples": [["s", "p", "o"]]} for i in range(number)]


class Endpoint:
    """Says how many records it can take at once; `meet` streams wait for each other, those of `held` ids for `go`."""

    def __init__(self, records_at_once: int = 10, meet: int = 1, held: str = "") -> None:
        self.records_at_once, self.held, self.go = records_at_once, held, threading.Event()
        self.meeting = threading.Barrier(meet, timeout=WAIT)
        self.streams: list[str] = []
        """The first record of each stream."""
        self.looks = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/model":
            self.looks += 1
            return httpx.Response(200, json={"records_at_once": self.records_at_once, "limits": {"window": 10}})
        first = asked(request)[0]["id"]
        self.streams.append(first)
        self.meeting.wait()
        assert first != self.held or self.go.wait(WAIT)
        return answered(request)


def ids(answers: Any) -> list[str]:
    return [answer["id"] for answer in answers]


@pytest.mark.parametrize(("records_at_once", "streams"), [(10, 2), (25, 4), (40, 5)])
def test_streams_hold_what_the_endpoint_can_take(records_at_once: int, streams: int) -> None:
    endpoint = Endpoint(records_at_once, meet=streams)
    client = made(endpoint, streams=None, piece_records=2)
    assert ids(client.stream(records(4 * streams))) == [f"r{i}" for i in range(4 * streams)]
    assert len(endpoint.streams) == 2 * streams
    assert endpoint.looks == 1


def test_an_input_of_one_stream_asks_for_nothing_else() -> None:
    endpoint = Endpoint()
    assert len(list(made(endpoint, streams=None, piece_records=3).stream(records(3)))) == 3
    assert (endpoint.streams, endpoint.looks) == (["r0"], 0)


def test_a_late_stream_keeps_neither_the_order_nor_the_others_waiting() -> None:
    endpoint = Endpoint(held="r0")
    stream = made(endpoint, streams=3, piece_records=2).stream({"id": f"r{i}", "triples": []} for i in count())
    answers: list[str] = []
    reader = threading.Thread(target=lambda: answers.extend(ids(islice(stream, 14))))
    reader.start()
    reader.join(0.5)
    assert answers == []
    assert len(endpoint.streams) <= 6  # what later streams answered waits in memory, so it is bounded
    endpoint.go.set()
    reader.join(WAIT)
    assert answers == [f"r{i}" for i in range(14)]
    stream.close()


def test_what_ends_a_stream_is_raised_behind_the_answers_before_it(waits: list[float]) -> None:
    def breaking(request: httpx.Request) -> httpx.Response:
        broken = asked(request)[0]["id"] == "r4"
        return problem(503, "unavailable", retryable=True) if broken else answered(request)

    found: list[str] = []
    with pytest.raises(UnavailableError):
        for answer in made(breaking, streams=3, piece_records=2).stream(records(10)):
            found.append(answer["id"])
    assert found == ["r0", "r1", "r2", "r3"]
    assert len(waits) == QUICK.attempts - 1
