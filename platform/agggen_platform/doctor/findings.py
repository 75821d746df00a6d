"""Findings of checks: what was checked, the severity, and the remedy."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]
"""note: optional; warning: a job runs, but slower or less securely than it should; error: a job fails, or others can
run code on the cluster."""
_SHORTEST_SECRET = 6  # a shorter value would mask ordinary words


@dataclass(frozen=True)
class Finding:
    level: Level
    subject: str  # what was checked
    message: str
    remedy: str | None = None  # a command, or the setting to change; every warning and error has one


ok, note = partial(Finding, "ok"), partial(Finding, "note")
warning, error = partial(Finding, "warning"), partial(Finding, "error")


def without_secrets(text: str) -> str:
    """Masks credentials in addresses and the values of environment variables that hold secrets.

    Findings quote messages of servers and libraries, which may contain such secrets.
    """
    from agggen_platform.tracking.origin import is_secret, masked

    variables = os.environ.keys() - {"PWD"}  # the working directory, not a password
    values = {os.environ[name] for name in variables if is_secret(name)}
    secrets = sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)
    text = masked(text)
    return re.sub("|".join(map(re.escape, secrets)), "***", text) if secrets else text
