"""The processes of a stack: each has its own session and log, and ends when the stack's own process is killed."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from infra.stack.errors import StackError

_FOREIGN = ("MLFLOW_", "AWS_", "RCLONE_", "PG", "RAY_")
_PATIENCE = 15.0  # seconds between the request to end and SIGKILL
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Launch:
    """How to start a process."""

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    """In addition to `clean_environment`. Passwords go here: everybody can read a command line."""
    user: str | None = None
    """Who runs it; only root can choose."""


class Child:
    """A started process."""

    def __init__(self, name: str, launch: Launch, stop_signal: signal.Signals, log: Path) -> None:
        """
        Raises:
            StackError: the program does not exist or cannot be run.
        """
        self.name, self.log, self._stop_signal = name, log, stop_signal
        if log.exists():
            os.replace(log, log.with_suffix(".log.1"))
        with log.open("w") as output:
            try:
                self._process = subprocess.Popen(
                    launch.command,
                    cwd=log.parents[1],
                    env=clean_environment() | dict(launch.env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches the stack alone, which stops the parts in order
                    preexec_fn=self._end_with_parent,
                    **as_user(launch.user),
                )
            except OSError as error:
                raise StackError(f"{name} cannot be started: {error}") from error

    def _end_with_parent(self) -> None:
        """Has Linux send the stop signal when the stack's process dies, however it dies."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, self._stop_signal)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> str:
        """How it ended, with the end of its log."""
        status = self._process.returncode
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self.name} {how}; {self.tail()}"

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"the end of {self.log}:", *(f"    {line}" for line in text)])

    def stop(self) -> bool:
        """Ends the process, and kills its descendants that remain. Returns whether it ended without being killed."""
        try:
            descendants = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            descendants = []
        if self.is_running():
            self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(_PATIENCE)
            stopped = True
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            stopped = False
        _, alive = psutil.wait_procs(descendants, timeout=1.0)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return stopped


def as_user(user: str | None) -> dict[str, Any]:
    """Arguments of `subprocess` for a process of another user."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def clean_environment() -> dict[str, str]:
    """This process's environment without the configuration of other stores, clusters and databases."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    no_proxy = ",".join(filter(None, (inherited.get("NO_PROXY"), "127.0.0.1", "localhost")))
    return inherited | {"NO_PROXY": no_proxy, "no_proxy": no_proxy}
