"""`agggen srl train` and `evaluate` on a toy treebank."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agggen.facts.tagger.store import load_tagger
from agggen_platform.cli.main import app

LINE = {
    "words": ["Bo", "sees", "Al", "."],
    "xpos": ["NNP", "VBZ", "NNP", "."],
    "upos": ["PROPN", "VERB", "PROPN", "PUNCT"],
    "parse": ["(TOP(S(NP*)", "(VP*", "(NP*))", "*))"],
    "preds": [[1, "see", "see.01"]],
    "frames": [["B-ARG0", "B-V", "B-ARG1", "O"]],
}
SMALL = ["epochs=1", "rarest_role=1", "model.hidden=4", "model.role=4", "model.role_hidden=4"]


@pytest.fixture
def treebank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data home whose train part has one bad line."""
    folder = tmp_path / "home" / "propbank_ewt"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        lines = [json.dumps(LINE)] * 20 + (["no json"] if split == "train" else [])
        with gzip.open(folder / f"{split}.jsonl.gz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_tagger_is_trained_written_and_scored(treebank: Path) -> None:
    out = treebank / "tagger"
    trained = CliRunner().invoke(app, ["srl", "train", "--out", str(out), *SMALL])
    assert trained.exit_code == 0, trained.output
    assert "1 of 21 lines of train cannot be read" in trained.stderr
    assert "PropBank EWT test predicates" in trained.stdout
    tagger = load_tagger(out)
    assert tagger.training["sentences"] == 40
    assert set(tagger.metrics) == {"test_predicates", "test_labelled", "test_unlabelled"}
    frames = treebank / "srl.txt"
    verbs = [{"verb": "sees", "tags": LINE["frames"][0]}]  # type: ignore[index]
    frames.write_text(json.dumps([{"words": LINE["words"], "verbs": verbs}] * 2) + "\n")
    command = ["srl", "evaluate", "--tagger", str(out), "--split", "none", "--allennlp", str(frames)]
    scored = CliRunner().invoke(app, command)
    assert scored.exit_code == 0, scored.output
    rows = dict(line.split("\t", 1) for line in scored.stdout.splitlines())
    assert rows["AllenNLP predicates"].endswith("\t2")
    assert rows["AllenNLP boundaries"] == "1.0000\t1.0000\t1.0000\t1", "two sentences have a boundary between them"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--split", "none"], "nothing to score"),
        (["evaluate", "--split", "tset"], "there are train, dev, test"),
        (["evaluate", "--split", "none", "--allennlp", "nowhere.txt"], "nowhere.txt"),
        (["train", "--out", "x", "epoch=3"], "epochs"),
    ],
)
def test_wrong_input_is_named(treebank: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["srl", *arguments])
    assert result.exit_code != 0
    assert message in str(result.exception)
