"""Starts server processes, waits until they answer, watches them, and stops them together."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
_NOT_INHERITED = ("MLFLOW_", "AWS_", "RCLONE_", "PG", "RAY_")  # prefixes of variables
_STOP_SECONDS = 15.0  # between the stop signal and SIGKILL
_POLL_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


class StackError(Exception):
    """A server does not start, does not answer or has died (`status` 1), or the stack cannot be used (`status` 2)."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Server:
    """The command and settings of a server, and the check that it answers."""

    name: str
    command: Sequence[str]
    check: Callable[[], object]  # raises while the server does not answer
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables added to `clean_environment`; also for passwords, since any user can read command lines."""
    user: str | None = None  # runs the server; only root can use another user
    stop_signal: signal.Signals = signal.SIGTERM
    patience: float = 60.0  # seconds within which the server must answer, even on a busy machine


class Supervisor:
    """The running servers, each in its own session, with its log in ``FOLDER/logs/NAME.log``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[tuple[Server, subprocess.Popen[bytes]]] = []

    def start(self, server: Server) -> None:
        """Starts a server and returns when it answers; raises StackError if it does not, or if any server died."""
        started_at = time.monotonic()

        def end_with_parent() -> None:  # Linux sends the stop signal when this process dies for any reason
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, server.stop_signal)

        log = self.log(server.name)
        if log.exists():
            os.replace(log, log.with_suffix(".log.1"))
        with log.open("w") as output:
            try:
                process = subprocess.Popen(
                    server.command,
                    cwd=self._folder,
                    env=clean_environment() | dict(server.env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # keeps Ctrl-C from the servers: this process stops them in order
                    preexec_fn=end_with_parent,
                    **as_user(server.user),
                )
            except OSError as error:
                raise StackError(f"{server.name} cannot be started: {error}") from error
        self._running.append((server, process))
        while (failure := _failure_of(server.check)) is not None:
            self.check_running()
            if time.monotonic() > started_at + server.patience:
                reason = f"does not answer within {server.patience:.0f} s ({failure})"
                raise StackError(f"{server.name} {reason}; {self._end_of_log(server)}")
            time.sleep(_POLL_SECONDS)
        print(f"{server.name} answers ({time.monotonic() - started_at:.0f} s)", file=sys.stderr, flush=True)

    def log(self, name: str) -> Path:
        return self._folder / "logs" / f"{name}.log"

    def _end_of_log(self, server: Server) -> str:
        lines = self.log(server.name).read_text(errors="replace").splitlines()[-20:]
        return "\n".join([f"the end of {self.log(server.name)}:", *(f"    {line}" for line in lines)])

    def check_running(self) -> None:
        """Raises StackError, with the end of its log, if a server died."""
        for server, process in self._running:
            if (status := process.poll()) is not None:
                ending = (
                    f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
                )
                raise StackError(f"{server.name} {ending}; {self._end_of_log(server)}")

    def watch(self, is_finished: Callable[[], bool]) -> None:
        """Returns once `is_finished()` is true; raises StackError if a server died."""
        while not is_finished():
            self.check_running()
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stops the servers in reverse order of their start; kills those that do not end."""
        for server, process in reversed(self._running):
            process.send_signal(server.stop_signal)
            ending = "has ended"
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                ending = "did not end and was killed"
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # child processes may outlive the server
            process.wait()
            print(f"{server.name} {ending}", file=sys.stderr, flush=True)
        self._running.clear()


def _failure_of(check: Callable[[], object]) -> str | None:
    """The message of the error that a server's check raised, of any type; None if the server answers."""
    try:
        check()
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def clean_environment() -> dict[str, str]:
    """This process's environment without settings of other stores, clusters and databases."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    no_proxy = ",".join(filter(None, (inherited.get("NO_PROXY"), HOST, "localhost")))
    return inherited | {"NO_PROXY": no_proxy, "no_proxy": no_proxy}


def as_user(user: str | None) -> dict[str, Any]:
    """Arguments of `subprocess.Popen` to run a process as another user."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
