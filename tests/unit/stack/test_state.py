"""The folder of a stack: passwords that only their owner can read, a file for shells."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from infra.stack.errors import RefusedError
from infra.stack.state import State, write_private


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "stack")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RefusedError, match=r"cannot hold a stack"), State(tmp_path / "file").locked():
        pass


def test_passwords_are_generated_once_and_read_by_their_owner_alone(state: State) -> None:
    with state.locked():
        secrets = state.read()["secrets"]
        state.write({"ray": True}, {})
    assert len(set(secrets.values())) == len(secrets)
    assert min(map(len, secrets.values())) >= 32
    assert State(state.path).read() == {"settings": {"ray": True}, "secrets": secrets}
    assert mode(state.path) == (0o711 if os.geteuid() == 0 else 0o700)
    assert {mode(state.path / name) for name in ("stack.json", "env", "logs")} == {0o600, 0o700}
    other = State(state.path.with_name("other"))
    with other.locked():
        assert other.read()["secrets"] != secrets


def test_readable_and_damaged_passwords_are_refused(state: State) -> None:
    with state.locked():
        state.read()
    path = state.path / "stack.json"
    path.chmod(0o644)
    with pytest.raises(RefusedError, match=f"chmod 600 {path}"):
        state.read()
    for content, message in (
        ("{", "is damaged"),
        ('{"secrets": {"postgres": "x"}}', "has no password mlflow_database"),
    ):
        write_private(path, content)
        with pytest.raises(RefusedError, match=message):
            state.read()


def test_a_shell_that_reads_the_file_has_every_value(state: State) -> None:
    value = 'it\'s "so" $HOME `id` \\ ; * end'
    with state.locked():
        state.write({}, {"AGGGEN_A": value, "AGGGEN_B": "http://127.0.0.1:9000"})
    code = "import os; print(os.environ['AGGGEN_A'], os.environ['AGGGEN_B'], os.environ.get('AWS_SESSION_TOKEN'))"
    done = subprocess.run(
        ["sh", "-c", f'. "$1"; "$2" -c "{code}"', "sh", str(state.env_file), sys.executable],
        env=os.environ | {"AWS_SESSION_TOKEN": "of another store"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{value} http://127.0.0.1:9000 None"
