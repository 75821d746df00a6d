"""The `agggen` command in the tests' own process."""

from collections.abc import Callable

import pytest

from agggen_platform.cli.main import main

Run = Callable[..., tuple[int | str | None, str, str]]
"""Runs `agggen` with the given arguments; returns exit code, stdout and stderr."""


def command(capsys: pytest.CaptureFixture[str]) -> Run:
    """Returns a function that runs the command and fails if it prints a traceback."""

    def call(*arguments: object) -> tuple[int | str | None, str, str]:
        words = [str(argument) for argument in arguments]
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
            patch.setattr("sys.argv", ["agggen", *words])
            main(words)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return ended.value.code, captured.out, captured.err

    return call


def check_refused(result: tuple[int | str | None, str, str], code: int, message: str) -> None:
    """Asserts exit code `code`, empty stdout, and on stderr a single error line that contains `message`."""
    actual, out, err = result
    assert (actual, out) == (code, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err, err


def check_succeeds(result: tuple[int | str | None, str, str]) -> tuple[str, str]:
    """Asserts exit code 0; returns stdout and stderr."""
    code, out, err = result
    assert code == 0, err
    return out, err
