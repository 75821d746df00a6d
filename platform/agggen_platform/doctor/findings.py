"""Findings: what was checked, how bad it is, how to fix it; and all of them as JSON, without secrets.

The JSON has one shape, and keys are only ever added while `schema` is ``agggen.doctor/2``::

    {"schema": "agggen.doctor/2", "version": "0.1.0", "time": "2026-11-22T06:00:00+00:00", "worst": "warning",
     "counts": {"ok": 20, "note": 3, "warning": 1, "error": 0}, "exit_code": 0,
     "findings": [{"area": "ray", "level": "ok", "subject": "token", "message": "...", "remedy": null}, ...]}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from agggen_platform.tracking.origin import is_secret, masked

EXIT_CODE = 11
"""Of the command where a finding is an error."""
_NO_SECRETS = {"PWD"}  # the working folder
_SHORTEST_SECRET = 6  # a shorter value would mask ordinary words


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


def report(findings: Mapping[str, Sequence[Finding]]) -> dict[str, Any]:
    """The findings of each area in the shape of the module's docstring."""
    levels = [finding.level for area in findings.values() for finding in area]
    worst = max(levels, key=list(Level).index, default=Level.OK)
    return {
        "schema": "agggen.doctor/2",
        "version": installed_version("agggen"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "worst": worst.value,
        "counts": {level.value: levels.count(level) for level in Level},
        "exit_code": EXIT_CODE if worst is Level.ERROR else 0,
        "findings": [
            {"area": area} | {name: without_secrets(value, os.environ) for name, value in asdict(finding).items()}
            for area, of_area in findings.items()
            for finding in of_area
        ],
    }


def without_secrets(text: str | None, environment: Mapping[str, str]) -> str | None:
    """`text` without credentials in addresses and without the values of variables whose names are those of secrets.

    Findings quote messages of servers and libraries, which may quote anything.
    """
    if text is None:
        return None
    named = {name: value for name, value in environment.items() if is_secret(name) and name not in _NO_SECRETS}
    secrets = sorted({value for value in named.values() if len(value) >= _SHORTEST_SECRET}, key=len, reverse=True)
    text = masked(text)
    return re.sub("|".join(map(re.escape, secrets)), "***", text) if secrets else text


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
