"""Training events: the calls of the loop's callbacks as `TrainingEvent`s, with generated samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agggen.encoding import Encoder
from agggen.generation.generator import Generator, InferenceConfig
from agggen.generation.results import Generation
from agggen.model.joint import JointModel
from agggen.records import Record
from agggen.training.callbacks import Metrics, Silent
from agggen.training.loop import Trainer
from agggen.training.objectives import ObjectiveName

EventKind = Literal["log", "evaluation", "end"]


@dataclass(frozen=True)
class TrainingEvent:
    """An event of a training stage."""

    kind: EventKind
    stage: ObjectiveName
    step: int  # completed updates
    total_steps: int
    epoch: int  # completed epochs
    best_dev_loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    samples: str = ""  # of an evaluation: records with texts that the current model generates


SendEvent = Callable[[TrainingEvent], object]


@dataclass(frozen=True)
class SampleWriter:
    """Generates samples for the same records after each epoch."""

    records: Sequence[Record]
    encoder: Encoder
    inference: InferenceConfig

    def generate(self, model: JointModel, stage: ObjectiveName) -> list[Generation]:
        """The best text for each record; texts of the plain Transformer have no plan."""
        inference = replace(self.inference, ablation="plain") if stage == "baseline" else self.inference
        generator = Generator(model, self.encoder, inference)
        return [texts[0] for texts in generator.generate(self.records)] if self.records else []

    def write(self, trainer: Trainer) -> str:
        """The records with their texts, as lines."""
        lines: list[str] = []
        plain = trainer.stage == "baseline"
        for record, best in zip(self.records, self.generate(trainer.model, trainer.stage), strict=True):
            lines += [f"Record {record.id}", *(f"    {triple}" for triple in record.triples)]
            lines += [f"  {best.text}" if plain else f"  {best.plan}\n  {best.text}", ""]
        return "\n".join(lines)


class EventReporter(Silent):
    """A callback of worker 0 that sends events.

    Args:
        writer: generates the samples of evaluations; None: no samples.
    """

    def __init__(self, send: SendEvent, writer: SampleWriter | None = None) -> None:
        self.send, self.writer = send, writer

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self._send("log", trainer, metrics)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self._send("evaluation", trainer, metrics, self.writer.write(trainer) if self.writer else "")

    def on_end(self, trainer: Trainer) -> None:
        self._send("end", trainer, {})

    def _send(self, kind: EventKind, trainer: Trainer, metrics: Metrics, samples: str = "") -> None:
        now, total = trainer.progress, trainer.total_steps
        self.send(
            TrainingEvent(kind, trainer.stage, now.step, total, now.epoch, now.best_dev_loss, dict(metrics), samples)
        )
