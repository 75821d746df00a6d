"""Prints the progress of training (at each evaluation, and at most every 30 seconds between them) and of generation."""

import sys
import time
from collections.abc import Callable

from agggen.training.events import TrainingEvent

TITLES = {"baseline": "Transformer", "joint": "joint model"}  # displayed names of the stages


def print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class ProgressLines:
    """Prints the events of a run as lines."""

    def __init__(self, print_line: Callable[[str], None] = print_to_stderr) -> None:
        self.print_line = print_line
        self.last_line, self.train_loss = time.monotonic(), ""

    def __call__(self, event: TrainingEvent) -> None:
        if event.kind == "log":
            self.train_loss = f"  train loss {event.metrics['train_loss']:.3f}"
            if time.monotonic() - self.last_line >= 30.0:
                self._print(event, f"epoch {event.metrics['epoch']:.2f}{self.train_loss}")
        elif event.kind == "evaluation":
            self._print(event, f"epoch {event.epoch}{self.train_loss}  dev loss {event.metrics['dev_loss']:.3f}")
        else:
            self.train_loss = ""

    def _print(self, event: TrainingEvent, line: str) -> None:
        speed = f"  {event.metrics['texts_per_second']:.0f} texts/s" if "texts_per_second" in event.metrics else ""
        self.print_line(f"{TITLES[event.stage]}: update {event.step} of {event.total_steps}  {line}{speed}")
        self.last_line = time.monotonic()


def progress_printer(total: int, print_line: Callable[[str], None] = print_to_stderr) -> Callable[[int], None]:
    """A function to call with the number of finished records, which it prints at most every ten seconds."""
    last_printed = time.monotonic()

    def print_progress(n_finished: int) -> None:
        nonlocal last_printed
        if time.monotonic() - last_printed >= 10.0:
            last_printed = time.monotonic()
            print_line(f"written: {n_finished:,} of {total:,} records")

    return print_progress
