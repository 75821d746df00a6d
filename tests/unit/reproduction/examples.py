"""Run records with example scores, and a table of a toy corpus that is trained and evaluated in seconds."""

import json
from dataclasses import replace
from pathlib import Path

from agggen.config import flatten, resolved
from agggen.corpora.prepared import write_records
from agggen.evaluation.published import Board, PublishedSystem
from agggen.generation.generator import InferenceConfig
from agggen_platform.reproduction.records import RunRecord, Score
from agggen_platform.reproduction.tables import Recipe, Table, table_of_texts
from tests.unit.training.toy import RECORDS, config_of, write_corpus

INPUTS = 3


def toy_table(folder: Path) -> Table:
    """A table whose models are trained on eight records and tested on three."""
    corpus = write_corpus(folder / "toy")
    tests = [replace(record, id=f"test-{record.id}") for record in RECORDS[:INPUTS]]
    write_records(corpus / "test.parquet", tests, "toy", "test")
    preset = folder / "tiny.json"
    preset.write_text(json.dumps(resolved(config_of(corpus))), encoding="utf-8")
    return example_table(str(corpus), str(preset))


def example_table(corpus: str = "toy", preset: str = "tiny", extra: tuple[str, ...] = ()) -> Table:
    """A table of our systems and two published ones, one with the name of one of ours."""
    published = (
        PublishedSystem("Elsewhere", {"bleu": 61.5, "chrf": 70.25}, "Somebody 2020"),
        PublishedSystem("AggGen", {"bleu": 58.5}, "The paper, table 1", 3),
    )
    board = Board(corpus, "test", INPUTS, "toy", "plain", "by hand", published)
    return table_of_texts("toy", "A toy", Recipe("toy", corpus, preset), board, extra)


def toy_record(system: str = "agggen", seed: int = 1, bleu: float = 50.0, chrf: float | str = 60.0) -> RunRecord:
    """A record of the toy table; a string instead of a score is the reason why it is missing."""
    scores = {
        f"plain/{name}": Score(value, (value - 1, value + 1), f"{name}|v1")
        if isinstance(value, float)
        else Score(reason=value)
        for name, value in (("bleu", bleu), ("chrf", chrf))
    }
    settings = flatten(InferenceConfig())
    return RunRecord(system, seed, ("tiny",), "c0", INPUTS, "plain", f"b{seed}", settings, scores)
