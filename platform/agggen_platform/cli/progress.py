"""How training looks: a live bar with the numbers that matter on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agggen.training.callbacks import Callback, Metrics, Silent
from agggen.training.loop import Trainer
from agggen.training.objectives import ObjectiveName
from agggen_platform.cli import console

_TITLES = {"baseline": "Transformer", "joint": "joint model"}


class _Lines(Silent):
    """One line an evaluation, and one every half minute in between."""

    def __init__(self, stage: ObjectiveName) -> None:
        self.title, self.said, self.train_loss = _TITLES[stage], time.monotonic(), ""

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self.train_loss = f"  train loss {metrics['train_loss']:.3f}"
        if time.monotonic() - self.said >= 30:
            self._say(trainer, f"epoch {metrics['epoch']:.2f}{self.train_loss}", metrics)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        line = f"epoch {trainer.progress.epoch}{self.train_loss}  dev loss {metrics['dev_loss']:.3f}"
        self._say(trainer, line, metrics)

    def _say(self, trainer: Trainer, line: str, metrics: Metrics) -> None:
        speed = f"  {metrics['texts_per_second']:.0f} texts/s" if "texts_per_second" in metrics else ""
        console.note(f"{self.title}: update {trainer.progress.step} of {trainer.total_steps}  {line}{speed}")
        self.said = time.monotonic()


class _Bar(Silent):
    """Feeds one task of a rich progress display."""

    def __init__(self, stage: ObjectiveName, display: Any) -> None:
        self.title, self.display, self.task, self.numbers = _TITLES[stage], display, None, ""

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self._show(trainer, f"train {metrics['train_loss']:.3f}  {metrics['texts_per_second']:.0f} texts/s")

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        best = trainer.progress.best_dev_loss
        self.numbers = f"  dev {metrics['dev_loss']:.3f} (best {best:.3f})"
        self._show(trainer, f"epoch {trainer.progress.epoch}")

    def on_end(self, trainer: Trainer) -> None:
        self._show(trainer, "done", finished=True)

    def _show(self, trainer: Trainer, numbers: str, finished: bool = False) -> None:
        if self.task is None:
            self.task = self.display.add_task(self.title, total=trainer.total_steps, numbers="")
        step = trainer.total_steps if finished else trainer.progress.step
        self.display.update(self.task, completed=step, numbers=numbers + self.numbers)


@contextmanager
def training_progress() -> Iterator[Any]:
    """Yields a function that makes the callbacks of a stage."""
    if not console.stderr().is_terminal:
        yield lambda stage: [_Lines(stage)]
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console.stderr()) as display:

        def callbacks(stage: ObjectiveName) -> list[Callback]:
            return [_Bar(stage, display)]

        yield callbacks
