"""Access and admission: keys, host names, body sizes, concurrent requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen_platform.serving.config import HttpConfig, LimitsConfig, SecurityConfig, ServeConfig
from serve.api import api
from serve.errors import Problem
from serve.limits import Admission, StreamBody, StreamBuffer
from serve.security import KeyRing, key_ring
from tests.unit.serve.http_calls import (
    NDJSON,
    Ask,
    Server,
    asynchronous,
    client,
    issue,
    limited,
    part,
    pieces,
    problem,
    records,
    scope,
    until,
)
from tests.unit.serve.stub_engine import StubEngine

REQUEST = {"json": {"records": records("a")}}


@pytest.fixture
def key(file: Path) -> str:
    return issue(file, "alice")


@pytest.fixture
def keyed(stub: StubEngine, file: Path, key: str) -> Ask:
    settings = SecurityConfig(keys_file=str(file))
    return Ask(api(stub, ServeConfig(bundle="b", http=HttpConfig(host="0.0.0.0"), security=settings)))


def test_a_valid_key_is_accepted_and_probes_need_none(keyed: Ask, key: str) -> None:
    for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}):
        assert keyed(headers={**headers, "Host": "any.example"}, **REQUEST).status_code == 200
    assert keyed("/healthz", "GET").status_code == keyed("/readyz", "GET").status_code == 200


WRONG = ["Bearer", "Bearer ", "KEY", "Basic KEY", "Bearer nonsense", b"Bearer \xff\xfe", "Bearer KEYx"]
HEADERS = [{}, *({"Authorization": wrong} for wrong in WRONG), {"X-API-Key": "KEY"}, {"Cookie": "key=KEY"}]


@pytest.mark.parametrize("headers", HEADERS, ids=str)
def test_a_request_without_a_valid_key_gets_401_before_its_body_is_read(
    stub: StubEngine, keyed: Ask, key: str, headers: dict[str, str | bytes]
) -> None:
    sent = {name: value.replace("KEY", key) if isinstance(value, str) else value for name, value in headers.items()}
    for path in ("/v1/generate", "/v1/plan", "/v1/generate:stream", f"/v1/align?key={key}"):
        response = keyed(path, headers=sent, content=b"{")
        assert problem(response)["status"] == 401 and key not in response.text
        assert response.headers["www-authenticate"].startswith('Bearer realm="agggen"')
    assert keyed("/v1/model", "GET", headers=sent).status_code == 401
    assert Server().status_of(keyed.app, scope(headers=sent)) == 401  # the body never arrives
    assert not stub.calls


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", "", "127.0.0.1", "localhost", "::1"])
def test_listening_beyond_loopback_requires_keys(file: Path, key: str, host: str) -> None:
    def ring(keys: Path | None) -> KeyRing | None:
        security = SecurityConfig(keys_file=str(keys) if keys else None)
        return key_ring(ServeConfig(bundle="b", http=HttpConfig(host=host), security=security))

    assert ring(file) is not None
    with pytest.raises(ConfigError, match="cannot be read"):
        ring(file.with_name("missing"))
    if host in ("127.0.0.1", "localhost", "::1"):
        assert ring(None) is None
    else:
        with pytest.raises(ConfigError, match="agggen serve-key"):
            ring(None)
    file.write_text("# none yet\n")
    with pytest.raises(ConfigError, match="has no key"):
        ring(file)


LOCAL = [
    *("localhost", "localhost:8000", "LOCALHOST:8000", "studio.internal"),
    *("127.0.0.1:8000", "127.1.2.3", "[::1]:8000"),
]
ELSEWHERE = [
    *("", "evil.example", "localhost.evil.example", "localhost@evil.example", "evil.example@localhost"),
    *("127.0.0.1.evil.example", "0.0.0.0:8000", "192.168.1.7", "[::]", "[::1", "localhost:port"),
]


@pytest.mark.parametrize("host", LOCAL + ELSEWHERE)
def test_without_keys_the_host_header_must_name_this_machine(stub: StubEngine, host: str) -> None:
    ask = Ask(api(stub, ServeConfig(bundle="b", security=SecurityConfig(hosts=("Studio.Internal",)))))
    assert ask(headers={"Host": host}, **REQUEST).status_code == (200 if host in LOCAL else 403)
    assert bool(stub.calls) == (host in LOCAL)


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"evil.example"]])
def test_a_request_without_a_host_or_with_two_is_refused(ask_stub: Ask, hosts: list[bytes]) -> None:
    head = {**scope(), "headers": [(b"host", host) for host in hosts]}
    assert Server(part(b"", more=False)).status_of(ask_stub.app, head) == 403


def test_cross_origin_requests_are_refused(ask_stub: Ask, stub: StubEngine) -> None:
    """Browsers send these media types without a preflight request; the preflight of others is refused."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = {"Origin": "http://evil.example", "Content-Type": kind}
        assert ask_stub(headers=headers, content=b'{"records": []}').status_code == 415
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    response = ask_stub(method="OPTIONS", headers=preflight)
    assert response.status_code == 405 and "access-control-allow-origin" not in response.headers
    assert not stub.calls


