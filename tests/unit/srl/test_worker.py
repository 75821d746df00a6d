"""The worker, with fakes of AllenNLP, torch and spaCy."""

import ast
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.srl.environment import WORKER, JsonLinesProcess
from agggen_platform.srl.worker import hash_of
from tests.processes import until
from tests.unit.srl.fakes import archive, install_fakes
from tests.unit.srl.test_environment import is_gone


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


@pytest.mark.parametrize(
    ("text", "positions", "reason"),
    [
        ("x " * 20 + "y", [0], "the sentence has 21 word pieces, but the model's maximum is 20"),
        ("KEY b", [1], "KeyError: 'KEY'"),
        ("BOOM b", [0, 1], "RuntimeError: boom"),
        ("a  b", [0], "the word '' is blank"),
    ],
)
def test_a_sentence_that_cannot_be_tagged_affects_no_other(
    worker: JsonLinesProcess, tmp_path: Path, text: str, positions: list[int], reason: str
) -> None:
    start(worker, archive(tmp_path))
    first, bad, last = tag(worker, ("a b", [0]), (text, positions), ("a b c", [0, 1]))
    assert bad == {"error": reason}
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
