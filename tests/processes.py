"""Child processes for tests, which are killed at the end, and waits for conditions."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

TIMEOUT = 900.0  # seconds; large, since a busy machine can be several times slower


class Running:
    """A Python program in a new process; a context manager that kills it and its descendants at the end."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        """`command`: arguments of this Python; `folder`: the working directory and the folder of the output file."""
        self.log = folder / f"output-{time.monotonic_ns()}.txt"
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until(
        self, condition: Callable[[], object], event: str, seconds: float = TIMEOUT, pause: float = 0.02
    ) -> None:
        """Polls `condition` every `pause` s; fails if the program ends or `seconds` pass before it is true."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"ended ({self.process.returncode}) before {event}: {self.output()}"
            assert time.monotonic() < deadline, f"no {event} within {seconds} s: {self.output()}"
            time.sleep(pause)

    def finish(self, seconds: float = TIMEOUT) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program did not end within {seconds} s: {self.output()}") from None

    def children(self, *titles: str) -> list[psutil.Process]:
        """Living descendants whose command line contains one of `titles`; all descendants without `titles`."""
        processes = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                command = " ".join(child.cmdline())
                if not titles or any(title in command for title in titles):
                    processes.append(child)
        return processes

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        pids = [self.process.pid]
        with suppress(psutil.Error):
            pids += [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(60)


def run_program(name: str, *arguments: object, install: str) -> str:
    """The standard output of a program, which must succeed; skips the test if it is not installed."""
    program = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"{name} is not installed: {install}")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for unused in sockets:
            unused.bind(("127.0.0.1", 0))
        return [unused.getsockname()[1] for unused in sockets]


def until(condition: Callable[[], Any], event: str, seconds: float = TIMEOUT) -> Any:
    """Polls `condition`; returns its result once it is true, fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"no {event} within {seconds} s"
        time.sleep(0.05)
    return result
