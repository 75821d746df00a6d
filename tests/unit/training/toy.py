"""A corpus and a configuration with which a job takes a second, and a preset with longer epochs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from agggen.corpora.prepared import write_records
from agggen.generation.config import BeamConfig
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import ModelConfig
from agggen.records import Record
from agggen.run import CorpusConfig, FactsConfig, TextConfig, TrainingConfig
from agggen.training.loop import StageConfig
from agggen_platform.job_config import JobConfig, StorageConfig, TrackingConfig

NAMES = ("Aromi", "Café Zoë", "Mill", "Blue Door", "Zizzi", "Żubr", "Fitzbillies", "The Vaults", "Cotto", "Strada")
STAGE = StageConfig(epochs=2, learning_rate=5e-3, warmup=2, max_records=3, log_every=1, patience=9)


def record(name: str, food: str = "Thai") -> Record:
    text = f"{name} serves {food} food. It is in the city."
    return Record.of({"id": name, "triples": [[name, "food", food], [name, "area", "city"]], "references": [text]})


RECORDS = [record(name, food) for name, food in zip(NAMES, ("Thai", "English", "Polish") * 4, strict=False)]


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    write_records(folder / "train.parquet", RECORDS[:8], "toy", "train")
    write_records(folder / "dev.parquet", RECORDS[8:], "toy", "dev")
    return folder


TINY = [
    *("corpus.limit=60", "training.threads=1", "training.baseline.epochs=1", "training.joint.epochs=1"),
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16"),
    *("training.baseline.warmup=1", "training.joint.warmup=1", "tracking.system_seconds=0", "tracking.samples=1"),
    *("inference.beam.beam=1", "inference.beam.max_fact_tokens=12"),
]
"""Overrides that reduce the training of a preset to seconds."""

# Long epochs of small updates, so that a job can be interrupted in the middle of one.
PRESET = """\
corpus: {name: CORPUS}
facts: {source: sentences}
text: {min_count: 1}
model: {width: 16, heads: 2, layers: 1, feed_forward: 16, predicate_dim: 8, dropout: 0.2}
training:
  threads: 1
  device: cpu
  baseline: {epochs: 3, warmup: 10, max_records: 2, log_every: 1}
  joint: {epochs: 1, warmup: 10, max_records: 2, log_every: 1}
inference: {plans: 1, beam: {beam: 1, max_fact_tokens: 6}}
storage: {checkpoint_seconds: 0.2}
tracking: {uri: "nonsense://x", samples: 0, system_seconds: 0}
"""


def write_preset(folder: Path, copies: int = 20) -> Path:
    """Writes ``toy.yaml`` with `PRESET`, and its corpus of ten times `copies` records; returns the preset's path."""
    corpus = folder / "toy"
    corpus.mkdir(parents=True)
    records = [record(f"{name} {number}") for number in range(copies) for name in NAMES]
    write_records(corpus / "train.parquet", records, "toy", "train")
    write_records(corpus / "dev.parquet", records[:4], "toy", "dev")
    preset = folder / "toy.yaml"
    preset.write_text(PRESET.replace("CORPUS", str(corpus)))
    return preset


def config_of(corpus: Path, **stage: Any) -> JobConfig:
    """Its MLflow cannot exist, which costs no time: only the run log is written."""
    settings = replace(STAGE, **stage)
    return JobConfig(
        corpus=CorpusConfig(name=str(corpus)),
        facts=FactsConfig(source="sentences"),
        text=TextConfig(min_count=1),
        model=ModelConfig(width=8, heads=2, layers=1, feed_forward=8, predicate_dim=4, dropout=0.2),
        training=TrainingConfig(threads=1, device="cpu", baseline=settings, joint=settings),
        inference=InferenceConfig(plans=1, beam=BeamConfig(beam=1, max_fact_tokens=6)),
        storage=StorageConfig(checkpoint_seconds=0.0),
        tracking=TrackingConfig(uri="nonsense://x", samples=1, system_seconds=0.0),
    )
