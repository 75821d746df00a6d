"""What a doctor found, as rows for people and as JSON for programs. No secret is in either.

The JSON has one shape; keys are added, never renamed or removed, while `schema` is ``agggen.doctor/1``::

    {"schema": "agggen.doctor/1", "version": "0.1.0", "time": "2026-11-22T06:00:00+00:00", "worst": "warning",
     "counts": {"ok": 20, "note": 3, "warning": 1, "error": 0}, "exit_code": 0,
     "findings": [{"area": "ray", "check": "token", "about": "token", "level": "ok", "found": "...", "remedy": null,
                   "seconds": 0.01}, ...]}

`check` is what ran and `about` what it looked at; `seconds` are those of the whole check.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agggen_platform.doctor.findings import Level
from agggen_platform.doctor.running import Examined
from agggen_platform.doctor.versions import installed
from agggen_platform.tracking.origin import is_secret, masked

SCHEMA = "agggen.doctor/1"
FOUND_AN_ERROR = 11
"""The exit code; 1 is a fault of agggen's own."""
_NO_SECRETS = {"PWD"}  # the working folder
_SHORTEST_SECRET = 6  # shorter values would hide words that are none


def report(examined: Sequence[Examined]) -> dict[str, Any]:
    """All findings in the shape of the module's docstring."""
    findings: list[dict[str, Any]] = [
        {
            "area": one.check.area,
            "check": one.check.name,
            "about": finding.about,
            "level": finding.level.value,
            "found": finding.found,
            "remedy": finding.remedy,
            "seconds": round(one.seconds, 3),
        }
        for one in examined
        for finding in one.findings
    ]
    levels = [finding.level for one in examined for finding in one.findings]
    worst = max(levels, key=lambda level: level.rank, default=Level.OK)
    hidden = without_secrets(findings, os.environ)
    return {
        "schema": SCHEMA,
        "version": installed("agggen"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "worst": worst.value,
        "counts": {level.value: levels.count(level) for level in Level},
        "exit_code": FOUND_AN_ERROR if worst is Level.ERROR else 0,
        "findings": hidden,
    }


def without_secrets(findings: Sequence[dict[str, Any]], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The findings without credentials in addresses, and without the values of variables named like secrets.

    Messages of servers and libraries are in findings, and nobody knows what they quote.
    """
    named = {name: value for name, value in environment.items() if is_secret(name) and name not in _NO_SECRETS}
    secrets = {value for value in named.values() if len(value) >= _SHORTEST_SECRET}
    pattern = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))) if secrets else None

    def shown(text: object) -> object:
        if not isinstance(text, str):
            return text
        text = masked(text)
        return pattern.sub("***", text) if pattern else text

    texts = ("check", "about", "found", "remedy")
    return [finding | {name: shown(finding[name]) for name in texts} for finding in findings]
