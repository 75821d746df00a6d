"""Findings of checks: what was checked, how bad it is, how to fix it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]
"""note: something optional; warning: a job runs, but slower or less protected than it should be; error: a job fails, or
others can run code on the cluster."""
_SHORTEST_SECRET = 6  # a shorter value would mask ordinary words


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    level: Level
    subject: str
    """What was checked, in a word or two."""
    message: str
    remedy: str | None = None
    """A command, or the setting to change. Every warning and error has one."""


ok, note = partial(Finding, "ok"), partial(Finding, "note")
warning, error = partial(Finding, "warning"), partial(Finding, "error")


def without_secrets(text: str) -> str:
    """`text` without credentials in addresses and without the values of variables whose names are those of secrets.

    Findings quote messages of servers and libraries, which may quote anything.
    """
    from agggen_platform.tracking.origin import is_secret, masked

    named = {value for name, value in os.environ.items() if is_secret(name) and name != "PWD"}  # the working folder
    secrets = sorted((value for value in named if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)
    text = masked(text)
    return re.sub("|".join(map(re.escape, secrets)), "***", text) if secrets else text
