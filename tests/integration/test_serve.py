"""The endpoint on Ray Serve, over HTTP; the commands and the Python block of its README."""

import io
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from ray import serve
from ray.exceptions import RayActorError

from agggen.bundle import fingerprint, load_bundle
from agggen.corpora.elements import elements_records
from agggen.records import Record, Triple
from agggen_platform.serving.deploy import Endpoint
from tests.command import Run
from tests.documents import REPO, blocks, commands_of
from tests.processes import until
from tests.serve_app import RECORDS, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def served(bundle: Path, ray_cluster: None) -> Iterator[Endpoint]:
    """An endpoint; while it starts, Serve replaces its first proxy, as on a busy machine (not ready within 5 s)."""
    start = serve.start

    def start_slowly(**settings: Any) -> None:
        start(**settings)
        raise RayActorError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve, "start", start_slowly)
        with serving(bundle, "limits.queue=10") as endpoint:
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
    assert "/v1/generate" in client.get("/openapi.json").json()["paths"]
    assert "text/html" in client.get("/").headers["content-type"]
    planned = [RECORDS[0] | {"plan": "[discoveryPlace discoveredBy]"}, RECORDS[1] | {"plan": "[category] [symbol]"}]
    answers = client.post("/v1/generate", json={"records": planned}).json()["answers"]
    assert [(answer["id"], answer["model"], answer["texts"][0]["plan"]) for answer in answers] == [
        (record["id"], fingerprint(bundle), record["plan"]) for record in planned
    ]
    (answer,) = client.post("/v1/plan", json={"records": RECORDS[:1], "options": {"k": 2}}).json()["answers"]
    assert len(answer["plans"]) == 2
    for name in ("align", "check"):
        texts = [RECORDS[0] | {"text": "Neon was found by Ramsay in London."}]
        (answer,) = client.post(f"/v1/{name}", json={"records": texts}).json()["answers"]
        assert answer["status"] == "ok", answer


def test_concurrent_requests_get_the_texts_of_the_library(client: httpx.Client, bundle: Path) -> None:
    generator = load_bundle(bundle).generator()
    values = [f"value {n}" for n in range(24)]

    def text_of(value: str) -> str:
        record = {"id": value, "triples": [["Neon", "discoveredBy", value], ["Neon", "discoveryPlace", "London"]]}
        (answer,) = client.post("/v1/generate", json={"records": [record]}).json()["answers"]
        assert answer["id"] == value
        return str(answer["texts"][0]["text"])

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(text_of, values))
    for value, text in zip(values, texts, strict=True):
        record = Record(value, (Triple("Neon", "discoveredBy", value), Triple("Neon", "discoveryPlace", "London")))
        assert generator.generate([record])[0][0].text == text


def test_a_stream_is_answered_while_it_is_sent(served: Endpoint) -> None:
    """The first answer arrives before the last record is sent, through Serve's proxy."""
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port), 60) as connection:
        head = "POST /v1/generate:stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall((head + "Content-Type: application/x-ndjson\r\n\r\n").encode())
        line = json.dumps(RECORDS[0]).encode() + b"\n"
        connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
        received = b""
        while b'"status": "ok"' not in received:
            received += connection.recv(65536)
        end = b'{"status": "end"'
        assert end not in received
        connection.sendall(b"0\r\n\r\n")
        while end not in received:
            received += connection.recv(65536)


def test_stalled_clients_do_not_delay_others_until_the_queue_is_full(served: Endpoint, client: httpx.Client) -> None:
    address = urlsplit(served.url)

    def stalled_request() -> socket.socket:
        connection = socket.create_connection((address.hostname, address.port), 60)
        connection.sendall(b"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Content-Length: 1000\r\n\r\n{")  # the body remains incomplete
        return connection

    def status() -> int:
        return client.post("/v1/generate", json={"records": RECORDS}).status_code

    with ExitStack() as connections:
        for _ in range(9):  # one fewer than `limits.queue`
            connections.enter_context(stalled_request())
        assert status() == 200
        until(lambda: connections.enter_context(stalled_request()) and status() == 429, "refusal")
    until(lambda: status() == 200, "free queue after the stalled clients disconnected")


def test_the_requests_of_the_readme_are_answered(
    served: Endpoint, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    records = [record.as_dict() for record in list(elements_records("dev"))[:3]]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    executed = []
    for block in blocks(REPO / "serve/README.md"):
        text = block.text.replace("http://127.0.0.1:8000", served.url)
        if text == block.text:
            continue
        if block.language == "python":
            exec(compile(text, str(block), "exec"), {"a_million_records": iter(records)})
            executed.append("python")
            continue
        for words in commands_of(text):
            if words[0] == "curl":
                completed = subprocess.run([*words, "--fail-with-body"], capture_output=True, text=True, timeout=120)
                assert completed.returncode == 0, f"{words}: {completed.stdout}{completed.stderr}"
                assert '"status": "error"' not in completed.stdout.replace('":"', '": "'), completed.stdout
                executed.append("curl")
            if words[:2] == ["agggen", "ask"]:
                monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(records[0]).encode())))
                code, _, err = run(*words[1:])
                assert code == 0, err
                executed.append("ask")
    assert executed == [*["curl"] * 5, "python", "ask", "ask"]
