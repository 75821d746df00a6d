"""Options, progress and last messages of `agggen bulk` and `agggen segment`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agggen_platform.cli import console
from agggen_platform.cli.options import warn_if_temporary

if TYPE_CHECKING:
    from agggen_platform.sharded.driver import Progress
    from agggen_platform.tracking import Tracker

_SECONDS_BETWEEN_LINES = 10.0
Say = Callable[["Progress[Any]"], str]

Actors = Annotated[
    int | None, typer.Option(help="The largest number of workers; 0: without Ray. [default: one per CPU]")
]
Preset = Annotated[str | None, typer.Option(metavar="FILE", help="Settings from a YAML file.")]


class RunLog:
    """Creates the run log of a job in the folder `runs`, once the job has work to do."""

    def __init__(self, runs: Path) -> None:
        warn_if_temporary(runs, "--runs")
        self._runs = runs
        self._tracker: Tracker | None = None

    def __call__(self, name: str) -> Tracker:
        from agggen_platform.tracking import Tracker

        self._tracker = Tracker(run_name=name, runs_dir=self._runs)
        return self._tracker

    def finish(self, out: str, rejects: int, where: str) -> None:
        """Prints the last messages of a job; `where` is the folder of rejects in `out`."""
        if rejects:
            console.note(f"Rejected: {rejects:,}, see {out}/{where}")
        if self._tracker is not None and (command := self._tracker.ui_command()):
            console.note(f"Compare runs: {command}")
        console.say(out)


def reused(progress: Progress[Any]) -> str:
    """How many shards an earlier run had finished; empty for none."""
    return f"; {progress.reused:,} of {progress.total:,} shards were there" if progress.reused else ""


@contextmanager
def shard_progress(speed: Say, counts: Say) -> Iterator[Callable[[Progress[Any]], None]]:
    """Yields a callback that shows the progress of the job. Ray's output is redirected to stderr.

    Args:
        speed: the speed of this run, as text.
        counts: the results so far, as text; for lines only.
    """
    if not console.stderr().is_terminal:
        with redirect_stdout(sys.stderr):
            yield _lines(speed, counts)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (TextColumn("shards"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with Display(*columns, TimeRemainingColumn(), console=console.stderr()) as display:
        task = display.add_task("", total=None, speed="starting")
        yield lambda now: display.update(task, completed=now.shards, total=now.total, speed=speed(now))


def _lines(speed: Say, counts: Say) -> Callable[[Progress[Any]], None]:
    last = time.monotonic()

    def show(now: Progress[Any]) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            share, shards = f"{now.shards / now.total:.0%}", f"{now.shards:,} of {now.total:,} shards"
            console.note("  ".join([share, shards, counts(now), speed(now), *_time_left(now)]))

    return show


def _time_left(now: Progress[Any]) -> list[str]:
    """By the speed of this run: shards that an earlier run did took no time."""
    fresh = now.shards - now.reused
    if not fresh:
        return []
    seconds = round((now.total - now.shards) * now.seconds / fresh)
    return [f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"]
