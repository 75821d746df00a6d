"""The endpoint on real Ray Serve, over real HTTP."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.records import Record, Triple
from agggen_platform.serving.deploy import Endpoint
from tests.serve_app import RECORDS, replicas, serving, until
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("served") / "bundle")


@pytest.fixture(scope="module")
def served(bundle: Path, ray_cluster: None) -> Iterator[Endpoint]:
    with serving(bundle, "limits.send_wait_s=1000") as endpoint:
        yield endpoint


@pytest.fixture
def client(served: Endpoint) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=120) as client:
        yield client


def test_every_route_answers(client: httpx.Client, bundle: Path) -> None:
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready", "model": fingerprint(bundle)}
    card = client.get("/v1/model").json()
    assert (card["fingerprint"], card["address"]) == (fingerprint(bundle), str(bundle))
    assert set(client.get("/openapi.json").json()["paths"]) >= {"/v1/generate", "/v1/generate:stream", "/v1/align"}

    asked = {"records": RECORDS}
    planned = client.post("/v1/plan", json=asked | {"options": {"k": 2}}).json()["answers"]
    assert [len(answer["plans"]) for answer in planned] == [2, 2]
    written = client.post("/v1/generate", json=asked).json()
    assert [(answer["id"], answer["model"]) for answer in written["answers"]] == [
        ("a", fingerprint(bundle)),
        ("b", fingerprint(bundle)),
    ]
    human = [record | {"plan": "[area food]" if record["id"] == "a" else "[category] [symbol]"} for record in RECORDS]
    realised = client.post("/v1/realise", json={"records": human}).json()["answers"]
    assert [answer["texts"][0]["plan"] for answer in realised] == ["[area food]", "[category] [symbol]"]
    texts = [{**RECORDS[0], "text": "Aromi serves English food in the city centre."}]
    aligned = client.post("/v1/align", json={"records": texts}).json()["answers"]
    assert aligned[0]["status"] == "ok", aligned
    assert "agggen_requests_total" in client.get("/metrics").text


def test_what_is_wrong_is_said_as_problem_json(client: httpx.Client) -> None:
    answer = client.post("/v1/generate", json={"records": []})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/nowhere").status_code == 404


EVIL = "evil.example"
PAGES = [
    {"Host": EVIL},
    {"Host": f"{EVIL}:8000"},
    {"Origin": f"https://{EVIL}"},
    {"Origin": "null"},
    {"Origin": f"https://{EVIL}", "Content-Type": "text/plain"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
]
"""What a browser sends for a page of another site, or of one whose name was made to lead here (DNS rebinding)."""


@pytest.mark.parametrize("headers", PAGES, ids=str)
def test_a_web_page_gets_nothing_of_an_endpoint_without_keys(client: httpx.Client, headers: dict[str, str]) -> None:
    answer = client.post("/v1/generate", json={"records": RECORDS}, headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_answers_are_those_of_the_library_however_many_ask_at_once(client: httpx.Client, bundle: Path) -> None:
    generator = load_bundle(bundle).generator()
    values = [f"value {n}" for n in range(24)]

    def ask(value: str) -> str:
        record = {"id": value, "triples": [["Aromi", "food", value], ["Aromi", "area", "city centre"]]}
        (answer,) = client.post("/v1/generate", json={"records": [record]}).json()["answers"]
        assert answer["id"] == value
        return str(answer["texts"][0]["text"])

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(ask, values))
    for value, text in zip(values, texts, strict=True):
        record = Record(value, (Triple("Aromi", "food", value), Triple("Aromi", "area", "city centre")))
        assert generator.generate([record])[0][0].text == text


def test_a_request_under_a_key_is_answered_once(client: httpx.Client) -> None:
    asked = {"json": {"records": RECORDS}, "headers": {"Idempotency-Key": "the-same"}}
    first, second = client.post("/v1/generate", **asked), client.post("/v1/generate", **asked)
    assert (first.status_code, first.content) == (200, second.content)
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers


def _lines(count: int, bad: int | None = None) -> Iterator[bytes]:
    for n in range(count):
        record = {"id": str(n), "triples": [["Aromi", "food", f"value {n}"], ["Aromi", "area", "x" * (n % 7 + 1)]]}
        yield b'{"id": "bad", "triples": 7}\n' if n == bad else json.dumps(record).encode() + b"\n"


NDJSON = {"Content-Type": "application/x-ndjson"}


def test_a_stream_of_a_hundred_with_one_bad_gives_99_texts_and_one_error_in_order(client: httpx.Client) -> None:
    answer = client.post("/v1/generate:stream", content=_lines(100, bad=40), headers=NDJSON)
    *lines, end = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["id"] for line in lines] == [str(n) if n != 40 else "bad" for n in range(100)]
    assert [n for n, line in enumerate(lines) if line["status"] != "ok"] == [40]
    assert end == {"status": "end", "records": 100, "ok": 99, "errors": 1}


def test_a_stream_is_answered_while_it_is_sent(served: Endpoint) -> None:
    """The first answer comes before the last record is sent: over one connection, through Serve's proxy."""
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), 60) as wire:
        head = "POST /v1/generate:stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        wire.sendall((head + "Content-Type: application/x-ndjson\r\n\r\n").encode())
        for line in _lines(1):
            wire.sendall(b"%x\r\n%s\r\n" % (len(line), line))
        read = b""
        while b'"status": "ok"' not in read:
            read += wire.recv(65536)
        end = b'{"status": "end"'
        assert end not in read
        wire.sendall(b"0\r\n\r\n")
        while end not in read:
            read += wire.recv(65536)


def _in_flight(client: httpx.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("agggen_requests_in_flight{"))


@pytest.mark.fault("serving: clients are slow or vanish")
def test_a_slow_and_a_vanished_client_hold_nobody(served: Endpoint, client: httpx.Client) -> None:
    where = urlsplit(served.url)
    before = _in_flight(client)
    slow = []
    for _ in range(8):  # half a body, and then nothing
        wire = socket.create_connection((where.hostname, where.port), 60)
        wire.sendall(b"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        wire.sendall(b"Content-Length: 1000\r\n\r\n{")
        slow.append(wire)
    unread = socket.create_connection((where.hostname, where.port), 60)  # sends a stream, reads nothing
    body = b"".join(_lines(400))
    unread.sendall(b"POST /v1/generate:stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n")
    unread.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    since = time.monotonic()
    assert client.post("/v1/generate", json={"records": RECORDS}).status_code == 200
    assert time.monotonic() - since < 60  # the slow ones may keep their places for much longer
    assert _in_flight(client) > before + 1
    for wire in (*slow, unread):
        wire.close()
    until(lambda: _in_flight(client) <= before, "end of the requests whose clients went away")


def test_the_same_bundle_again_changes_nothing(served: Endpoint) -> None:
    before = {name: replicas(name) for name in ("Ingress", "Planner", "Generator", "Answers")}
    assert all(before.values())
    assert served.target is not None
    served.deploy(served.target)
    assert {name: replicas(name) for name in before} == before
