"""What training tells the job about itself: plain data, because the two may be different machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agggen.encoding import Encoder
from agggen.generation.generator import Generator, InferenceConfig
from agggen.records import Record
from agggen.training.callbacks import Metrics, Silent
from agggen.training.loop import Trainer
from agggen.training.objectives import ObjectiveName


@dataclass(frozen=True)
class News:
    """Something happened in a stage."""

    kind: Literal["log", "evaluation", "end"]
    stage: ObjectiveName
    step: int  # updates made
    total_steps: int
    epoch: int  # whole ones
    best_dev_loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    samples: str = ""  # of an evaluation: records, and what is written about them by now


Send = Callable[[News], bool]
"""Hears news, and says whether training should stop."""


@dataclass(frozen=True)
class Writer:
    """Writes about the same few records after each epoch."""

    records: Sequence[Record]
    encoder: Encoder
    inference: InferenceConfig

    def write(self, trainer: Trainer) -> str:
        """Each record, and its text under the plan that the model finds best; a plain Transformer has no plans."""
        if not self.records:
            return ""
        plain = trainer.stage == "baseline"
        inference = replace(self.inference, ablation="plain") if plain else self.inference
        written = Generator(trainer.model, self.encoder, inference).generate(self.records)
        lines: list[str] = []
        for record, generations in zip(self.records, written, strict=True):
            best = generations[0]
            lines += [f"Record {record.id}", *(f"    {triple}" for triple in record.triples)]
            lines += [f"  {best.text}" if plain else f"  {best.plan}\n  {best.text}", ""]
        return "\n".join(lines)


class Reporter(Silent):
    """A callback of worker 0 that sends news."""

    def __init__(self, send: Send, writer: Writer) -> None:
        self.send, self.writer = send, writer

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self._send("log", trainer, metrics)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self._send("evaluation", trainer, metrics, self.writer.write(trainer))

    def on_end(self, trainer: Trainer) -> None:
        self._send("end", trainer, {})

    def _send(
        self, kind: Literal["log", "evaluation", "end"], trainer: Trainer, metrics: Metrics, samples: str = ""
    ) -> None:
        at = trainer.progress
        news = News(
            kind, trainer.stage, at.step, trainer.total_steps, at.epoch, at.best_dev_loss, dict(metrics), samples
        )
        trainer.stop_requested |= self.send(news)
