"""The keys file, its reloading, and `agggen serve-key`, which writes it."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.errors import ConfigError
from agggen_platform.serving.keys import parse_keys, read_keys
from serve.security import KeyRing
from tests.command import Run
from tests.unit.serve.http_calls import issue

HASH = "sha256:" + "ab" * 32


def test_a_key_is_long_random_and_only_its_hash_is_in_the_file(file: Path) -> None:
    keys = {issue(file, "alice") for _ in range(3)}
    assert len(keys) == 3 and all(len(key) > 40 for key in keys)
    assert not any(key in file.read_text() for key in keys)
    assert [key.name for key in read_keys(file)] == ["alice"] * 3


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


def test_comments_and_blank_lines_are_read() -> None:
    keys = parse_keys(f"# keys\n\nalice {HASH}  # for tests\nbob sha256:{'cd' * 32}\n", "keys")
    assert [key.name for key in keys] == ["alice", "bob"]


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


def test_a_missing_file_and_one_that_is_not_text_are_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_keys(file)
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_keys(file)


@given(st.text())
def test_any_text_is_parsed_or_a_config_error(text: str) -> None:
    try:
        keys = parse_keys(text, "keys")
    except ConfigError:
        return
    assert parse_keys("\n".join(map(str, keys)), "again") == keys


def test_only_valid_keys_have_a_name(file: Path) -> None:
    alice, bob, second = issue(file, "alice"), issue(file, "bob"), issue(file, "alice")
    ring = KeyRing(file)
    assert [ring.name_of(key.encode()) for key in (alice, bob, second)] == ["alice", "bob", "alice"]
    for wrong in (b"", b"alice", alice[:-1].encode(), alice.encode() + b"x", b"x" * 100_000, b"\xff\x00"):
        assert ring.name_of(wrong) is None


def test_a_changed_file_takes_effect_within_a_second(file: Path) -> None:
    now = [100.0]
    alice = issue(file, "alice").encode()
    ring = KeyRing(file, lambda: now[0])
    bob = issue(file, "bob").encode()
    assert ring.name_of(bob) is None
    now[0] += 1.1
    assert ring.name_of(bob) == "bob"
    file.write_text("# nobody\n")
    now[0] += 1.1
    assert ring.name_of(alice) is None and ring.name_of(bob) is None


BROKEN: dict[str, Callable[[Path], object]] = {
    "malformed": lambda file: file.write_text("alice agk_secret\n"),
    "missing": lambda file: file.unlink(),
    "writable": lambda file: file.chmod(0o666),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_keeps_the_last_valid_keys_and_is_logged_once(
    file: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    now = [100.0]
    alice = issue(file, "alice").encode()
    ring = KeyRing(file, lambda: now[0])
    damage(file)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now[0] += 1.1
            assert ring.name_of(alice) == "alice"
    (message,) = [record.getMessage() for record in caplog.records]
    assert "last valid keys" in message and "agk_secret" not in message
    file.unlink(missing_ok=True)
    bob = issue(file, "bob").encode()
    now[0] += 1.1
    assert ring.name_of(bob) == "bob" and ring.name_of(alice) is None


def test_serve_key_prints_a_key_and_its_line_or_adds_the_line_to_a_file(run: Run, file: Path) -> None:
    code, out, _ = run("serve-key", "alice")
    key, line = out.splitlines()
    file.write_text(line + "\n")
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
