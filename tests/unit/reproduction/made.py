"""Run records with made-up numbers, and a table of a toy corpus that is trained and evaluated in seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from agggen.corpora.prepared import write_records
from agggen.evaluation.published import Board, Published
from agggen.generation.generator import InferenceConfig
from agggen_platform.config import config_hash, flatten, resolved
from agggen_platform.reproduction.records import RunRecord, Value
from agggen_platform.reproduction.tables import Recipe, Table, of_board
from tests.unit.training.toy import RECORDS, config_of, write_corpus

INPUTS = 3


def toy_table(folder: Path) -> Table:
    """Trained on eight records, tested on three."""
    corpus = write_corpus(folder / "toy")
    tests = [replace(record, id=f"test-{record.id}") for record in RECORDS[:INPUTS]]
    write_records(corpus / "test.parquet", tests, "toy", "test")
    preset = folder / "tiny.json"
    preset.write_text(json.dumps(resolved(config_of(corpus))), encoding="utf-8")
    return of_board("toy", "A toy", Recipe("toy", str(corpus), str(preset)), board(str(corpus)))


def board(corpus: str = "toy") -> Board:
    """Two published systems, one of which is one of ours too."""
    systems = (
        Published("Elsewhere", {"bleu": 61.5, "chrf": 70.25}, "Somebody 2020"),
        Published("AggGen", {"bleu": 58.5}, "The paper, table 1", 3),
    )
    return Board(corpus, "test", INPUTS, "toy", "plain", "by hand", systems)


def record(system: str = "agggen", seed: int = 1, table: str = "toy", **more: object) -> RunRecord:
    """A record of the toy's table; `bleu` and `chrf` are its scores."""
    config = InferenceConfig()
    bleu, chrf = more.pop("bleu", 50.0), more.pop("chrf", 60.0)
    scores = {
        f"plain/{name}": Value(value, (value - 1, value + 1), f"{name}|v1")
        if isinstance(value, float)
        else Value(None, reason=str(value))
        for name, value in (("bleu", bleu), ("chrf", chrf))
    }
    made = RunRecord(
        table=table,
        system=system,
        seed=seed,
        commands=("agggen train tiny",),
        recipe=("tiny",),
        corpus="toy",
        split="test",
        inputs=INPUTS,
        corpus_fingerprint="c0",
        protocol="plain",
        bundle=f"b{seed}",
        sources={"toy/train": "t0"},
        training="h",
        inference=config_hash(config),
        settings=flatten(config),
        dev={"joint.dev_loss": 1.5},
        environment={"torch": "2"},
        finished="2026-11-22 12:00:00 UTC",
        scores=scores,
    )
    return replace(made, **more)  # type: ignore[arg-type]
