"""AllenNLP's environment: its folder, missing packages, child process, and the worker with fakes of the libraries."""

import ast
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from platform import python_version
from typing import Any
from unittest.mock import patch

import pytest

from agggen_platform.srl.environment import (
    PACKAGES,
    REQUIREMENTS,
    WORKER,
    AllenNLPError,
    JsonLinesProcess,
    WorkerDied,
    find_environment,
    worker_environment,
)
from agggen_platform.srl.worker import hash_of
from tests.command import Run
from tests.processes import until
from tests.unit.srl.fakes import archive, fake_environment, install_fakes, install_packages


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
        with pytest.raises(AllenNLPError, match=f"no environment for .* in {expected}; create one with `python3.10 -m"):
            find_environment()


def test_an_existing_environment_is_used_and_missing_packages_are_named(tmp_path: Path) -> None:
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


def test_an_interruption_ends_the_child() -> None:
    """Otherwise the next request would read the response of this one."""
    process = child(ECHO)
    with patch.object(process, "_exchange", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
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


# --- the worker ---


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[JsonLinesProcess]:
    command = [sys.executable, "-I", install_fakes(tmp_path / "fakes"), str(os.getpid())]
    process = JsonLinesProcess(command, dict(os.environ))
    yield process
    process.close()


def start(worker: JsonLinesProcess, path: Path | None, **options: Any) -> dict[str, Any]:
    request = {"op": "start", "archive": path and str(path), "sha256": path and hash_of(str(path))}
    return worker.request(request | {"device": "cpu", "threads": 1, "bert": None, "spacy": None} | options, 60)


def tag(worker: JsonLinesProcess, *sentences: tuple[str, list[int] | None]) -> list[Any]:
    request = [{"words": text.split(" "), "predicates": positions} for text, positions in sentences]
    return worker.request({"op": "tag", "sentences": request}, 60)["results"]


def test_the_worker_is_valid_python_3_9_and_imports_only_the_standard_library_at_its_start() -> None:
    tree = ast.parse(WORKER.read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names


def test_without_allennlp_the_missing_module_is_named() -> None:
    worker = JsonLinesProcess([sys.executable, "-I", "-S", str(WORKER), str(os.getpid())], dict(os.environ))
    assert start(worker, None)["failed"].startswith("ModuleNotFoundError: No module named 'torch'")
    worker.close()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00broken"])
def test_an_invalid_archive_is_refused(worker: JsonLinesProcess, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(content)
    assert f"{path} is not an AllenNLP archive" in start(worker, path)["failed"]


def test_a_bert_model_that_is_only_on_the_hub_is_named(worker: JsonLinesProcess, tmp_path: Path) -> None:
    path = archive(tmp_path, name="hub.tar.gz")
    assert "needs the BERT model 'bert-base-uncased'" in start(worker, path)["failed"]
    assert "is not the folder of a BERT model" in start(worker, path, bert=str(tmp_path / "absent"))["failed"]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text("{}")
    ready = start(worker, path, bert=str(tmp_path / "bert"))["ready"]
    assert ready["lowercase"] is True  # decided by the model name in the archive


def test_sentences_that_cannot_be_tagged_affect_no_other(worker: JsonLinesProcess, tmp_path: Path) -> None:
    start(worker, archive(tmp_path))
    first, boom, blank, last = tag(worker, ("a b", [0]), ("BOOM b", [0, 1]), ("a  b", [0]), ("a b c", [0, 1]))
    assert (boom["error"], blank["error"]) == ("RuntimeError: boom", "the word '' is blank")
    assert (len(first["frames"]), len(last["frames"])) == (1, 2)


def test_spacy_finds_verbs_and_auxiliaries(worker: JsonLinesProcess, tmp_path: Path) -> None:
    start(worker, archive(tmp_path), spacy="somewhere")
    (result,) = tag(worker, ("he is one who runs", None))
    assert [frame["predicate"] for frame in result["frames"]] == [1, 4]


def test_the_hash_of_a_folder_covers_its_files_and_their_names(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("c")
    before = hash_of(str(tmp_path / "a"))
    (tmp_path / "a" / "b" / "c").rename(tmp_path / "a" / "b" / "d")
    assert len({before, hash_of(str(tmp_path / "a")), hashlib.sha256(b"c").hexdigest()}) == 3
    (tmp_path / "a" / "b" / "d").rename(tmp_path / "a" / "b" / "c")
    assert hash_of(str(tmp_path / "a")) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """Even if a fork of that process keeps the pipe to its input open."""
    code = (
        "import os, sys, time\nfrom agggen_platform.srl.environment import JsonLinesProcess\n"
        f"worker = JsonLinesProcess([sys.executable, '-I', {str(WORKER)!r}, str(os.getpid())], dict(os.environ))\n"
        "pid = os.fork()\nif pid == 0: time.sleep(600); os._exit(0)\n"
        "print(worker.pid, pid, flush=True)\ntime.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker, fork = map(int, parent.stdout.readline().split())
    try:
        parent.kill()
        parent.wait()
        until(lambda: is_gone(worker) or Path(f"/proc/{worker}/stat").read_text().split()[2] == "Z", "its end", 30)
    finally:
        os.kill(fork, signal.SIGKILL)
        parent.stdout.close()
