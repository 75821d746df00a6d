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

Format = Callable[["Progress[Any]"], str]

Actors = Annotated[int | None, Option(help="Maximum number of workers; 0: without Ray. [default: one per CPU]")]


class RunLogFactory:
    """Creates the run log of a job in the folder `runs` when called; jobs call it only if unfinished shards remain."""

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
    """The end of a message about finished shards: how many an earlier run finished; empty if none."""
    return f"; {progress.reused:,} of {progress.total:,} shards were already done" if progress.reused else ""


@contextmanager
def shard_progress(speed: Format, counts: Format) -> Iterator[Callable[[Progress[Any]], None]]:
    """Yields a callback that prints a job's progress every few seconds; redirects Ray's output to stderr."""
    last = time.monotonic()

    def show(now: Progress[Any]) -> None:
        nonlocal last
        if time.monotonic() - last >= console.SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            share, shards = f"{now.shards / now.total:.0%}", f"{now.shards:,} of {now.total:,} shards"
            console.note("  ".join([share, shards, counts(now), speed(now), *_time_left(now)]))

    with redirect_stdout(sys.stderr):
        yield show


def _time_left(now: Progress[Any]) -> list[str]:
    """The estimated remaining time, from the shards that this run has finished; empty if there are none."""
    finished = now.shards - now.reused
    if not finished:
        return []
    return [f"{timedelta(seconds=round((now.total - now.shards) * now.seconds / finished))} left"]
