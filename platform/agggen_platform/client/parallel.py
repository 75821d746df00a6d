"""Concurrent processing with results in input order."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TypeVar

P = TypeVar("P")
R = TypeVar("R")


def in_parallel(inputs: Iterator[P], function: Callable[[P], R], width: Callable[[], int]) -> Generator[R, None, None]:
    """Applies `function` to all inputs, at most `width()` concurrently; yields the results in order.

    At most ``2 * width()`` inputs are being processed or have buffered results.
    """
    pending: deque[Future[R]] = deque()
    while True:
        limit = width()
        while len(pending) < 2 * limit and sum(not future.done() for future in pending) < limit:
            if (next_input := next(inputs, None)) is None:
                break
            pending.append(_start(function, next_input))
        if not pending:
            return
        yield pending.popleft().result()


def _start(function: Callable[[P], R], argument: P) -> Future[R]:
    """Runs `function` in a daemon thread; threads of an executor would delay the exit of the process."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(function(argument))
        except BaseException as error:  # raised again by `Future.result`
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
