"""How a job over shards looks: a bar on a terminal, else a line now and then; with share done, speed and time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agggen_platform.cli import console
from agggen_platform.sharded.driver import Progress

_SECONDS_BETWEEN_LINES = 10.0
Say = Callable[[Progress[Any]], str]


@contextmanager
def shard_progress(speed: Say, counts: Say) -> Iterator[Callable[[Progress[Any]], None]]:
    """Yields what shows how far the job is.

    Args:
        speed: says how fast this run is.
        counts: says what came out so far; for lines only.
    """
    if not console.stderr().is_terminal:
        yield _lines(speed, counts)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (TextColumn("shards"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with Display(*columns, TimeRemainingColumn(), console=console.stderr()) as display:
        task = display.add_task("", total=None, speed="starting")
        yield lambda now: display.update(task, completed=now.shards, total=now.total, speed=speed(now))


def _lines(speed: Say, counts: Say) -> Callable[[Progress[Any]], None]:
    said = time.monotonic()

    def show(now: Progress[Any]) -> None:
        nonlocal said
        if time.monotonic() - said >= _SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            parts = [
                f"{now.shards / now.total:.0%}",
                f"{now.shards:,} of {now.total:,} shards",
                counts(now),
                speed(now),
            ]
            console.note("  ".join([*parts, *_time_left(now)]))

    return show


def _time_left(now: Progress[Any]) -> list[str]:
    """By the speed of this run: shards that an earlier run did took no time."""
    fresh = now.shards - now.found
    if not fresh:
        return []
    seconds = round((now.total - now.shards) * now.seconds / fresh)
    return [f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"]
