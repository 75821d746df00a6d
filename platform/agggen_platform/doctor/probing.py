"""Probes: scripts that look at something in a process of their own, because it may crash, hang, or keep a GPU.

A probe is a file in ``probes/`` that imports nothing of ours and prints one JSON object as its last line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("probes")


class ProbeError(Exception):
    """A probe did not say what it found; the message is one line about why."""


def probe(name: str, *arguments: str, seconds: float, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the probe ``probes/NAME.py`` found.

    Args:
        environment: its variables, in place of ours.

    Raises:
        ProbeError: it broke, was killed, or took longer than `seconds`.
    """
    command = [sys.executable, "-P", str(_FOLDER / f"{name}.py"), *arguments]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"no answer within {seconds:g} s") from None
    if done.returncode < 0:
        raise ProbeError(f"the process was killed by {signal.Signals(-done.returncode).name}")
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    raise ProbeError(said[-1].strip()[:300])