COMPRESSED = [("generate", "gzip"), ("generate", "identity, br"), ("generate:stream", "ZSTD")]


@pytest.mark.parametrize(("name", "length"), [("generate", "101"), ("generate", "9" * 900), ("generate:stream", "201")])
def test_bodies_of_an_announced_length_above_the_limit_are_refused_before_they_arrive(
    stub: StubEngine, name: str, length: str
) -> None:
    app = limited(stub, body_bytes=100, stream_bytes=200).app
    assert Server().status_of(app, scope(f"/v1/{name}", {"content-length": length})) == 413


@pytest.mark.parametrize(("name", "encoding"), COMPRESSED)
def test_compressed_bodies_are_refused_before_they_arrive(ask_stub: Ask, name: str, encoding: str) -> None:
    assert Server().status_of(ask_stub.app, scope(f"/v1/{name}", {"content-encoding": encoding})) == 415


@pytest.mark.parametrize(
    ("body", "limits", "status"),
    [
        ([b" " * 99, b"xx"], {"body_bytes": 100}, 413),  # the body never ends
        ([b'{"records"'], {"deadline_s": 0.05}, 504),
    ],
    ids=["long", "late"],
)
def test_reading_stops_at_a_body_that_is_too_long_or_late(
    stub: StubEngine, body: list[bytes], limits: dict[str, float], status: int
) -> None:
    assert Server(*map(part, body)).status_of(limited(stub, **limits).app, scope()) == status


async def collected(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


@asynchronous
async def test_streams_are_received_ahead_within_their_limits() -> None:
    buffer = StreamBuffer(LimitsConfig(stream_bytes=100, stream_buffer_bytes=60))
    servers = [Server(part(b"a" * 40)), Server(part(b"b" * 20))]
    bodies = [StreamBody(server.receive, buffer) for server in servers]
    receiving = [asyncio.create_task(body.receive()) for body in bodies]
    await until(lambda: buffer.unread_bytes == 60)
    for server in servers:  # the buffer is full, since neither body was read
        server.incoming.put_nowait(part(b"c", more=False))
    await asyncio.wait(receiving, timeout=0.05)
    for body in bodies:
        with pytest.raises(Problem, match="buffer of all streams"):
            await collected(body.pieces())
    for body in bodies:
        body.close()
    assert buffer.unread_bytes == 0
    for task in receiving:
        task.cancel()


def test_a_stream_above_its_size_limit_ends_with_the_error_too_large(stub: StubEngine) -> None:
    body = pieces(b" " * 150, b" " * 60)
    response = limited(stub, stream_bytes=200)("/v1/generate:stream", content=body, headers=NDJSON)
    assert '"end"' in response.text and "too-large" in response.text


@asynchronous
async def test_requests_above_the_queue_limit_get_429_until_others_end(stub: StubEngine) -> None:
    stub.hold = asyncio.Event()
    async with client(limited(stub, queue=3).app) as http:
        waiting = [asyncio.create_task(http.post("/v1/generate", **REQUEST)) for _ in range(2)]
        stream = {"content": b'{"triples": [["a", "b", "c"]]}', "headers": NDJSON}
        waiting.append(asyncio.create_task(http.post("/v1/generate:stream", **stream)))
        await until(lambda: stub.begun == 3)
        refused = await http.post("/v1/generate", **REQUEST)
        assert (problem(refused)["status"], refused.headers["Retry-After"]) == (429, "1")
        assert (await http.get("/healthz")).status_code == (await http.get("/readyz")).status_code == 200
        waiting[0].cancel()
        await asyncio.wait({waiting[0]})
        stub.hold.set()
        assert [(await task).status_code for task in waiting[1:]] == [200, 200]
        assert (await http.post("/v1/generate", **REQUEST)).status_code == 200
        stub.error = KeyError("inside")
        assert [(await http.post("/v1/generate", **REQUEST)).status_code for _ in range(5)] == [500] * 5


@asynchronous
async def test_shutdown_refuses_new_requests_and_finishes_active_ones(stub: StubEngine) -> None:
    stub.hold = asyncio.Event()
    admission = Admission(10)
    async with client(api(stub, ServeConfig(bundle="b"), admission=admission)) as http:
        active = asyncio.create_task(http.post("/v1/generate", **REQUEST))
        await until(lambda: stub.begun == 1)
        closing = asyncio.create_task(admission.close())
        await asyncio.sleep(0.01)
        refused = await http.post("/v1/generate", **REQUEST)
        assert (refused.status_code, problem(refused)["retryable"]) == (503, True)
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200 and not closing.done()
        stub.hold.set()
        assert (await active).status_code == 200
        await asyncio.wait_for(closing, 20)
        admission.closed = False
        assert (await http.post("/v1/generate", **REQUEST)).status_code == 200
