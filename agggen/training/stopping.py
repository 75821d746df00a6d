"""Ctrl-C and SIGTERM while a model trains: the update is finished and saved first."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from agggen.errors import StoppedError


class StopRequest:
    """Whether training should stop; the loop calls it before each update.

    As a context manager of the main thread it handles the first SIGINT or SIGTERM; the second ends the process at once,
    as before. In other threads, which cannot handle signals, the context manager does nothing.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        return self._asked

    def ask(self) -> None:
        """Asks without a signal."""
        self._asked = True

    def stopped(self, error: StoppedError) -> StoppedError:
        """`error` with the exit status of a process that a signal ended, if a signal did."""
        message = str(error).partition(";")[0]
        code = error.exit_code if self.signal is None else 128 + self.signal
        return StoppedError(f"{message}; the same command continues there", code)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            self._restore()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.signal, self._asked = signal.Signals(number), True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
