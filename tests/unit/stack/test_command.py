"""The command where no stack runs: what it refuses, and how it says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from infra.stack import __main__ as command
from infra.stack.errors import RefusedError

REPO = Path(__file__).parents[3]


def test_an_error_is_a_line_and_a_status(tmp_path: Path) -> None:
    """In a process of its own, as a user calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.stack", "check", "--state", str(tmp_path)],
        cwd=REPO,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"no stack runs in {tmp_path}; `python -m infra.stack up --state {tmp_path}` starts one\n"


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[object, str]:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.argv", ["stack", *map(str, words)])
        command.main()
    return ended.value.code, capsys.readouterr().err


def test_commands_that_need_a_stack_say_that_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["check"], ["down"]):
        code, err = call(capsys, *words, "--state", tmp_path)
        assert (code, "no stack runs in" in err) == (1, True)


def test_without_a_command_the_stack_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "Asked", lambda: None)  # it would take over this process's signals
        patch.setattr(command, "_stack", _no_stack)
        assert call(capsys) == (2, "asked for .stack\n")


def _no_stack(_: object, folder: Path, __: object) -> None:
    raise RefusedError(f"asked for {folder}")


def test_what_cannot_be_is_refused_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "stack"
    assert call(capsys, "up", "--state", folder, "--mlflow-port", 70_000)[0] == 2
    code, err = call(capsys, "up", "--state", folder, "--mlflow-port", 9000)
    assert (code, "ports are different numbers" in err) == (2, True)
    assert call(capsys, "run", "--state", folder)[0] == 2
    assert not folder.exists()


def test_given_ports_stand_beside_free_ones() -> None:
    options = {"free_ports": True, "mlflow_port": 5005, "s3_port": None, "state": Path(), "ray": True}
    chosen = command._settings(options)
    assert (chosen.mlflow_port, chosen.ray) == (5005, True)
    assert chosen.s3_port != 9000
    with pytest.raises(RefusedError):
        command._settings({"free_ports": False, "mlflow_port": 9000})
