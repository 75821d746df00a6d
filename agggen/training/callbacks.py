"""How others follow training: a callback hears of updates and evaluations, and may ask the loop to stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agggen.training.loop import Trainer

Metrics = Mapping[str, float]


class Callback(Protocol):
    """What the loop tells. Setting ``trainer.stop_requested`` makes `Trainer.run` return after the current update, with
    ``progress.done`` False; a checkpoint saved then continues exactly there. One worker that sets it stops them all.
    """

    def on_update(self, trainer: Trainer) -> None:
        """After every update."""

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        """Every `log_every` updates: averages since the last call."""

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        """After each epoch: scores on the development set; `dev_loss` is nats a token."""

    def on_end(self, trainer: Trainer) -> None:
        """Once, after the best weights were put back."""


class Silent:
    """A callback that does nothing; a base for those that care for one event."""

    def on_update(self, trainer: Trainer) -> None: ...

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None: ...

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None: ...

    def on_end(self, trainer: Trainer) -> None: ...


class Keeper(Protocol):
    """Where checkpoints are kept: in a folder (`checkpoints.FileKeeper`), or in a store that all workers reach."""

    def restore(self, trainer: Trainer) -> bool:
        """Puts `trainer` where the newest checkpoint of its stage left off; False if there is none. All workers call
        it at once, and get the same checkpoint.
        """

    def save(self, trainer: Trainer) -> None:
        """Keeps the trainer's whole state. Only worker 0 calls it."""


class CheckpointEvery(Silent):
    """Saves the whole state of the loop after the first update that is `seconds` later, and after each evaluation."""

    def __init__(self, keeper: Keeper, seconds: float = 120.0) -> None:
        self.keeper, self.seconds = keeper, seconds
        self._saved = time.monotonic()

    def on_update(self, trainer: Trainer) -> None:
        if time.monotonic() - self._saved >= self.seconds:
            self._save(trainer)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        if trainer.group.rank == 0:
            self.keeper.save(trainer)
        self._saved = time.monotonic()
