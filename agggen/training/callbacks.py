"""How others follow training: a callback hears of updates and evaluations, and may ask the loop to stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agggen.training.loop import Trainer

Metrics = Mapping[str, float]


class Callback(Protocol):
    """What the loop tells. Setting ``trainer.stop_requested`` makes `Trainer.run` return after the current update, with
    ``progress.done`` False; a checkpoint saved then continues exactly there.
    """

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        """Every `log_every` updates: averages since the last call."""

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        """After each epoch: scores on the development set; `dev_loss` is nats a token."""

    def on_end(self, trainer: Trainer) -> None:
        """Once, after the best weights were put back."""


class Silent:
    """A callback that does nothing; a base for those that care for one event."""

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None: ...

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None: ...

    def on_end(self, trainer: Trainer) -> None: ...


class CheckpointEvery(Silent):
    """Saves the whole state of the loop to `path` at most every `seconds`, and after each evaluation."""

    def __init__(self, path: Path, seconds: float = 120.0) -> None:
        self.path, self.seconds = path, seconds
        self._saved = time.monotonic()

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        if time.monotonic() - self._saved >= self.seconds:
            self._save(trainer)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        from agggen.training.checkpoints import save_checkpoint

        save_checkpoint(self.path, trainer)
        self._saved = time.monotonic()
