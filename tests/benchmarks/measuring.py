"""CPU time and memory of processes, measured from outside."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count

import psutil

Numbers = dict[str, float]
_PAUSE = 0.2
_SAMPLES_PER_MEMORY = 10
"""CPU time is sampled at every pause, memory only at every tenth, since the kernel stops the process to read it (33 ms
for ten Ray processes)."""


def tree(process: psutil.Process) -> Iterator[psutil.Process]:
    yield process
    yield from process.children(recursive=True)


def cpu_of(process: psutil.Process) -> float:
    """The CPU seconds of a process and its living descendants."""
    total = 0.0
    for member in tree(process):
        try:
            times = member.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def titled(process: psutil.Process, title: str) -> list[psutil.Process]:
    """The descendants whose command line begins with `title`."""
    descendants = []
    for member in process.children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(member.cmdline()).startswith(title):
                descendants.append(member)
    return descendants


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def measured(name: str, command: Sequence[str]) -> Numbers:
    """Runs Python with the arguments `command`: its wall time, and the CPU time and peak memory (MiB) of all processes.

    The peak is the largest resident memory of all processes together (PSS: shared pages count once).
    """
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE)
    watched = psutil.Process(process.pid)
    cpu: dict[int, float] = {}
    peak = 0.0
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    for sample in count():
        if process.poll() is not None:
            break
        pss = 0.0
        with suppress(psutil.Error):
            for member in tree(watched):
                with suppress(psutil.Error):
                    times = member.cpu_times()
                    cpu[member.pid] = times.user + times.system
                    if sample % _SAMPLES_PER_MEMORY == 0:
                        pss += member.memory_full_info().pss
        peak = max(peak, pss)
        time.sleep(_PAUSE)
    if process.wait():
        raise SystemExit(f"{name} failed: {b''.join(lines).decode()[-2000:]}")
    return {"seconds": time.monotonic() - begin, "cpu": sum(cpu.values()), "peak": peak / 2**20}
