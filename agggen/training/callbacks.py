"""Callbacks of the training loop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agggen.training.loop import Trainer

Metrics = Mapping[str, float]


class Callback:
    """Base class: receives the events of the loop.

    If a callback sets ``trainer.stop_requested`` on any worker, `Trainer.run` returns on all workers after the current
    update, with ``progress.done`` False.
    """

    def on_update(self, trainer: Trainer) -> None:
        """Called after every update."""

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        """Called every `log_every` updates, with means since the last call."""

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        """Called after each epoch, with scores on the development set; `dev_loss` is in nats per scored position."""

    def on_end(self, trainer: Trainer) -> None:
        """Called at the end of the stage, after the best weights were restored."""


class Checkpointer(Protocol):
    """Saves and restores checkpoints."""

    def restore(self, trainer: Trainer) -> bool:
        """Restores the newest checkpoint of the trainer's stage on every worker; False if there is none."""

    def save(self, trainer: Trainer) -> None:
        """Saves the trainer's state. Called by worker 0 only."""


class CheckpointEvery(Callback):
    """Saves a checkpoint at least `seconds` after the last checkpoint, and after each evaluation."""

    def __init__(self, checkpointer: Checkpointer, seconds: float = 120.0) -> None:
        self.checkpointer, self.seconds = checkpointer, seconds
        self._saved = time.monotonic()

    def on_update(self, trainer: Trainer) -> None:
        if time.monotonic() - self._saved >= self.seconds:
            self._save(trainer)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        if trainer.group.rank == 0:
            self.checkpointer.save(trainer)
        self._saved = time.monotonic()
