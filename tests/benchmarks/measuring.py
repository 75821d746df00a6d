"""What benchmarks share: processes measured from outside, and a job of Ray against a plain loop at two scales."""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil

Numbers = dict[str, float]
_PAUSE = 0.2
_LOOKS_A_WEIGHING = 10
"""Processor time is looked at at each pause; memory seldom, for the kernel walks all pages of a process to tell, and
the process waits: 33 ms for ten processes of Ray, which at each pause is a quarter of a core, most of it at the expense
of the side with most processes."""


def tree(process: psutil.Process) -> Iterator[psutil.Process]:
    yield process
    yield from process.children(recursive=True)


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds that a process and its living descendants have used."""
    total = 0.0
    for one in tree(process):
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def measured(what: str, command: Sequence[str]) -> Numbers:
    """Runs `command` after this Python: seconds by the clock, `cpu` seconds and `peak` MiB of its whole tree.

    The peak is the largest resident memory of all processes together (shared pages counted once, PSS).
    """
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE)
    watched = psutil.Process(process.pid)
    cpu: dict[int, float] = {}
    peak = 0.0
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    for look in count():
        if process.poll() is not None:
            break
        pss = 0.0
        with suppress(psutil.Error):
            for one in tree(watched):
                with suppress(psutil.Error):
                    times = one.cpu_times()
                    cpu[one.pid] = times.user + times.system
                    if look % _LOOKS_A_WEIGHING == 0:
                        pss += one.memory_full_info().pss
        peak = max(peak, pss)
        time.sleep(_PAUSE)
    if process.wait():
        raise SystemExit(f"{what} failed: {b''.join(lines).decode()[-2000:]}")
    return {"seconds": time.monotonic() - begin, "cpu": sum(cpu.values()), "peak": peak / 2**20}


# --- a job of Ray against a plain loop -------------------------------------------------------------------------------

SCALES = (1, 4)
"""A quarter of the input, and all of it."""


def add_arguments_of_a_side(parser: argparse.ArgumentParser) -> None:
    """How `compare` calls the script again: as one side, with a file to read and a folder to write to."""
    parser.add_argument("--side", choices=("loop", "job"), help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)


def compare(
    script: str, sources: Mapping[int, Path], sizes: Mapping[int, int], unit: str, rounds: int, arguments: Sequence[str]
) -> dict[str, object]:
    """What the script's job costs over its plain loop for each further unit, so that what happens once drops out.

    The two take turns, each as a process of its own, at each scale; `sizes` has the units of a scale's source. The
    smallest numbers of the rounds count, because other work on the machine can only add to them, and the largest peak.
    """
    best: dict[tuple[str, int], Numbers] = {}
    for _ in range(rounds):
        for scale, source in sources.items():
            for side in ("loop", "job"):
                out = source.with_name(side)
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir()
                where = ["--side", side, "--source", str(source), "--out", str(out)]
                new = measured(side, [script, *where, *arguments])
                old = best.get((side, scale), new)
                best[side, scale] = {name: min(new[name], old[name]) for name in new}
                best[side, scale]["peak"] = max(new["peak"], old["peak"])
                numbers = "  ".join(f"{name} {value:.1f}" for name, value in new.items())
                print(f"{side:4} x{scale} ({sizes[scale]:,} {unit}s)  {numbers}", flush=True)
    first, last = min(sizes), max(sizes)
    result: dict[str, object] = {}
    for name in ("seconds", "cpu"):
        loop, job = (best[side, last][name] - best[side, first][name] for side in ("loop", "job"))
        result[f"tax_{name}"] = round(job / loop - 1, 3)
        result[f"ms_a_{unit}_{name}"] = round(1000 * job / (sizes[last] - sizes[first]), 4)
    share = sizes[first] / (sizes[last] - sizes[first])
    result["start"] = {
        side: round(best[side, first]["seconds"] * (1 + share) - best[side, last]["seconds"] * share, 1)
        for side in ("loop", "job")
    }
    runs = {f"{side} x{scale}": {k: round(v, 1) for k, v in numbers.items()} for (side, scale), numbers in best.items()}
    return result | {"runs": runs}
