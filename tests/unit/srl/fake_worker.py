"""Stands in for AllenNLP's worker: speaks its protocol, finds a frame at each predicate, misbehaves on demand.

Needs nothing but the standard library. Beside the archive it notes its starts and the sizes of its batches.
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
        question = json.loads(line)
        if question["op"] == "start":
            archive = question["archive"]
            answer: Any = start(question)
        else:
            note(archive, "batches", len(question["sentences"]))
            results = [tag(sentence, archive) for sentence in question["sentences"]]
            failed = any("FAIL" in sentence["words"] for sentence in question["sentences"])
            answer = {"failed": "out of order"} if failed else {"id": question["id"], "results": results}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def start(question: dict[str, Any]) -> dict[str, Any]:
    names = ("python", "allennlp", "allennlp-models", "torch", "transformers", "spacy")
    if question["archive"] is None:
        return {"ready": {"protocol": 1, **dict.fromkeys(names, "1.0")}}
    note(question["archive"], "starts", os.getpid())
    demand = Path(question["archive"]).read_text()
    if demand == "refuse":
        return {"failed": "the archive is of cheese"}
    if demand == "crash":
        sys.exit("cannot import allennlp: no such cheese")
    return {"ready": {"protocol": 1, "sha256": question["sha256"], "model": "fake", "device": question["device"]}}


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
