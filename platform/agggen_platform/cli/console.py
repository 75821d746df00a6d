"""Output of commands: results on stdout, messages on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0
_ONE_LINE = str.maketrans("\t\r\n", "   ")


@cache
def console() -> Console:
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)  # plans have square brackets


def echo(text: str) -> None:
    """Prints a line of the result to stdout."""
    print(text)  # rich would expand tabs


def note(text: str) -> None:
    """Prints a message to stderr."""
    print(text, file=sys.stderr)


def fail(text: str) -> None:
    typer.secho(f"error: {text}", fg="red", bold=True, err=True)  # colours on a terminal only


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Prints a table to stdout; without a terminal, as tab-separated lines with a header."""
    if not console().is_terminal:
        for row in [columns, *rows]:
            echo("\t".join(str(cell).translate(_ONE_LINE) for cell in row))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(Text(str(cell), justify="right" if isinstance(cell, int | float) else "left") for cell in row))
    console().print(table, soft_wrap=False)


def byte_progress() -> Callable[[str, int, int | None], None]:
    """A callback (file, received bytes, total or None) that prints a line every ten seconds, and after each file."""
    last_line_times: dict[str, float] = {}  # by file

    def advance(file: str, received: int, total: int | None) -> None:
        now = time.monotonic()
        if received == total or now - last_line_times.get(file, -math.inf) >= SECONDS_BETWEEN_LINES:
            last_line_times[file] = now
            note(f"{file}: {received:,} of {total:,} bytes" if total is not None else f"{file}: {received:,} bytes")

    return advance
