"""A client of an endpoint that does as it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from agggen_platform.client import Client, Retry, transport

URL = "http://127.0.0.1:8000"
QUICK = Retry(attempts=4, first_wait=0.001, longest_wait=0.002)
RECORD = {"id": "a", "triples": [["Aromi", "food", "English"]]}


def made(answering: Callable[[httpx.Request], httpx.Response], **settings: Any) -> Client:
    """A client whose requests `answering` answers; one stream at a time."""
    return Client(URL, transport=httpx.MockTransport(answering), **({"retry": QUICK, "streams": 1} | settings))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits that clients make, which take no time."""
    seconds: list[float] = []
    monkeypatch.setattr(transport.time, "sleep", seconds.append)
    return seconds


def problem(status: int, code: str, *, headers: dict[str, str] | None = None, **members: Any) -> httpx.Response:
    document = {"type": f"urn:agggen:problem:{code}", "title": code, "status": status, "detail": f"it is {code}"}
    content = json.dumps(document | {"retryable": False} | members)
    kind = {"content-type": "application/problem+json", "x-request-id": "r-1"}
    return httpx.Response(status, content=content, headers=kind | (headers or {}))


def error(index: int, record: str, code: str, retryable: bool) -> dict[str, Any]:
    """The answer to a record that failed."""
    found = {"type": f"urn:agggen:problem:{code}", "title": code, "status": 503, "detail": code, "retryable": retryable}
    return {"index": index, "id": record, "status": "error", "error": found | {"record": record, "index": index}}


def text(index: int, record: str) -> dict[str, Any]:
    """The answer to a record that did not."""
    return {"index": index, "id": record, "status": "ok", "texts": [{"text": f"About {record}."}]}


def asked(request: httpx.Request) -> list[dict[str, Any]]:
    """The records of a request, or of a stream."""
    if request.url.path.endswith(":stream"):
        return [json.loads(line) for line in request.content.splitlines()]
    return json.loads(request.content)["records"]


def answered(request: httpx.Request) -> httpx.Response:
    """Texts for all that is asked."""
    found = [text(i, str(record.get("id", i))) for i, record in enumerate(asked(request))]
    return lines(found) if request.url.path.endswith(":stream") else httpx.Response(200, json={"answers": found})


def lines(answers: list[dict[str, Any]], end: dict[str, Any] | None = None, cut: bool = False) -> httpx.Response:
    """A stream of answers with its end, or `cut` in the middle of the last line."""
    content = b"".join(json.dumps(answer).encode() + b"\n" for answer in answers)
    if not cut:
        whole = {"status": "end", "records": len(answers), "ok": len(answers), "errors": 0} | (end or {})
        return httpx.Response(200, content=content + json.dumps(whole).encode() + b"\n")
    return httpx.Response(200, stream=Cut(content[:-3]))


class Cut(httpx.SyncByteStream):
    """A body whose connection breaks."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self.content
        raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")
