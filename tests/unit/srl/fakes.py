"""Fakes of AllenNLP, torch and spaCy with which the real worker runs and fails on demand, and archives for them.

The folder of the fakes gets the files `starts`, with the process id of each worker, and `batches`, with the sizes
of the model's batches.
"""

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from agggen.facts.frames import Frame, Phrase, Tokens
from agggen_platform.srl import environment
from agggen_platform.srl.environment import PACKAGES, WORKER
from tests.unit.facts.role_notation import joined

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
    "allennlp/version.py": "VERSION = '4'",
    "allennlp/data/tokenizers.py": "Token = str",
    "allennlp/models/archival.py": """
        import json, os, pathlib, signal, time, types
        folder = pathlib.Path(__file__).parents[2]
        class Reader:
            lowercase_input = None
            def text_to_instance(self, tokens, marks):
                if "KEY" in tokens: raise KeyError("KEY")
                return {"tokens": tokens, "marks": marks}
        class Model:
            bert_model = types.SimpleNamespace(config=types.SimpleNamespace(max_position_embeddings=20))
            def eval(self): print("a library prints what it likes")
            def forward_on_instances(self, instances):
                words = {word for instance in instances for word in instance["tokens"]}
                died = folder / "died"
                if "DIE" in words or "ONCE" in words and not died.exists():
                    died.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                if "HANG" in words: time.sleep(600)
                if "BOOM" in words: raise RuntimeError("boom")
                with (folder / "batches").open("a") as batches: print(len(instances), file=batches)
                if "FAIL" in words: return [{} for _ in instances]
                return [{"tags": list(map(self.tag, i["tokens"], i["marks"]))} for i in instances]
            def tag(self, word, mark): return "B-V" if mark else "X" if word == "ODD" else "O"
        def load_archive(path, cuda_device, overrides):
            print(overrides)
            if "crash" in path: raise SystemExit("cannot load: no such module")
            if "model.bert_model" not in json.loads(overrides) and "hub" in path: raise OSError("cannot reach the hub")
            return types.SimpleNamespace(model=Model(), validation_dataset_reader=Reader())
    """,
    "allennlp_models/version.py": "VERSION = '5'",
    "allennlp_models/structured_prediction.py": "",
}
LAUNCHER = """
import os, runpy, sys
with open({folder!r} + "/starts", "a") as starts: print(os.getpid(), file=starts)
sys.path.insert(0, {folder!r})
runpy.run_path({worker!r}, run_name="__main__")
"""


class Verbs:
    """A frame source whose predicates are the given words."""

    name = "verbs"

    def __init__(self, *verbs: str, fingerprint: str = "verbs-1") -> None:
        self.verbs, self.fingerprint = verbs, fingerprint

    def frames(self, sentences: Sequence[Tokens]) -> list[tuple[Frame, ...]]:
        return [
            tuple(Frame(i, (Phrase("V", i, i + 1),)) for i, word in enumerate(sentence.words) if word in self.verbs)
            for sentence in sentences
        ]


def words(text: str) -> Tokens:
    return joined(text.split())


def install_fakes(folder: Path) -> Path:
    """Writes the fakes into the folder; returns the program that runs the worker with them."""
    for name, code in LIBRARIES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(code))
    (folder / "launcher.py").write_text(LAUNCHER.format(folder=str(folder), worker=str(WORKER)))
    return folder / "launcher.py"


def archive(folder: Path, kind: str = "srl_bert", name: str = "model.tar.gz") -> Path:
    reader = {"bert_model_name": "bert-base-uncased"} if kind == "srl_bert" else {}
    config = json.dumps({"dataset_reader": reader, "model": {"type": kind}, "name": name}).encode()
    # Without mtime=0, the digest would depend on the second in which the archive is written.
    with gzip.GzipFile(folder / name, "wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as stream:
        member = tarfile.TarInfo("config.json")
        member.size = len(config)
        stream.addfile(member, io.BytesIO(config))
    return folder / name


def install_packages(folder: Path, names: Sequence[str] = PACKAGES, version: str = "1.0") -> None:
    for name in names:
        about = folder / "lib" / "python3.10" / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('-', '_')}\nVersion: {version}\n")


def fake_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is recognised as AllenNLP's environment; its workers use the fakes."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    install_packages(folder)
    monkeypatch.setattr(environment, "WORKER", install_fakes(folder / "fakes"))
    return folder
