"""AllenNLP's environment: its folder, missing packages, the commands that check it; the child process."""

import os
import subprocess
import sys
from pathlib import Path
from platform import python_version

import pytest

from agggen_platform.srl.environment import (
    PACKAGES,
    REQUIREMENTS,
    AllenNLPError,
    JsonLinesProcess,
    WorkerDied,
    find_environment,
    worker_environment,
)
from tests.command import Run
from tests.unit.srl.fakes import archive, fake_environment, install_packages


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("AGGGEN_SRL_ENV", "AGGGEN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


def test_the_folder_is_in_the_cache_by_default(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, expected in (
        ("UNUSED", "", empty_machine / ".cache" / "agggen" / "srl-env"),
        ("XDG_CACHE_HOME", "/xdg", "/xdg/agggen/srl-env"),
        ("AGGGEN_CACHE", "/cache", "/cache/srl-env"),
        ("AGGGEN_SRL_ENV", "~/there", empty_machine / "there"),
    ):
        monkeypatch.setenv(name, value)
        with pytest.raises(AllenNLPError, match=f"no environment for AllenNLP in {expected}; create one with"):
            find_environment()


def test_an_existing_environment_is_used_and_missing_packages_are_named(tmp_path: Path) -> None:
    with pytest.raises(AllenNLPError, match=r"no environment for AllenNLP in .*/none; create one with `python3.10 -m"):
        find_environment(tmp_path / "none")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    install_packages(tmp_path, [name for name in PACKAGES if name != "allennlp-models"])
    with pytest.raises(AllenNLPError, match="lacks allennlp-models; create one"):
        find_environment(tmp_path)
    install_packages(tmp_path)
    result = find_environment(tmp_path)
    assert (result.python, result.versions) == (python, dict.fromkeys(PACKAGES, "1.0"))


def test_the_requirements_pin_what_an_environment_needs() -> None:
    pinned = {line.partition("==")[0] for line in REQUIREMENTS.read_text().splitlines()}
    assert set(PACKAGES) <= pinned


def test_the_worker_gets_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "RAY_AUTH_TOKEN_PATH", "PYTHONPATH", "HF_TOKEN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    env = worker_environment(tmp_path, online=False)
    assert "secret" not in env.values()
    assert env["OMP_NUM_THREADS"] == "1"
    assert (env["TMPDIR"], env["HF_HUB_OFFLINE"]) == (str(tmp_path), "1")
    assert "HF_HUB_OFFLINE" not in worker_environment(tmp_path, online=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGGGEN_SRL_ENV", str(tmp_path / "env"))
    return fake_environment(tmp_path / "env", monkeypatch)


def test_check_prints_the_versions_of_the_environment(folder: Path, run: Run) -> None:
    code, out, err = run("srl", "check")
    assert (code, err) == (0, f"AllenNLP works in {folder}\n")
    assert out.splitlines()[:3] == ["package\tversion", f"python\t{python_version()}", "allennlp\t4"]
    code, _, err = run("srl", "check", "--dir", "/absent")
    assert code == 2 and "no environment for AllenNLP in /absent; create one" in err


@pytest.mark.usefixtures("folder")
def test_an_archive_is_tried_on_a_text(tmp_path: Path, run: Run) -> None:
    command = ("facts", "inspect", "Ada wrote it.", "--facts", "allennlp")
    code, _, err = run(*command, "facts.allennlp.archive=absent.tar.gz")
    assert code == 2 and "absent.tar.gz does not exist" in err
    code, out, _ = run(*command, f"facts.allennlp.archive={archive(tmp_path)}")
    assert code == 0 and "(S Ada wrote it .)" in out


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
        "import os, sys\nfrom agggen_platform.srl.environment import JsonLinesProcess\n"
        f"process = JsonLinesProcess([sys.executable, '-c', {ECHO!r}], dict(os.environ))\n"
        f"process.request({{}}, 30)\nprint(process.pid, flush=True)\n{ending}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert is_gone(int(done.stdout)), done.stderr
