"""Runs the checks of each area in a child process with a time limit.

A library that crashes, hangs or prints costs only the findings of its own area. The child is
``python -m agggen_platform.doctor.areas AREA``: it reads the settings as JSON from its standard input, and the last
line of its standard output is a JSON list of findings.
"""

from __future__ import annotations

import difflib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pkgutil import resolve_name

from agggen.errors import ConfigError
from agggen_platform.doctor.findings import Finding, Level, error
from agggen_platform.doctor.settings import Settings

AREAS = {  # the function of each area
    "python": "machine.packages",
    "torch": "machine.accelerator",
    "ray": "cluster.check",
    "mlflow": "tracking.check",
    "storage": "store.check",
    "data": "machine.data",
    "disk": "machine.disk",
}
SECONDS = 120.0
"""Time limit of an area."""


def chosen(only: Sequence[str]) -> list[str]:
    """The areas in `only`, or all of them.

    Raises:
        ConfigError: an area does not exist.
    """
    for area in only:
        if area not in AREAS:
            near = difflib.get_close_matches(area, AREAS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"unknown area {area!r}; {hint}The areas are {', '.join(AREAS)}")
    return [area for area in AREAS if not only or area in only]


def examine(settings: Settings, areas: Sequence[str]) -> dict[str, list[Finding]]:
    """The findings of each area; the areas are checked in parallel."""
    with ThreadPoolExecutor(max_workers=len(AREAS)) as pool:
        return dict(zip(areas, pool.map(lambda area: _in_child(area, settings), areas), strict=True))


def _in_child(area: str, settings: Settings) -> list[Finding]:
    command = [sys.executable, "-P", "-m", "agggen_platform.doctor.areas", area]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    stdin = json.dumps(asdict(settings))
    try:
        child = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        message = f"no answer within {SECONDS:g} s: a server or disk hangs, or this machine is overloaded"
        return [error(area, message, f"agggen doctor --only {area}")]
    if child.returncode == 0:
        findings = json.loads(child.stdout.splitlines()[-1])
        return [Finding(Level(finding.pop("level")), **finding) for finding in findings]
    if child.returncode < 0:
        reason = f"the process was killed by {signal.Signals(-child.returncode).name}"
    else:
        reason = (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
    return [error(area, f"the check failed: {reason[:500]}", f"agggen doctor --only {area} --json")]


if __name__ == "__main__":
    module, _, function = AREAS[sys.argv[1]].partition(".")
    check = resolve_name(f"agggen_platform.doctor.{module}:{function}")
    print(json.dumps([asdict(finding) for finding in check(Settings(**json.load(sys.stdin)))]))
