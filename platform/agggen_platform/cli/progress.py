"""How training looks: a live bar with the numbers that matter on a terminal, plain lines elsewhere; and writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agggen.training.objectives import ObjectiveName
from agggen_platform.cli import console
from agggen_platform.training.news import News

_TITLES = {"baseline": "Transformer", "joint": "joint model"}
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_NOTES = 10.0


class _Lines:
    """One line an evaluation, and one every half minute in between."""

    def __init__(self) -> None:
        self.said, self.train_loss = time.monotonic(), ""

    def __call__(self, news: News) -> None:
        if news.kind == "log":
            self.train_loss = f"  train loss {news.metrics['train_loss']:.3f}"
            if time.monotonic() - self.said >= _SECONDS_BETWEEN_LINES:
                self._say(news, f"epoch {news.metrics['epoch']:.2f}{self.train_loss}")
        elif news.kind == "evaluation":
            self._say(news, f"epoch {news.epoch}{self.train_loss}  dev loss {news.metrics['dev_loss']:.3f}")
        else:
            self.train_loss = ""

    def _say(self, news: News, line: str) -> None:
        speed = f"  {news.metrics['texts_per_second']:.0f} texts/s" if "texts_per_second" in news.metrics else ""
        console.note(f"{_TITLES[news.stage]}: update {news.step} of {news.total_steps}  {line}{speed}")
        self.said = time.monotonic()


class _Bars:
    """Feeds a rich progress display with a task for each stage."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.tasks: dict[ObjectiveName, Any] = {}
        self.numbers = ""

    def __call__(self, news: News) -> None:
        if news.stage not in self.tasks:
            self.tasks[news.stage] = self.display.add_task(_TITLES[news.stage], total=news.total_steps, numbers="")
            self.numbers = ""
        step, now = news.step, f"epoch {news.epoch}"
        if news.kind == "log":
            now = f"train {news.metrics['train_loss']:.3f}  {news.metrics['texts_per_second']:.0f} texts/s"
        elif news.kind == "evaluation":
            self.numbers = f"  dev {news.metrics['dev_loss']:.3f} (best {news.best_dev_loss:.3f})"
        else:
            step, now = news.total_steps, "done"
        self.display.update(self.tasks[news.stage], completed=step, numbers=now + self.numbers)


@contextmanager
def training_progress() -> Iterator[Callable[[News], None]]:
    """Yields what shows the news of one run."""
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
