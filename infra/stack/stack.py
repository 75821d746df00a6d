"""Starts the parts of a stack one after the other, watches them, and stops all in reverse order when one dies.

A part that dies is not restarted: on one machine that hides what a person should see. Its data are safe, and the same
command starts everything again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from infra.stack.errors import RefusedError, StackError, UnreadyError
from infra.stack.mlflow_server import MlflowServer
from infra.stack.part import HOST, Part, is_free
from infra.stack.postgres import Postgres
from infra.stack.processes import Child
from infra.stack.ray_head import RayHead
from infra.stack.s3 import S3
from infra.stack.state import State

PORTS = {
    **{"postgres": 15432, "s3": 9000, "mlflow": 5000},
    **{"ray": 8265, "ray-cluster": 6379, "ray-client": 10001, "ray-agent": 52365},
}
_PAUSE = 0.2


def free_ports() -> dict[str, int]:
    """A free port for each name in `PORTS`."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in PORTS]
        for holder in sockets:
            holder.bind((HOST, 0))
        return {name: holder.getsockname()[1] for name, holder in zip(PORTS, sockets, strict=True)}


class Stack:
    """The parts in the order in which they start, and the environment of their clients."""

    def __init__(self, state: State, ports: Mapping[str, int], ray: bool) -> None:
        """Generates the passwords on the first start; starts nothing."""
        self.state = state
        secrets = state.read()["secrets"]
        postgres = Postgres(ports["postgres"], state, secrets)
        s3 = S3(ports["s3"], state, secrets)
        mlflow = MlflowServer(ports["mlflow"], state, secrets, postgres, s3)
        self.parts: list[Part] = [postgres, s3, mlflow]
        self.environment = s3.environment() | mlflow.environment()
        if ray:
            head = RayHead(ports, state, secrets, self.environment)
            self.parts.append(head)
            self.environment |= head.environment()


class Supervisor:
    """The parts while they run. The folder must be locked."""

    def __init__(self, state: State, parts: Sequence[Part], report: Callable[[str], None] = print) -> None:
        """
        Args:
            report: is called with a line for each part that answers or has ended.
        """
        self._state, self._parts, self._report = state, parts, report
        self._running: list[tuple[Part, Child]] = []

    def up(self) -> None:
        """Starts all parts; returns when each answers.

        Raises:
            RefusedError: a port is in use; nothing was started.
            StackError: a part does not start or does not answer in time. `down` must still be called.
        """
        self._check_ports()
        for part in self._parts:
            start = time.monotonic()
            child = Child(part.name, part.prepare(), part.stop_signal, self._state.log(part.name))
            self._running.append((part, child))
            self._wait_for(part, child, start + part.patience)
            part.settle()
            self._report(f"{part.title} answers at {part.address} ({time.monotonic() - start:.0f} s)")

    def _check_ports(self) -> None:
        used = [
            f"{HOST}:{port} (--port {name}, for {part.title})"
            for part in self._parts
            for name, port in part.ports().items()
            if not is_free(port)
        ]
        if used:
            raise RefusedError(f"in use: {'; '.join(used)}. Choose others with --port NAME=NUMBER or --free-ports")

    def _wait_for(self, part: Part, child: Child, deadline: float) -> None:
        while True:
            self.check_running()
            try:
                return part.check()
            except UnreadyError as error:
                if time.monotonic() > deadline:
                    message = f"{part.title} does not answer within {part.patience:.0f} s ({error}); {child.tail()}"
                    raise StackError(message) from error
            time.sleep(_PAUSE)

    def check_running(self) -> None:
        """Raises StackError where a part has died."""
        for _, child in self._running:
            if not child.is_running():
                raise StackError(child.ended())

    def watch(self, done: Callable[[], bool] = lambda: False) -> None:
        """Returns when `done` holds.

        Raises:
            StackError: a part died.
        """
        while not done():
            self.check_running()
            time.sleep(_PAUSE)

    def down(self) -> None:
        """Stops all parts, the last first."""
        for part, child in reversed(self._running):
            running = child.is_running()
            if not child.stop():
                self._report(f"{part.title} did not end and was killed")
            elif running:
                self._report(f"{part.title} has ended")
        self._running.clear()
