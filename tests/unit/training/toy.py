"""A corpus and a configuration for jobs of a second, and a preset with longer epochs."""

import json
from pathlib import Path
from typing import Any

from agggen.config import as_overrides, load_config
from agggen.corpora.prepared import write_records
from agggen.records import Record
from agggen_platform.job_config import JobConfig

NAMES = ("Aromi", "Café Zoë", "Mill", "Blue Door", "Zizzi", "Żubr", "Fitzbillies", "The Vaults", "Cotto", "Strada")
STAGE = {"epochs": 2, "learning_rate": 5e-3, "warmup": 2, "max_records": 3, "log_every": 1, "patience": 9}
SETTINGS: dict[str, Any] = {
    "facts": {"source": "sentences"},
    "text": {"min_count": 1},
    "model": {"width": 8, "heads": 2, "layers": 1, "feed_forward": 8, "predicate_dim": 4},
    "training": {"threads": 1, "device": "cpu", "baseline": STAGE, "joint": STAGE},
    "inference": {"plans": 1, "beam": {"beam": 1, "max_fact_tokens": 6}},
}


def record(name: str, food: str = "Thai") -> Record:
    text = f"{name} serves {food} food. It is in the city."
    return Record.of({"id": name, "triples": [[name, "food", food], [name, "area", "city"]], "references": [text]})


RECORDS = [record(name, food) for name, food in zip(NAMES, ("Thai", "English", "Polish") * 4, strict=False)]


def write_corpus(folder: Path, train: list[Record] = RECORDS[:8], dev: list[Record] = RECORDS[8:]) -> Path:
    folder.mkdir(parents=True)
    write_records(folder / "train.parquet", train, "toy", "train")
    write_records(folder / "dev.parquet", dev, "toy", "dev")
    return folder


TINY = [
    *("corpus.limit=60", "training.threads=1", "training.baseline.epochs=1", "training.joint.epochs=1"),
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16"),
    *("training.baseline.warmup=1", "training.joint.warmup=1", "tracking.system_seconds=0", "tracking.samples=1"),
    *("inference.beam.beam=1", "inference.beam.max_fact_tokens=12"),
]
"""Overrides with which training on a preset takes seconds."""


def write_preset(folder: Path, copies: int = 20) -> Path:
    """Writes ``toy.yaml`` and its corpus of ten times `copies` records; returns the preset's path.

    The epochs are long and the updates small, so that a job can be interrupted in the middle of one.
    """
    records = [record(f"{name} {number}") for number in range(copies) for name in NAMES]
    corpus = write_corpus(folder / "toy", records, records[:4])
    stage = {"warmup": 10, "max_records": 2, "log_every": 1}
    stages = {"baseline": stage | {"epochs": 3}, "joint": stage | {"epochs": 1}}
    settings = SETTINGS | {
        "corpus": {"name": str(corpus)},
        "model": {"width": 16, "heads": 2, "layers": 1, "feed_forward": 16, "predicate_dim": 8, "dropout": 0.2},
        "training": {"threads": 1, "device": "cpu", **stages},
        "storage": {"checkpoint_seconds": 0.2},
        "tracking": {"uri": "nonsense://x", "samples": 0, "system_seconds": 0},
    }
    preset = folder / "toy.yaml"
    preset.write_text(json.dumps(settings))
    return preset


def config_of(corpus: Path, **stage: Any) -> JobConfig:
    """A job on `corpus`; its invalid tracking URI disables MLflow, so only the run log is written."""
    settings = SETTINGS | {
        "corpus": {"name": str(corpus)},
        "training": SETTINGS["training"] | dict.fromkeys(("baseline", "joint"), STAGE | stage),
        "storage": {"checkpoint_seconds": 0.0},
        "tracking": {"uri": "nonsense://x", "samples": 1, "system_seconds": 0},
    }
    return load_config(JobConfig, None, as_overrides(settings))
