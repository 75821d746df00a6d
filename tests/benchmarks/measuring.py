"""Measures CPU time of processes and latencies of an endpoint under load; kills processes; prints results."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle

import httpx
import numpy as np
import psutil
import torch

_PAUSE = 0.2


def process_tree(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def cpu_time(process: psutil.Process) -> float:
    """The CPU seconds of a process; 0 if it has ended."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def tree_cpu_time(process: psutil.Process) -> float:
    """The CPU seconds of a process and its living descendants."""
    return sum(map(cpu_time, process_tree(process)))


def descendants_titled(process: psutil.Process, title: str) -> list[psutil.Process]:
    """The descendants whose command line begins with `title`."""
    descendants = []
    for member in process.children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(member.cmdline()).startswith(title):
                descendants.append(member)
    return descendants


@contextmanager
def killing(process: psutil.Process, titles: Sequence[str], seconds: float) -> Iterator[list[str]]:
    """Kills a descendant of each title in turn, one every `seconds` (0: none); yields the list of the killed titles."""
    stop, killed = threading.Event(), list[str]()

    def run() -> None:
        for title in cycle(titles):
            if stop.wait(seconds):
                return
            for victim in descendants_titled(process, title)[:1]:
                victim.kill()
                killed.append(title)

    thread = threading.Thread(target=run if seconds else stop.wait, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def timed_run(name: str, command: Sequence[str]) -> dict[str, float]:
    """Runs Python with the arguments `command`; returns wall time and CPU time of all its processes, in seconds."""
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE)
    cpu: dict[int, float] = {}
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    while process.poll() is None:
        with suppress(psutil.Error):
            members = process_tree(psutil.Process(process.pid))
            cpu |= {member.pid: seconds for member in members if (seconds := cpu_time(member))}
        time.sleep(_PAUSE)
    if process.returncode:
        raise SystemExit(f"{name} failed: {b''.join(lines).decode()[-2000:]}")
    return {"seconds": time.monotonic() - begin, "cpu": sum(cpu.values())}


def latencies(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> dict[str, float]:
    """Runs `clients` closed-loop clients for `seconds`: number and rate of requests, and latency percentiles in ms."""
    next_body, times = cycle(bodies), list[float]()
    limits = httpx.Limits(max_keepalive_connections=clients)
    with (
        httpx.Client(
            headers={"Content-Type": "application/json"}, timeout=max(60.0, 10 * seconds), limits=limits
        ) as http,
        ThreadPoolExecutor(clients) as pool,
    ):

        def client(end: float) -> None:
            while (begin := time.perf_counter()) < end:
                http.post(url, content=next(next_body)).raise_for_status()
                times.append(time.perf_counter() - begin)

        list(pool.map(client, [time.perf_counter() + 0.1] * clients))  # opens connections and warms up
        times.clear()
        begin = time.perf_counter()
        list(pool.map(client, [begin + seconds] * clients))
    speed = {"per_second": round(len(times) / (time.perf_counter() - begin), 2)}
    return speed | {name: round(value, 2) for name, value in percentiles(times).items()} | {"requests": len(times)}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """The 50th, 95th and 99th percentile in ms; 0 without values."""
    return {f"p{percent}": 1000 * float(np.percentile(seconds or [0.0], percent)) for percent in (50, 95, 99)}


def print_result(benchmark: str, **result: object) -> None:
    """Prints a benchmark's result and the machine as one line of JSON."""
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "torch": torch.__version__}
    print(json.dumps({"benchmark": benchmark, **result, **machine}))
