"""Progress of training: bars with losses on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agggen.training.events import TrainingEvent
from agggen.training.objectives import ObjectiveName
from agggen.training.progress import TITLES, ProgressLines
from agggen_platform.cli import console


class _Bars:
    """Feeds a rich progress display with a task for each stage."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.tasks: dict[ObjectiveName, Any] = {}
        self.numbers = ""

    def __call__(self, event: TrainingEvent) -> None:
        if event.stage not in self.tasks:
            self.tasks[event.stage] = self.display.add_task(TITLES[event.stage], total=event.total_steps, numbers="")
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
    """Yields a callback that shows the events of a run."""
    if not console.stderr().is_terminal:
        yield ProgressLines(console.note)
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
