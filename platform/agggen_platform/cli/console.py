"""What commands say, and where: results on stdout, everything else on stderr.

On a terminal tables have frames and long work shows a bar; elsewhere tables are tab-separated lines and progress is a
plain line now and then, so that output can be piped and logs stay readable. Text is printed as it is: square brackets
are plans here, not markup.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_SECONDS_BETWEEN_LINES = 10.0


@cache
def console() -> Console:
    """Where results go."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


@cache
def stderr() -> Console:
    """Where messages go."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """A line of the result."""
    print(text)  # rich would expand tabs


def note(text: str) -> None:
    """A line about what is going on; not part of the result."""
    print(text, file=sys.stderr)


def fail(text: str) -> None:
    """What went wrong."""
    stderr().print(f"error: {text}", style="bold red" if stderr().is_terminal else None)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """A table on stdout; without a terminal one tab-separated line a row, the columns' names first."""
    if not console().is_terminal:
        for row in [columns, *rows]:
            say("\t".join(str(cell) for cell in row))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        numbers = [isinstance(cell, int | float) for cell in row]
        table.add_row(
            *(Text(str(cell), justify="right" if number else "left") for cell, number in zip(row, numbers, strict=True))
        )
    console().print(table, soft_wrap=False)


Advance = Callable[[str, int, int | None], None]
"""Told of (what, done bytes, total bytes or None if not known) as often as one likes."""


@contextmanager
def byte_progress() -> Iterator[Advance]:
    """Shows how far downloads are: a bar each on a terminal, else a line every ten seconds and at each end."""
    if not stderr().is_terminal:
        yield _line_progress()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=stderr()) as progress:
        tasks = {}

        def advance(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield advance


def _line_progress() -> Advance:
    last: dict[str, float] = {}
    finished: set[str] = set()

    def advance(what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        complete = total is not None and done >= total
        if what in finished or not (
            complete or now - last.get(what, -_SECONDS_BETWEEN_LINES) >= _SECONDS_BETWEEN_LINES
        ):
            return
        last[what] = now
        if complete:
            finished.add(what)
        note(f"{what}: {done:,} of {total:,} bytes" if total is not None else f"{what}: {done:,} bytes")

    return advance
