"""The processes of a stack: each has a session and a log of its own, and a mark in its environment.

By the mark all of them are found, their children too, also when the process that started them was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from infra.stack.errors import StackError

MARK = "AGGGEN_STACK"
"""Holds the folder of the stack that a process belongs to."""
_OF_OTHERS = ("MLFLOW_", "AWS_", "RCLONE_", "PG", "RAY_", MARK)
PATIENCE = 15.0  # seconds between the request to end and SIGKILL


@dataclass(frozen=True)
class User:
    """Whom a process runs as."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Launch:
    """How a process is started."""

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside what all processes get. Passwords go here: everybody may read a command line."""
    user: User | None = None


class Child:
    """A process that was started."""

    def __init__(self, name: str, launch: Launch, log: Path, state: Path) -> None:
        """
        Raises:
            StackError: the program is not there or may not be run.
        """
        self.name, self.log = name, log
        if log.exists():
            os.replace(log, log.with_suffix(".log.1"))
        with log.open("w") as output:
            try:
                self._process = subprocess.Popen(
                    launch.command,
                    cwd=state,
                    env=clean_environment() | dict(launch.env) | {MARK: str(state)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is for the supervisor, who stops them in order
                    **as_user(launch.user),
                )
            except OSError as error:
                raise StackError(f"{name} cannot be started: {error}") from error
        self.pid = self._process.pid

    def status(self) -> int | None:
        """Its exit status, minus the signal that killed it; None while it runs."""
        return self._process.poll()

    def ended(self) -> str:
        """What to say of a process that ended by itself."""
        status = self._process.returncode
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self.name} {how}; the end of {self.log}:\n{self.tail()}"

    def tail(self, lines: int = 20) -> str:
        """The last lines that it printed."""
        return "\n".join(f"    {line}" for line in self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, number: signal.Signals, patience: float = PATIENCE) -> bool:
        """Asks it to end, and kills it and all its descendants when that takes too long; whether it ended by itself."""
        family = descendants(self.pid)
        if self.status() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            end(family, 0)
            return False
        end(family, 1.0)
        return True


def as_user(user: User | None) -> dict[str, Any]:
    """Arguments of subprocess for a process of another user."""
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}


def clean_environment() -> dict[str, str]:
    """This process's environment without what configures other stores, clusters and databases."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
    here = ",".join(filter(None, (inherited.get("NO_PROXY"), "127.0.0.1", "localhost")))
    return inherited | {"NO_PROXY": here, "no_proxy": here}


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that has ended and that nobody asks after (a zombie) does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked(state: Path) -> list[psutil.Process]:
    """The processes of the stack in `state` that are alive, whoever started them.

    A process that gives itself a title overwrites its mark; it is found below the one that started it.
    """
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            ours = process.pid != os.getpid() and process.environ().get(MARK) == str(state)
        except (psutil.Error, OSError):  # it ended, or is another user's
            continue
        if ours:
            found |= {one.pid: one for one in (process, *descendants(process.pid))}
    return [process for process in found.values() if is_alive(process)]


def end(processes: Iterable[psutil.Process], patience: float = PATIENCE) -> None:
    """Ends processes: SIGTERM, and SIGKILL for those that are there after `patience` seconds. Returns when none is."""
    left = list(processes)
    if patience:
        left = _send(left, signal.SIGTERM, patience)
    _send(left, signal.SIGKILL, 10.0)


def end_marked(state: Path, patience: float = PATIENCE) -> int:
    """Ends all that is left of the stack in `state`; how many processes that were."""
    count = 0
    deadline = time.monotonic() + 4 * patience
    while (left := marked(state)) and time.monotonic() < deadline:  # again, for one may have started another
        end(left, patience)
        count += len(left)
    return count


def _send(processes: Iterable[psutil.Process], number: signal.Signals, seconds: float) -> list[psutil.Process]:
    """Sends a signal, and waits; those that are there still."""
    left = [process for process in processes if is_alive(process)]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    deadline = time.monotonic() + seconds
    while (left := [process for process in left if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
