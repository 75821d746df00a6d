"""Stands in for AllenNLP's worker: same protocol, a frame at each predicate, failures on demand.

Needs only the standard library. Files beside the archive record its starts and the sizes of its batches.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    archive = ""
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "start":
            archive = request["archive"]
            answer: Any = start(request)
        else:
            note(archive, "batches", len(request["sentences"]))
            results = [tag(sentence, archive) for sentence in request["sentences"]]
            failed = any("FAIL" in sentence["words"] for sentence in request["sentences"])
            answer = {"failed": "cannot tag"} if failed else {"id": request["id"], "results": results}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def start(request: dict[str, Any]) -> dict[str, Any]:
    names = ("python", "allennlp", "allennlp-models", "torch", "transformers", "spacy")
    if request["archive"] is None:
        return {"ready": {"protocol": 1, **dict.fromkeys(names, "1.0")}}
    note(request["archive"], "starts", os.getpid())
    behaviour = Path(request["archive"]).read_text()
    if behaviour == "refuse":
        return {"failed": "the archive is invalid"}
    if behaviour == "crash":
        sys.exit("cannot import allennlp: no such module")
    return {"ready": {"protocol": 1, "sha256": request["sha256"], "model": "fake", "device": request["device"]}}


def tag(sentence: dict[str, Any], archive: str) -> dict[str, Any]:
    words = sentence["words"]
    if "DIE" in words or ("ONCE" in words and not Path(archive + ".died").exists()):
        note(archive, "died", 1)
        os.kill(os.getpid(), signal.SIGKILL)
    if "HANG" in words:
        time.sleep(600)
    if "LONG" in words:
        return {"error": "the sentence has 600 word pieces, the model takes 512"}
    tags = ["X" if word == "ODD" else "O" for word in words]
    return {"frames": [{"predicate": p, "tags": [*tags[:p], "B-V", *tags[p + 1 :]]} for p in sentence["predicates"]]}


def note(archive: str, what: str, value: object) -> None:
    with Path(f"{archive}.{what}").open("a") as stream:
        stream.write(f"{value}\n")


if __name__ == "__main__":
    main()
