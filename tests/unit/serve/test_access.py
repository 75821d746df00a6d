"""Access and admission: keys, host names, sizes of bodies, concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from agggen.errors import ConfigError
from agggen_platform.serving.config import HttpConfig, LimitsConfig, SecurityConfig, ServeConfig
from agggen_platform.serving.keys import add_key, new_key
from serve.api import api
from serve.errors import Problem
from serve.limits import Admission, StreamBody, StreamBuffer
from serve.security import key_ring
from tests.unit.serve.http_calls import (
    JSON,
    NDJSON,
    Server,
    asynchronous,
    client,
    part,
    pieces,
    post,
    problem,
    records,
    scope,
    until,
)
from tests.unit.serve.stub_engine import StubEngine

REQUEST = {"json": {"records": records("a")}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


@pytest.fixture
def key(file: Path) -> str:
    key, line = new_key("alice")
    add_key(file, line)
    return key


def keyed(stub: StubEngine, file: Path) -> ASGIApp:
    """An endpoint that listens on all interfaces and requires keys."""
    settings = SecurityConfig(keys_file=str(file))
    return api(stub, ServeConfig(bundle="b", http=HttpConfig(host="0.0.0.0"), security=settings))


# --- keys -----------------------------------------------------------------------------------------------------------


def test_a_valid_key_is_accepted_and_probes_need_none(stub: StubEngine, file: Path, key: str) -> None:
    app = keyed(stub, file)
    for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}):
        assert post(app, headers={**headers, "Host": "any.example"}, **REQUEST).status_code == 200
    assert post(app, "/healthz", "GET").status_code == post(app, "/readyz", "GET").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "KEY"},
        {"Authorization": "Basic KEY"},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Authorization": "Bearer KEYx"},
        {"X-API-Key": "KEY"},
        {"Cookie": "key=KEY"},
    ],
    ids=str,
)
def test_a_request_without_a_valid_key_gets_401_before_its_body_is_read(
    stub: StubEngine, file: Path, key: str, headers: dict[str, str | bytes]
) -> None:
    app = keyed(stub, file)
    sent = {name: value.replace("KEY", key) if isinstance(value, str) else value for name, value in headers.items()}
    unread = Server()  # no byte of the body arrives
    for path in ("/v1/generate", "/v1/plan", "/v1/generate:stream", f"/v1/align?key={key}"):
        response = post(app, path, headers=sent, content=b"{")
        assert problem(response)["status"] == 401 and key not in response.text
        assert response.headers["www-authenticate"].startswith('Bearer realm="agggen"')
    assert post(app, "/v1/model", "GET", headers=sent).status_code == 401
    lines = [(name.lower().encode(), v if isinstance(v, bytes) else v.encode()) for name, v in sent.items()]
    asyncio.run(asyncio.wait_for(app(scope(headers=lines), unread.receive, unread.send), 20))
    assert unread.status == 401 and not stub.calls


def test_listening_beyond_loopback_requires_keys(file: Path, key: str) -> None:
    def config(host: str, keys: Path | None) -> ServeConfig:
        security = SecurityConfig(keys_file=str(keys) if keys else None)
        return ServeConfig(bundle="b", http=HttpConfig(host=host), security=security)

    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", "unknown", ""):
        with pytest.raises(ConfigError, match="agggen serve-key"):
            key_ring(config(host, None))
        with pytest.raises(ConfigError, match="cannot be read"):
            key_ring(config(host, file.with_name("missing")))
        assert key_ring(config(host, file)) is not None
    for host in ("127.0.0.1", "localhost", "::1"):
        assert key_ring(config(host, None)) is None
        assert key_ring(config(host, file)) is not None, "a keys file is used on loopback too"
    file.write_text("# none yet\n")
    with pytest.raises(ConfigError, match="holds no key"):
        key_ring(config("0.0.0.0", file))


# --- browsers -------------------------------------------------------------------------------------------------------

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
    app = api(stub, ServeConfig(bundle="b", security=SecurityConfig(hosts=("Studio.Internal",))))
    response = post(app, headers={"Host": host}, **REQUEST)
    assert response.status_code == (200 if host in LOCAL else 403)
    assert bool(stub.calls) == (host in LOCAL)


def test_a_request_without_a_host_or_with_two_is_refused(stub: StubEngine) -> None:
    for lines in ([], [(b"host", b"localhost"), (b"host", b"evil.example")]):
        server = Server(part(b"", more=False))
        asyncio.run(api(stub, ServeConfig(bundle="b"))({**scope(), "headers": lines}, server.receive, server.send))
        assert server.status == 403


def test_cross_origin_requests_are_refused(stub: StubEngine) -> None:
    """A browser sends these media types without a preflight request; all others need one, which is refused."""
    app = api(stub, ServeConfig(bundle="b"))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = {"Origin": "http://evil.example", "Content-Type": kind}
        assert post(app, headers=headers, content=b'{"records": []}').status_code == 415
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    response = post(app, method="OPTIONS", headers=preflight)
    assert response.status_code == 405 and "access-control-allow-origin" not in response.headers
    assert not stub.calls


# --- bodies ---------------------------------------------------------------------------------------------------------

SMALL = ServeConfig(bundle="b", limits=LimitsConfig(body_bytes=100, stream_bytes=200))


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/generate", {"content-length": "101"}, 413),
        ("/v1/generate", {"content-length": "9" * 900}, 413),
        ("/v1/generate", {"content-length": "-1"}, 400),
        ("/v1/generate", {"content-length": "1e3"}, 400),
        ("/v1/generate", {"content-length": "٣"}, 400),
        ("/v1/generate:stream", {"content-length": "201"}, 413),
        ("/v1/generate", {"content-encoding": "gzip"}, 415),
        ("/v1/generate", {"content-encoding": "identity, br"}, 415),
        ("/v1/generate:stream", {"content-encoding": "ZSTD"}, 415),
    ],
)
def test_invalid_headers_are_refused_before_the_body_arrives(
    stub: StubEngine, path: str, headers: dict[str, str], status: int
) -> None:
    kind = NDJSON if path.endswith("stream") else JSON
    lines = [(name.lower().encode(), value.encode()) for name, value in {**kind, **headers}.items()]
    server = Server()
    app = api(stub, SMALL)
    asyncio.run(asyncio.wait_for(app(scope(path, headers=lines), server.receive, server.send), 20))
    assert server.status == status


@pytest.mark.parametrize(
    ("pieces_of_body", "limits", "status"),
    [
        ([b" " * 99, b"xx"], LimitsConfig(body_bytes=100), 413),  # the rest of the body is not waited for
        ([b'{"records"'], LimitsConfig(deadline_s=0.05), 504),
    ],
)
def test_reading_stops_at_a_body_that_is_too_long_or_late(
    stub: StubEngine, pieces_of_body: list[bytes], limits: LimitsConfig, status: int
) -> None:
    lines = [(b"content-type", b"application/json"), (b"content-length", b"3")]  # too small on purpose
    for headers in (lines[:1], lines):
        server = Server(*map(part, pieces_of_body))
        app = api(stub, ServeConfig(bundle="b", limits=limits))
        asyncio.run(asyncio.wait_for(app(scope(headers=headers), server.receive, server.send), 20))
        assert server.status == status


async def collected(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


@asynchronous
async def test_streams_are_received_ahead_within_their_limits() -> None:
    buffer = StreamBuffer(LimitsConfig(stream_bytes=100, stream_buffer_bytes=60))
    servers = [Server(part(b"a" * 40)), Server(part(b"b" * 20))]
    bodies = [StreamBody(server.receive, buffer) for server in servers]
    receiving = [asyncio.create_task(body.receive()) for body in bodies]
    await until(lambda: buffer.waiting == 60)
    for server in servers:  # neither body was read, so the buffer has no room for more
        server.incoming.put_nowait(part(b"c", more=False))
    await asyncio.wait(receiving, timeout=0.05)
    for body in bodies:
        with pytest.raises(Problem, match="buffer of all streams"):
            await collected(body.pieces())
    for body in bodies:
        body.close()
    assert buffer.waiting == 0
    for task in receiving:
        task.cancel()


def test_a_stream_above_its_size_limit_ends_with_too_large(stub: StubEngine) -> None:
    response = post(api(stub, SMALL), "/v1/generate:stream", content=pieces(b" " * 150, b" " * 60), headers=NDJSON)
    assert '"end"' in response.text and "too-large" in response.text


# --- admission ------------------------------------------------------------------------------------------------------


@asynchronous
async def test_requests_above_the_queue_limit_get_429_until_others_end(stub: StubEngine) -> None:
    stub.hold = asyncio.Event()
    app = api(stub, ServeConfig(bundle="b", limits=LimitsConfig(queue=3)))
    async with client(app) as http:
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
        admission.open()
        assert (await http.post("/v1/generate", **REQUEST)).status_code == 200
