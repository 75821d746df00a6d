"""The findings as rows for people and as JSON for programs, without secrets.

The JSON has one shape, and keys are only ever added while `schema` is ``agggen.doctor/2``::

    {"schema": "agggen.doctor/2", "version": "0.1.0", "time": "2026-11-22T06:00:00+00:00", "worst": "warning",
     "counts": {"ok": 20, "note": 3, "warning": 1, "error": 0}, "exit_code": 0,
     "findings": [{"area": "ray", "level": "ok", "subject": "token", "message": "...", "remedy": null}, ...]}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from agggen_platform.doctor.findings import Finding, Level
from agggen_platform.doctor.packages import installed_version
from agggen_platform.tracking.origin import is_secret, masked

EXIT_CODE = 11
"""Of the command where a finding is an error."""
_NO_SECRETS = {"PWD"}  # the working folder
_SHORTEST_SECRET = 6  # a shorter value would mask ordinary words


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
