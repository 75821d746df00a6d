"""The options, progress lines and final messages of commands that process shards."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from agggen_platform.cli import console
from agggen_platform.cli.options import warn_if_temporary

if TYPE_CHECKING:
    from agggen_platform.sharded.driver import Progress
    from agggen_platform.tracking import Tracker

FormatProgress = Callable[["Progress[Any]"], str]

Actors = Annotated[int | None, Option(help="Maximum number of workers; 0: without Ray. [default: one per CPU]")]


class RunLogFactory:
    """Creates a job's run log in the folder `runs` when called; jobs call it only if there are unfinished shards."""

    def __init__(self, runs: Path) -> None:
        warn_if_temporary(runs, "--runs")
        self._runs = runs
        self._ui_command = ""

    def __call__(self, name: str) -> Tracker:
        from agggen_platform.tracking import Tracker

        tracker = Tracker(run_name=name, runs_dir=self._runs)
        self._ui_command = tracker.ui_command()
        return tracker

    def finish(self, out: str, rejects: int) -> None:
        if rejects:
            console.note(f"Rejected: {rejects:,}, see {out}/rejects")
        if self._ui_command:
            console.note(f"Compare runs: {self._ui_command}")
        console.echo(out)


def reused_message(progress: Progress[Any]) -> str:
    """The end of a message: how many shards an earlier run finished; empty if none."""
    return f"; {progress.reused:,} of {progress.total:,} shards were already done" if progress.reused else ""


@contextmanager
def shard_progress(speed: FormatProgress, counts: FormatProgress) -> Iterator[Callable[[Progress[Any]], None]]:
    """Yields a callback that prints a job's progress every few seconds; redirects Ray's output to stderr."""
    last_line_time = time.monotonic()

    def print_progress(progress: Progress[Any]) -> None:
        nonlocal last_line_time
        if time.monotonic() - last_line_time >= console.SECONDS_BETWEEN_LINES:
            last_line_time = time.monotonic()
            finished, total = progress.shards, progress.total
            shards = f"{finished / total:.0%}  {finished:,} of {total:,} shards"
            console.note("  ".join([shards, counts(progress), speed(progress), *_time_left(progress)]))

    with redirect_stdout(sys.stderr):
        yield print_progress


def records_per_second(progress: Progress[Any]) -> str:
    return f"{progress.counts.records / progress.seconds:,.1f} records/s"


def _time_left(progress: Progress[Any]) -> list[str]:
    """The estimated remaining time, from the shards that this run has finished; empty if there are none."""
    finished = progress.shards - progress.reused
    if not finished:
        return []
    return [f"{timedelta(seconds=round((progress.total - progress.shards) * progress.seconds / finished))} left"]
