"""A finding: what was checked, how bad it is, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity, mildest first."""

    OK = "ok"
    NOTE = "note"  # something optional is missing, or worth knowing
    WARNING = "warning"  # a job runs, but slower or less protected than it should be
    ERROR = "error"  # a job fails, or others can run code on the cluster


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    level: Level
    subject: str
    """What was checked, in a word or two."""
    message: str
    remedy: str | None = None
    """A command, or the setting to change. Every warning and error has one."""


def ok(subject: str, message: str) -> Finding:
    return Finding(Level.OK, subject, message)


def note(subject: str, message: str, remedy: str | None = None) -> Finding:
    return Finding(Level.NOTE, subject, message, remedy)


def warning(subject: str, message: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, subject, message, remedy)


def error(subject: str, message: str, remedy: str) -> Finding:
    return Finding(Level.ERROR, subject, message, remedy)
