"""A client of a scripted endpoint."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agggen_platform.client import Client, Retry, transport

URL = "http://127.0.0.1:8000/agggen/"  # with a prefix
QUICK = Retry(attempts=4, first_wait=0.001, longest_wait=0.002)
RECORD = {"id": "a", "triples": [["Aromi", "food", "English"]]}


def client_of(handler: Callable[[httpx.Request], httpx.Response], **settings: Any) -> Client:
    """A client that sends one request at a time; `handler` returns the responses."""
    return Client(URL, transport=httpx.MockTransport(handler), **({"retry": QUICK, "concurrency": 1} | settings))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Skips the waits of clients and records their durations in seconds."""
    seconds: list[float] = []
    monkeypatch.setattr(transport.time, "sleep", seconds.append)
    return seconds


def problem(status: int, code: str, *, headers: dict[str, str] | None = None, **members: Any) -> httpx.Response:
    document = {"type": f"urn:agggen:problem:{code}", "title": code, "status": status, "detail": f"it is {code}"}
    content = json.dumps(document | {"retryable": False} | members)
    kind = {"content-type": "application/problem+json", "x-request-id": "r-1"}
    return httpx.Response(status, content=content, headers=kind | (headers or {}))


def error(index: int, record: str, code: str, retryable: bool) -> dict[str, Any]:
    document = {"type": f"urn:agggen:problem:{code}", "status": 503, "detail": code, "retryable": retryable}
    return {"index": index, "id": record, "status": "error", "error": document | {"record": record, "index": index}}


def text(index: int, record: str) -> dict[str, Any]:
    return {"index": index, "id": record, "status": "ok", "texts": [{"text": f"About {record}."}]}


def records_in(request: httpx.Request) -> Any:
    return json.loads(request.content)["records"]


class Script:
    """A handler that returns, raises or calls the given entries in order; the last one is repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests = list(answers), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):  # a copy, since a response can be read only once
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return answer(request)

    def header(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


def answer_all(request: httpx.Request) -> httpx.Response:
    answers = [text(i, str(record.get("id", i))) for i, record in enumerate(records_in(request))]
    return httpx.Response(200, json={"answers": answers})
