"""Starts the parts of a stack one after the other, watches them, and ends all of them in reverse when one dies.

A part that dies is not restarted: on one machine that hides what a person should see. Its data are safe, and the same
command starts all again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.stack.errors import RefusedError, StackError, UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST, holder, is_free
from infra.stack.processes import Child, clean_environment, end_marked
from infra.stack.state import State

_REPO = Path(__file__).parents[2]
_PAUSE = 0.2


class StoppedError(StackError):
    """Somebody asked for the end while the stack was starting."""


class Supervisor:
    """The parts while they run. The folder must be locked."""

    def __init__(
        self,
        state: State,
        parts: Sequence[Part],
        lock: int,
        say: Callable[[str], None] = print,
        asked: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            lock: the descriptor that `State.locked` gave.
            say: is told, in a line, of each part that answers or has ended.
            asked: whether the stack shall end; looked at every moment.
        """
        self._state, self._parts, self._say, self._asked = state, parts, say, asked
        self._running: list[tuple[Part, Child]] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock = lock

    def up(self) -> None:
        """Starts all parts; returns when each answers.

        Raises:
            RefusedError: a port is taken; nothing was started.
            StackError: a part does not start or does not answer in time. `down` is still to be called.
            StoppedError: `asked` became true.
        """
        if left := end_marked(self._state.path):
            self._say(f"Ended {left} processes that an earlier stack in {self._state} had left.")
        self._check_ports()
        self._start_guard()
        for part in self._parts:
            begin = time.monotonic()
            child = Child(part.name, part.prepare(), self._state.log(part.name), self._state.path)
            self._running.append((part, child))
            self._wait_for(part, begin + part.patience)
            part.settle()
            self._say(f"{part.title} answers at {part.address} ({time.monotonic() - begin:.0f} s)")

    def _check_ports(self) -> None:
        taken = [
            f"{HOST}:{port} ({option}, for {part.title}) is taken by {holder(port)}"
            for part in self._parts
            for option, port in part.ports().items()
            if not is_free(port)
        ]
        if taken:
            raise RefusedError(f"{'; '.join(taken)}. Stop what is there, or choose other ports (--free-ports: any)")

    def _start_guard(self) -> None:
        """Its standard input is a pipe of which only this process has the other end."""
        with self._state.log("guard").open("w") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-m", "infra.stack.guard", str(self._state.path)],
                cwd=_REPO,
                env=clean_environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[self._lock],
            )

    def _wait_for(self, part: Part, deadline: float) -> None:
        while True:
            self.look()
            if self._asked():
                raise StoppedError("stopped before all parts answered")
            try:
                return part.check()
            except UnreadyError as error:
                if time.monotonic() > deadline:
                    log = self._state.log(part.name)
                    child = self._running[-1][1]
                    raise StackError(
                        f"{part.title} does not answer within {part.patience:.0f} s ({error}); the end of {log}:\n"
                        f"{child.tail()}"
                    ) from error
            time.sleep(_PAUSE)

    def look(self) -> None:
        """Raises StackError where a part has died."""
        for _, child in self._running:
            if child.status() is not None:
                raise StackError(child.ended())

    def watch(self, done: Callable[[], bool] = lambda: False) -> None:
        """Returns when somebody asks for the end, or `done` holds.

        Raises:
            StackError: a part died.
        """
        while not self._asked() and not done():
            self.look()
            time.sleep(_PAUSE)

    def down(self) -> None:
        """Ends all parts, the last first. Nothing of the stack is left when this returns."""
        for part, child in reversed(self._running):
            alive = child.status() is None
            if not child.stop(part.stop_signal):
                self._say(f"{part.title} did not end and was killed")
            elif alive:
                self._say(f"{part.title} has ended")
        self._running.clear()
        end_marked(self._state.path)
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None
