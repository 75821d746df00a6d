"""Findings of checks: level, subject, message and remedy."""

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]
"""note: optional; warning: jobs are slow or insecure; error: jobs fail, or others can run code on the cluster."""
_MIN_SECRET_LENGTH = 6  # masking shorter values would also mask ordinary words


@dataclass(frozen=True)
class Finding:
    level: Level
    subject: str  # what was checked
    message: str
    remedy: str | None = None  # a command, or the setting to change; every warning and error has one


ok, note = partial(Finding, "ok"), partial(Finding, "note")
warning, error = partial(Finding, "warning"), partial(Finding, "error")


def without_secrets(text: str) -> str:
    """Masks credentials in addresses, and the values of secret environment variables."""
    from agggen_platform.tracking.origin import is_secret, masked

    variables = os.environ.keys() - {"PWD"}  # the working directory, though its name looks like that of a password
    values = {os.environ[name] for name in variables if is_secret(name)}
    secrets = sorted((value for value in values if len(value) >= _MIN_SECRET_LENGTH), key=len, reverse=True)
    text = masked(text)
    return re.sub("|".join(map(re.escape, secrets)), "***", text) if secrets else text
