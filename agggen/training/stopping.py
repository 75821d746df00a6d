"""Handling of Ctrl-C and SIGTERM: training finishes the current update and saves a checkpoint."""

import signal
import threading
from typing import Any, Self

from agggen.errors import StoppedError


class StopRequest:
    """A stop flag; the training loop calls it before each update and stops if it returns True. As a context manager in
    the main thread, it handles the first SIGINT or SIGTERM; a second signal has its default effect.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._requested = False
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        return self._requested

    def request(self) -> None:
        """Requests a stop without a signal."""
        self._requested = True

    def with_exit_code(self, error: StoppedError) -> StoppedError:
        """A copy of `error` with a message for the command line and, after a signal, exit code 128 + signal number."""
        message = str(error).partition(";")[0]
        code = error.exit_code if self.signal is None else 128 + self.signal
        return StoppedError(f"{message}; the same command resumes it", code)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signal_number in (signal.SIGINT, signal.SIGTERM):
                self._previous_handlers[signal_number] = signal.signal(signal_number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():  # no handlers were installed in other threads
            self._restore()

    def _handle(self, signal_number: int, frame: object) -> None:
        self.signal, self._requested = signal.Signals(signal_number), True
        self._restore()

    def _restore(self) -> None:
        while self._previous_handlers:
            signal_number, handler = self._previous_handlers.popitem()
            signal.signal(signal_number, handler)
