"""Access and admission: the keys file and `agggen serve-key`, host names, body sizes, concurrent requests."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen_platform.serving.config import HttpConfig, LimitsConfig, SecurityConfig, ServeConfig
from agggen_platform.serving.keys import parse_keys, read_keys
from serve.api import api
from serve.errors import Problem
from serve.reading import Admission, StreamBody, StreamBuffer
from serve.security import KeyRing, key_ring
from tests.command import Run
from tests.unit.serve.http_calls import (
    NDJSON,
    Ask,
    Server,
    StubEngine,
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

REQUEST = {"json": {"records": records("a")}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


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


LOCAL = ["localhost", "localhost:8000", "LOCALHOST", "studio.internal", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000"]
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
    assert (problem(response)["status"], response.headers["Allow"]) == (405, "POST")
    assert "access-control-allow-origin" not in response.headers
    assert problem(ask_stub(content=b"{}"))["status"] == 415  # no media type
    assert not stub.calls


@pytest.mark.parametrize(
    ("name", "headers", "body", "status"),
    [
        ("generate", {"content-length": "101"}, [], 413),
        ("generate", {"content-length": "9" * 900}, [], 413),
        ("generate:stream", {"content-length": "201"}, [], 413),
        ("generate", {"content-encoding": "gzip"}, [], 415),
        ("generate", {"content-encoding": "identity, br"}, [], 415),
        ("generate:stream", {"content-encoding": "ZSTD"}, [], 415),
        ("generate", {}, [b" " * 99, b"xx"], 413),
        ("generate", {}, [b'{"records"'], 504),
    ],
)
def test_long_compressed_and_late_bodies_are_refused_before_they_have_arrived(
    stub: StubEngine, name: str, headers: dict[str, str], body: list[bytes], status: int
) -> None:
    app = limited(stub, body_bytes=100, stream_bytes=200, deadline_s=0.3).app
    assert Server(*map(part, body)).status_of(app, scope(f"/v1/{name}", headers)) == status


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
            [piece async for piece in body.pieces()]
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


HASH = "sha256:" + "ab" * 32


def test_a_key_is_long_random_and_only_its_hash_is_in_the_file(file: Path) -> None:
    names = ["alice", "bob", "alice"]
    keys = [issue(file, name) for name in names]
    assert len(set(keys)) == 3 and all(len(key) > 40 for key in keys)
    assert not any(key in file.read_text() for key in keys)
    ring, alice = KeyRing(file), keys[0].encode()
    assert [ring.name_of(key.encode()) for key in keys] == names
    for wrong in (b"", b"alice", alice[:-1], alice + b"x", b"x" * 100_000, b"\xff\x00"):
        assert ring.name_of(wrong) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_new_file_has_mode_0600_and_one_that_others_may_write_to_is_refused(file: Path, mode: int) -> None:
    before = os.umask(0)
    try:
        issue(file, "alice")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(mode)
    for access in (lambda: read_keys(file), lambda: issue(file, "mallory")):
        with pytest.raises(ConfigError, match="chmod go-w"):
            access()
    file.chmod(0o644)  # group-readable, as in a Kubernetes volume
    assert [key.name for key in read_keys(file)] == ["alice"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("alice", "expected NAME sha256:HEX"),
        ("alice agk_secret", "64 lower-case hexadecimal"),
        (f"alice {HASH} more", "expected NAME sha256:HEX"),
        (f"al/ice {HASH}", "a name must consist of at most 64 letters"),
        (f"alice {HASH[:-1]}", "64 lower-case hexadecimal"),
        (f"alice {HASH.upper()}", "64 lower-case hexadecimal"),
        (f"alice {HASH}\nbob {HASH}", "'alice' already has this key"),
    ],
)
def test_the_error_names_a_malformed_line(line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^keys, line \d: .*{reason}") as refused:
        parse_keys(line, "keys")
    assert "agk_secret" not in str(refused.value)  # a secret, entered by mistake


BROKEN: dict[str, Callable[[Path], object]] = {
    "malformed": lambda file: file.write_text("alice agk_secret\n"),
    "not text": lambda file: file.write_bytes(b"\xff\xfe"),
    "missing": lambda file: file.unlink(),
    "writable": lambda file: file.chmod(0o666),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_changed_file_takes_effect_within_a_second_unless_it_is_broken(
    file: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    now = [100.0]
    alice = issue(file, "alice").encode()
    ring = KeyRing(file, lambda: now[0])
    damage(file)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):  # logged once
            now[0] += 1.1
            assert ring.name_of(alice) == "alice"
    (message,) = [record.getMessage() for record in caplog.records]
    assert "last valid keys" in message and "agk_secret" not in message
    file.unlink(missing_ok=True)
    bob = issue(file, "bob").encode()
    assert ring.name_of(bob) is None
    now[0] += 1.1
    assert ring.name_of(bob) == "bob" and ring.name_of(alice) is None
    file.write_text("# nobody\n")
    now[0] += 1.1
    assert ring.name_of(bob) is None


def test_serve_key_prints_a_key_and_its_line_or_adds_the_line_to_a_file(run: Run, file: Path) -> None:
    code, out, _ = run("serve-key", "alice")
    key, line = out.splitlines()
    file.write_text(f"# keys\n\n{line}  # for tests")  # without a newline at the end
    file.chmod(0o600)
    assert code == 0 and KeyRing(file).name_of(key.encode()) == "alice"
    bob = run("serve-key", "bob", "--file", file)[1].strip()
    assert KeyRing(file).name_of(bob.encode()) == "bob"
    assert [key.name for key in read_keys(file)] == ["alice", "bob"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("a b",), 2),
        (("",), 2),
        (("a", "--file", "broken"), 2),
        (("a", "--file", "open"), 2),
        (("a", "--file", "no/such/folder"), 5),
    ],
)
def test_invalid_input_is_refused_and_no_key_is_printed(run: Run, arguments: tuple[str, ...], code: int) -> None:
    for name, text, mode in (("broken", "rubbish\n", 0o600), ("open", "", 0o666)):
        Path(name).write_text(text)
        Path(name).chmod(mode)
    status, out, error = run("serve-key", *arguments)
    assert (status, out) == (code, "") and error
