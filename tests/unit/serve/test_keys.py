"""The file of keys, and who is let in by it."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import date
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import ConfigError
from agggen_platform.serving.config import HttpConfig, SecurityConfig, ServeConfig
from agggen_platform.serving.keys import add_key, new_key, parse_keys, read_keys
from serve.asgi import info_of
from serve.security import Authentication, KeyRing, LocalOnly, key_ring
from tests.unit.serve.http_calls import Clock, Echo, Server, answer, client, problem, scope


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.txt"


def issue(file: Path, name: str, last_day: date | None = None) -> str:
    key, line = new_key(name, last_day)
    add_key(file, line)
    return key


# --- the file of keys ---------------------------------------------------------------------------------------------

HASH = "sha256:" + "ab" * 32


def test_a_key_is_long_random_and_only_its_hash_is_in_the_file(file: Path) -> None:
    keys = {issue(file, "alice") for _ in range(3)}
    assert len(keys) == 3 and all(len(key) > 40 for key in keys)
    assert not any(key in file.read_text() for key in keys)
    assert [key.name for key in read_keys(file)] == ["alice"] * 3


def test_a_new_file_is_the_owners_alone_whatever_the_umask(file: Path) -> None:
    before = os.umask(0)
    try:
        issue(file, "alice")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_key_is_added_below_a_last_line_without_its_end(file: Path) -> None:
    file.write_text(f"bob {HASH}")
    file.chmod(0o600)
    issue(file, "alice")
    assert [key.name for key in read_keys(file)] == ["bob", "alice"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(file: Path, mode: int) -> None:
    issue(file, "alice")
    file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod go-w"):
        read_keys(file)
    with pytest.raises(ConfigError, match="chmod go-w"):
        issue(file, "mallory")
    file.chmod(0o644)  # as a volume of Kubernetes: hashes may be seen
    assert [key.name for key in read_keys(file)] == ["alice"]


def test_comments_blank_lines_and_last_days_are_read() -> None:
    text = f"# keys\n\nalice {HASH}  # for tests\nbob sha256:{'cd' * 32} 2027-01-31\n"
    alice, bob = parse_keys(text, "keys")
    assert (alice.name, alice.last_day, bob.last_day) == ("alice", None, date(2027, 1, 31))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("alice", "expected NAME sha256:HEX"),
        (f"alice {HASH} 2027-01-31 more", "expected NAME sha256:HEX"),
        (f"al/ice {HASH}", "a name is of letters"),
        (f"alice {HASH[:-1]}", "64 lower-case hexadecimal"),
        (f"alice {HASH.upper()}", "64 lower-case hexadecimal"),
        (f"alice {HASH} tomorrow", "2027-01-31"),
        (f"alice {HASH}\nbob {HASH}", "already that of 'alice'"),
    ],
)
def test_a_malformed_line_is_named(line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^keys, line \d: .*{reason}"):
        parse_keys(line, "keys")


def test_a_key_written_into_the_file_by_mistake_is_not_quoted() -> None:
    with pytest.raises(ConfigError) as error:
        parse_keys("alice agk_secret", "keys")
    assert "agk_secret" not in str(error.value)


def test_a_missing_file_and_one_that_is_not_text_are_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_keys(file)
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_keys(file)


@given(st.text())
def test_any_text_is_keys_or_a_config_error(text: str) -> None:
    try:
        keys = parse_keys(text, "keys")
    except ConfigError:
        return
    assert parse_keys("\n".join(map(str, keys)), "again") == keys


# --- the ring -----------------------------------------------------------------------------------------------------


def test_each_key_is_known_by_its_name_and_nothing_else_is(file: Path) -> None:
    alice, bob, second = issue(file, "alice"), issue(file, "bob"), issue(file, "alice")
    ring = KeyRing(file)
    assert [ring.name_of(key.encode()) for key in (alice, bob, second)] == ["alice", "bob", "alice"]
    for wrong in (b"", b"alice", alice[:-1].encode(), alice.encode() + b"x", b"x" * 100_000, b"\xff\x00"):
        assert ring.name_of(wrong) is None


def test_every_key_is_compared_in_constant_time_wherever_the_match_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = [issue(file, f"key{number}") for number in range(5)]
    ring = KeyRing(file)
    compared = 0

    def compare(a: bytes, b: bytes) -> bool:
        nonlocal compared
        compared += 1
        return a == b

    monkeypatch.setattr("serve.security.hmac.compare_digest", compare)
    assert ring.name_of(first.encode()) == "key0" and ring.name_of(b"wrong") is None
    assert compared == 10


def test_a_key_is_good_through_its_last_day(file: Path) -> None:
    key = issue(file, "alice", date(2027, 1, 31)).encode()
    day = date(2027, 1, 31)
    ring = KeyRing(file, today=lambda: day)
    assert ring.name_of(key) == "alice"
    day = date(2027, 2, 1)
    assert ring.name_of(key) is None


def test_keys_come_and_go_with_the_file_at_most_a_second_later(file: Path, clock: Clock) -> None:
    alice = issue(file, "alice").encode()
    ring = KeyRing(file, clock)
    bob = issue(file, "bob").encode()
    assert ring.name_of(bob) is None
    clock.now += 1.1
    assert ring.name_of(bob) == "bob"
    file.write_text("# nobody\n")
    clock.now += 1.1
    assert ring.name_of(alice) is None and ring.name_of(bob) is None


def test_the_file_is_not_looked_at_for_each_request(file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    key = issue(file, "alice").encode()
    ring = KeyRing(file, clock)
    monkeypatch.setattr(Path, "stat", lambda *_: pytest.fail("looked at the file"))
    assert {ring.name_of(key) for _ in range(100)} == {"alice"}


@pytest.mark.parametrize("broken", ["rubbish", "missing", "writable"])
def test_a_broken_file_keeps_the_last_good_keys_and_says_so_once(
    file: Path, clock: Clock, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    alice = issue(file, "alice").encode()
    ring = KeyRing(file, clock)
    if broken == "rubbish":
        file.write_text("alice agk_secret\n")
    elif broken == "missing":
        file.unlink()
    else:
        file.chmod(0o666)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.now += 1.1
            assert ring.name_of(alice) == "alice"
    (said,) = [record.getMessage() for record in caplog.records]
    assert "last good keys" in said and "agk_secret" not in said
    file.unlink(missing_ok=True)
    bob = issue(file, "bob").encode()
    clock.now += 1.1
    assert ring.name_of(bob) == "bob" and ring.name_of(alice) is None


def test_an_endpoint_that_others_reach_must_have_keys(file: Path) -> None:
    def config(host: str, keys: str | None) -> ServeConfig:
        return ServeConfig(bundle="b", http=HttpConfig(host=host), security=SecurityConfig(keys_file=keys))

    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", "unknown", ""):
        with pytest.raises(ConfigError, match="agggen serve-key"):
            key_ring(config(host, None))
        with pytest.raises(ConfigError, match="cannot be read"):
            key_ring(config(host, str(file)))
    for host in ("127.0.0.1", "localhost", "::1"):
        assert key_ring(config(host, None)) is None
    file.write_text("# none yet\n")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no key"):
        key_ring(config("0.0.0.0", str(file)))
    issue(file, "alice")
    assert key_ring(config("0.0.0.0", str(file))) is not None
    assert key_ring(config("127.0.0.1", str(file))) is not None, "a keys file is used on loopback too"


def test_every_origin_without_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match="cors_origins"):
        key_ring(ServeConfig(bundle="b", security=SecurityConfig(cors_origins=("*",))))


# --- authentication -----------------------------------------------------------------------------------------------


def test_a_key_opens_by_either_header_and_its_name_is_noted(file: Path) -> None:
    key = issue(file, "alice")

    async def who(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await answer(send, info_of(scope).caller.encode())

    async def ask() -> list[httpx.Response]:
        async with client(Authentication(who, KeyRing(file))) as http:
            given = [{"Authorization": f"Bearer {key}"}, {"authorization": f"bearer  {key} "}, {"X-API-Key": key}]
            given.append({"X-API-Key": key, "Authorization": f"Bearer {key}"})
            return [await http.post("/", headers=headers) for headers in given]

    assert [(response.status_code, response.text) for response in asyncio.run(ask())] == [(200, "alice")] * 4


def test_without_a_valid_key_the_handler_is_never_reached(file: Path) -> None:
    key, other, app = issue(file, "alice"), issue(file, "bob"), Echo()
    wrong: list[list[tuple[str, str]]] = [
        [],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", key)],
        [("Authorization", f"Basic {key}")],
        [("Authorization", "Bearer nonsense")],
        [("X-API-Key", "")],
        [("X-API-Key", key + "x")],
        [("X-API-Key", key), ("Authorization", f"Bearer {other}")],
        [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {other}")],
        [("Cookie", f"key={key}")],
    ]

    async def ask() -> list[httpx.Response]:
        guarded = Authentication(app, KeyRing(file), open_paths=["/healthz"])
        async with client(guarded) as http:
            found = [await http.post("/v1/generate", headers=headers) for headers in wrong]
            paths = ("/healthz/", "//healthz", "/HEALTHZ", "/healthz%2f", "/metrics", f"/?key={key}", "/healthz/../v1")
            return found + [await http.get(path) for path in paths]

    for response in asyncio.run(ask()):
        said = problem(response)
        assert response.status_code == 401 and response.headers["www-authenticate"].startswith('Bearer realm="agggen"')
        assert said["type"].endswith(":unauthorized") and key not in response.text
    assert app.calls == 0


def test_only_open_paths_need_no_key_also_below_a_prefix(file: Path) -> None:
    issue(file, "alice")
    guarded = Authentication(Echo(), KeyRing(file), open_paths=["/healthz"])
    for path, root, status in (("/healthz", "", 200), ("/api/healthz", "/api", 200), ("/apihealthz", "/api", 401)):
        server = Server({"type": "http.request", "body": b""})
        asyncio.run(guarded({**scope(path), "root_path": root}, server.receive, server.send))
        assert server.status == status, path


def test_a_websocket_does_not_slip_through(file: Path) -> None:
    issue(file, "alice")
    for guard in (Authentication(Echo(), KeyRing(file), open_paths=["/"]), LocalOnly(Echo())):
        server = Server()
        asyncio.run(guard({**scope("/"), "type": "websocket"}, server.receive, server.send))
        assert [message["type"] for message in server.got] == ["websocket.close"]
