"""How training looks: a live bar with the numbers that matter on a terminal, plain lines elsewhere; and writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agggen.training.objectives import ObjectiveName
from agggen_platform.cli import console
from agggen_platform.training.events import TrainingEvent

_TITLES = {"baseline": "Transformer", "joint": "joint model"}
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_NOTES = 10.0


class _Lines:
    """One line an evaluation, and one every half minute in between."""

    def __init__(self) -> None:
        self.said, self.train_loss = time.monotonic(), ""

    def __call__(self, event: TrainingEvent) -> None:
        if event.kind == "log":
            self.train_loss = f"  train loss {event.metrics['train_loss']:.3f}"
            if time.monotonic() - self.said >= _SECONDS_BETWEEN_LINES:
                self._say(event, f"epoch {event.metrics['epoch']:.2f}{self.train_loss}")
        elif event.kind == "evaluation":
            self._say(event, f"epoch {event.epoch}{self.train_loss}  dev loss {event.metrics['dev_loss']:.3f}")
        else:
            self.train_loss = ""

    def _say(self, event: TrainingEvent, line: str) -> None:
        speed = f"  {event.metrics['texts_per_second']:.0f} texts/s" if "texts_per_second" in event.metrics else ""
        console.note(f"{_TITLES[event.stage]}: update {event.step} of {event.total_steps}  {line}{speed}")
        self.said = time.monotonic()


class _Bars:
    """Feeds a rich progress display with a task for each stage."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.tasks: dict[ObjectiveName, Any] = {}
        self.numbers = ""

    def __call__(self, event: TrainingEvent) -> None:
        if event.stage not in self.tasks:
            self.tasks[event.stage] = self.display.add_task(_TITLES[event.stage], total=event.total_steps, numbers="")
            self.numbers = ""
        step, now = event.step, f"epoch {event.epoch}"
        if event.kind == "log":
            now = f"train {event.metrics['train_loss']:.3f}  {event.metrics['texts_per_second']:.0f} texts/s"
        elif event.kind == "evaluation":
            self.numbers = f"  dev {event.metrics['dev_loss']:.3f} (best {event.best_dev_loss:.3f})"
        else:
            step, now = event.total_steps, "done"
        self.display.update(self.tasks[event.stage], completed=step, numbers=now + self.numbers)


@contextmanager
def training_progress() -> Iterator[Callable[[TrainingEvent], None]]:
    """Yields what shows the events of a run."""
    if not console.stderr().is_terminal:
        yield _Lines()
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
        yield _Bars(display)


def writing_progress(total: int) -> Callable[[int], None]:
    """Says now and then how many records are done."""
    last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_NOTES:
            last = time.monotonic()
            console.note(f"written: {done:,} of {total:,} records")

    return show
