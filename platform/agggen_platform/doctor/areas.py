"""Runs the checks of each area in a child process with a time limit.

A library that crashes, hangs or prints in one area thus does not affect other areas. The child reads the settings as
JSON from standard input; the last line of its standard output is a JSON list of findings.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from enum import StrEnum
from pkgutil import resolve_name

from agggen_platform.doctor.findings import Finding, Settings, error

Area = StrEnum("Area", "python torch ray mlflow storage data disk")
AREAS = {  # MODULE:FUNCTION of each area's check
    Area.python: "machine:packages",
    Area.torch: "machine:accelerator",
    Area.ray: "cluster:check",
    Area.mlflow: "tracking:check",
    Area.storage: "store:check",
    Area.data: "machine:data",
    Area.disk: "machine:disk",
}
SECONDS = 120.0  # time limit of a check


def examine(settings: Settings, areas: Sequence[Area] = ()) -> dict[Area, list[Finding]]:
    """The findings of the areas (default: all); all areas are checked in parallel."""
    chosen_areas = [area for area in AREAS if not areas or area in areas]
    with ThreadPoolExecutor(max_workers=len(AREAS)) as pool:
        return dict(zip(chosen_areas, pool.map(lambda area: _in_child(area, settings), chosen_areas), strict=True))


def _in_child(area: Area, settings: Settings) -> list[Finding]:
    command = [sys.executable, "-P", "-m", "agggen_platform.doctor.areas", AREAS[area]]
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
        return [Finding(**finding) for finding in json.loads(child.stdout.splitlines()[-1])]
    if child.returncode < 0:
        reason = f"the process was killed by {signal.Signals(-child.returncode).name}"
    else:
        reason = (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
    return [error(area, f"the check failed: {reason[:500]}", f"agggen doctor --only {area} --json")]


if __name__ == "__main__":
    check = resolve_name(f"agggen_platform.doctor.{sys.argv[1]}")
    print(json.dumps([asdict(finding) for finding in check(Settings(**json.load(sys.stdin)))]))
