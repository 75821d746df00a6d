"""The command where no stack runs: what it refuses, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.stack import __main__ as command


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[object, str]:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.argv", ["stack", *map(str, words)])
        command.main()
    return ended.value.code, capsys.readouterr().err


def test_an_error_is_a_line_and_a_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = f"no stack runs in {tmp_path}; `python -m infra.stack up --state {tmp_path}` starts one\n"
    assert call(capsys, "down", "--state", tmp_path) == (1, expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["up", "--port", "mlflow=70000"], "NUMBER is from 1 to 65535"),
        (["up", "--port", "mlfow=7000"], "NAME is one of postgres, s3, mlflow"),
        (["up", "--port", "mlflow=9000"], "each part needs a port of its own"),
        (["run"], "Missing argument"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_created(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "stack"
    code, err = call(capsys, *words, "--state", folder)
    assert (code, message in err) == (2, True), err
    assert not folder.exists()


def test_given_ports_take_precedence_over_free_ones() -> None:
    ports = command._settings(ray=True, options=["mlflow=5005"], free=True)["ports"]
    assert ports["mlflow"] == 5005
    assert ports["s3"] != 9000
    assert len(set(ports.values())) == len(ports) == 7
