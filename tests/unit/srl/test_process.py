"""The child process: it cannot block its parent, its output is in errors, it ends with its parent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agggen_platform.srl.process import JsonLinesProcess, WorkerDied

ECHO = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"


def child(code: str, scratch: Path | None = None) -> JsonLinesProcess:
    return JsonLinesProcess([sys.executable, "-I", "-c", code], dict(os.environ), scratch)


def is_gone(pid: int) -> bool:
    """Whether the process has ended and was reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_nothing_blocks_when_every_pipe_is_full() -> None:
    """The child writes before it reads, and more than a pipe's buffer."""
    process = child(f"import sys\nsys.stderr.write('noise\\n' * 500_000); sys.stderr.flush()\n{ECHO}")
    message = {"text": "x" * 8_000_000}
    assert process.request(message, 60) == message
    process.close()


def test_an_error_has_the_exit_status_and_the_last_lines() -> None:
    code = "import sys\nfor n in range(50): print('line', n, file=sys.stderr)\nsys.stdin.readline(); sys.exit(7)"
    process = child(code)
    with pytest.raises(WorkerDied, match=r"exit status 7; its last lines:(?s:.*)line 48\n  line 49$") as error:
        process.request({}, 30)
    assert "line 30" not in str(error.value)
    assert is_gone(process.pid)


def test_an_interruption_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next request would read the response of this one."""
    process = child(ECHO)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_exchange", interrupt)
    with pytest.raises(KeyboardInterrupt):
        process.request({}, 30)
    assert is_gone(process.pid)


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(WorkerDied, match=r"cannot start .*absent: No such file"):
        JsonLinesProcess([tmp_path / "absent"], {}, scratch)
    assert not scratch.exists()


def test_close_lets_the_child_finish_and_removes_the_scratch_folder(tmp_path: Path) -> None:
    scratch, sign = tmp_path / "scratch", tmp_path / "sign"
    scratch.mkdir()
    process = child(f"{ECHO}\nopen({str(sign)!r}, 'w').close()", scratch)
    process.request({}, 30)
    process.close(grace=30)
    assert sign.exists()
    assert not scratch.exists()
    process.close()  # a second call does nothing


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "1 / 0"])
def test_the_child_ends_with_the_program(ending: str) -> None:
    code = (
        "import os, sys\nfrom agggen_platform.srl.process import JsonLinesProcess\n"
        f"process = JsonLinesProcess([sys.executable, '-c', {ECHO!r}], dict(os.environ))\n"
        f"process.request({{}}, 30)\nprint(process.pid, flush=True)\n{ending}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert is_gone(int(done.stdout)), done.stderr
