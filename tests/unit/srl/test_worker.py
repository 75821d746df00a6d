"""The worker itself, with stand-ins for AllenNLP, torch and spaCy."""

import ast
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.srl.environment import WORKER
from agggen_platform.srl.process import JsonLinesProcess
from agggen_platform.srl.worker import PROTOCOL, hash_of
from tests.processes import until
from tests.unit.srl.test_process import is_gone

LIBRARIES = {
    "torch/__init__.py": """
        __version__ = "1"
        class ones:
            def __init__(self, size): pass
            def numpy(self): pass
        def set_num_threads(number): print("threads", number)
    """,
    "transformers/__init__.py": "__version__ = '2'",
    "spacy/__init__.py": """
        __version__ = "3"
        class Word:
            def __init__(self, i, pos): self.i, self.pos_ = i, pos
        class load:
            def __init__(self, path): self.vocab, self.pipeline = None, [("tagger", self.tag)]
            def tag(self, words): return [Word(i, {"is": "AUX", "runs": "VERB"}.get(w)) for i, w in enumerate(words)]
    """,
    "spacy/tokens.py": "def Doc(vocab, words): return words",
    "allennlp/__init__.py": "",
    "allennlp/version.py": "VERSION = '4'",
    "allennlp/data/__init__.py": "",
    "allennlp/data/tokenizers.py": "Token = str",
    "allennlp/models/__init__.py": "",
    "allennlp/models/archival.py": """
        import json, types
        class Reader:
            lowercase_input = None
            def text_to_instance(self, tokens, marks):
                if "KEY" in tokens: raise KeyError("KEY")
                return {"tokens": tokens, "marks": marks}
        class Model:
            bert_model = types.SimpleNamespace(config=types.SimpleNamespace(max_position_embeddings=20))
            sizes = []
            def eval(self): print("a library prints what it likes")
            def forward_on_instances(self, instances):
                if any("BOOM" in instance["tokens"] for instance in instances): raise RuntimeError("boom")
                self.sizes.append(len(instances))
                return [{"tags": ["B-V" if mark else f"B-{len(self.sizes)}" for mark in i["marks"]]} for i in instances]
        def load_archive(path, cuda_device, overrides):
            print(overrides)
            if "model.bert_model" not in json.loads(overrides) and "hub" in path: raise OSError("cannot reach the hub")
            return types.SimpleNamespace(model=Model(), validation_dataset_reader=Reader())
    """,
    "allennlp_models/__init__.py": "",
    "allennlp_models/version.py": "VERSION = '5'",
    "allennlp_models/structured_prediction.py": "",
}


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    for name, code in LIBRARIES.items():
        path = tmp_path / "libraries" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = code.strip("\n").split("\n")
        indent = len(lines[0]) - len(lines[0].lstrip())
        path.write_text("\n".join(line[indent:] for line in lines))
    return tmp_path / "libraries"


@pytest.fixture
def worker(libraries: Path) -> Iterator[JsonLinesProcess]:
    code = f"import runpy, sys; sys.path.insert(0, {str(libraries)!r}); sys.argv = ['worker.py']\n"
    code += f"runpy.run_path({str(WORKER)!r}, run_name='__main__')"
    process = JsonLinesProcess([sys.executable, "-I", "-c", code], dict(os.environ))
    yield process
    process.close()


def archive(folder: Path, kind: str = "srl_bert", name: str = "model.tar.gz", prefix: str = "") -> Path:
    reader = {"bert_model_name": "bert-base-uncased"} if kind == "srl_bert" else {}
    config = json.dumps({"dataset_reader": reader, "model": {"type": kind}}).encode()
    path = folder / name
    with tarfile.open(path, "w:gz") as stream:
        member = tarfile.TarInfo(f"{prefix}config.json")
        member.size = len(config)
        stream.addfile(member, io.BytesIO(config))
    return path


def start(worker: JsonLinesProcess, path: Path | None, **options: Any) -> dict[str, Any]:
    request = {
        "op": "start",
        "protocol": PROTOCOL,
        "archive": path and str(path),
        "sha256": path and hash_of(str(path)),
    }
    return worker.ask(request | {"device": "cpu", "threads": 1, "bert": None, "spacy": None} | options, 60)


def tag(worker: JsonLinesProcess, *sentences: tuple[str, list[int] | None]) -> list[Any]:
    request = [{"words": text.split(" "), "predicates": positions} for text, positions in sentences]
    return worker.ask({"op": "tag", "id": 7, "sentences": request}, 60)["results"]


def test_it_is_valid_python_3_9() -> None:
    ast.parse(WORKER.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_it_imports_only_the_standard_library_at_its_start() -> None:
    tree = ast.parse(WORKER.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names


def test_without_allennlp_the_missing_module_is_named() -> None:
    worker = JsonLinesProcess([sys.executable, "-I", "-S", str(WORKER)], dict(os.environ))
    assert start(worker, None)["failed"].startswith("ModuleNotFoundError: No module named 'torch'")
    worker.close()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00broken"])
def test_an_invalid_archive_is_refused(worker: JsonLinesProcess, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(content)
    assert f"{path} is not an AllenNLP archive" in start(worker, path)["failed"]


def test_an_archive_of_another_model_is_refused(worker: JsonLinesProcess, tmp_path: Path) -> None:
    assert "a model of type 'coref'" in start(worker, archive(tmp_path, "coref"))["failed"]


def test_a_bert_model_that_is_only_on_the_hub_is_named(worker: JsonLinesProcess, tmp_path: Path) -> None:
    path = archive(tmp_path, name="hub.tar.gz")
    assert "needs the BERT model 'bert-base-uncased'" in start(worker, path)["failed"]
    assert "is not a folder of a BERT model" in start(worker, path, bert=str(tmp_path / "absent"))["failed"]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text("{}")
    ready = start(worker, path, bert=str(tmp_path / "bert"))["ready"]
    assert ready["lowercase"] is True  # by the model's name in the archive, not by the folder's


def test_sentences_are_tagged_in_batches_and_returned_in_order(worker: JsonLinesProcess, tmp_path: Path) -> None:
    start(worker, archive(tmp_path))
    several, none, last = tag(worker, ("a b c d", [3, 1]), ("no verb", []), ("x y", [0]))
    assert [frame["predicate"] for frame in several["frames"]] == [1, 3]
    assert several["frames"][0]["tags"] == ["B-1", "B-V", "B-1", "B-1"]
    assert none == {"frames": []}
    assert last == {"frames": [{"predicate": 0, "tags": ["B-V", "B-1"]}]}  # there was only one batch


@pytest.mark.parametrize(
    ("text", "positions", "reason"),
    [
        ("x " * 20 + "y", [0], "the sentence has 21 word pieces, the model takes 20"),
        ("KEY b", [1], "KeyError: 'KEY'"),
        ("BOOM b", [0, 1], "RuntimeError: boom"),
        ("a  b", [0], "the word '' is blank"),
        ("a b", [2], "there is no word 2 in a sentence of 2"),
        ("a b", None, "the request has no predicates, and there is no spaCy model to find them"),
    ],
)
def test_a_sentence_that_cannot_be_tagged_affects_no_other(
    worker: JsonLinesProcess, tmp_path: Path, text: str, positions: list[int] | None, reason: str
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
def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    """Even though a fork of that process holds the other end of its input open."""
    code = (
        "import os, sys, time\nfrom agggen_platform.srl.process import JsonLinesProcess\n"
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
