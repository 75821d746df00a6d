"""A corpus and a configuration for jobs of about one second."""

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


def config_of(corpus: Path, **stage: Any) -> JobConfig:
    """With an invalid MLflow address, so that only the local run log is written."""
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
