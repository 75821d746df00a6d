"""What a check says of a machine: findings, each with a level and, where it is not well, what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a finding bears on a job."""

    OK = "ok"
    NOTE = "note"  # something optional is absent, or worth knowing
    WARNING = "warning"  # a job runs, but slower, later, or with less protection than it should
    ERROR = "error"  # a job fails, or strangers can reach what they must not

    @property
    def rank(self) -> int:
        """0 for the best."""
        return list(Level).index(self)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    """What was looked at, in a word or two."""
    found: str
    """One sentence; credentials in it are masked where it is shown."""
    remedy: str | None = None
    """A command, or the line to write and where. Every warning and error has one."""


@dataclass(frozen=True)
class Check:
    """One look at something, which may take time or break without harm to the others."""

    area: str
    name: str
    look: Callable[[], Iterable[Finding]]
    seconds: float
    """Within which it ends, or is given up."""
    late: Level = Level.ERROR
    """What it means that it did not end."""


def ok(about: str, found: str) -> Finding:
    return Finding(Level.OK, about, found)


def note(about: str, found: str, remedy: str | None = None) -> Finding:
    return Finding(Level.NOTE, about, found, remedy)


def warning(about: str, found: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, about, found, remedy)


def error(about: str, found: str, remedy: str) -> Finding:
    return Finding(Level.ERROR, about, found, remedy)
