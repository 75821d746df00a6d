"""Concurrent work on the pieces of an input, with the results in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TypeVar

P = TypeVar("P")
R = TypeVar("R")


def in_parallel(pieces: Iterator[P], work: Callable[[P], R], width: Callable[[], int]) -> Generator[R, None, None]:
    """The results of `work` on all pieces in their order; at most `width()` pieces are worked on at once.

    Results of later pieces are buffered, of at most twice as many pieces. An exception is raised in its piece's place.
    """
    pending: deque[Future[R]] = deque()
    while True:
        most = width()
        while len(pending) < 2 * most and sum(not future.done() for future in pending) < most:
            if (piece := next(pieces, None)) is None:
                break
            pending.append(_started(work, piece))
        if not pending:
            return
        yield pending.popleft().result()


def _started(work: Callable[[P], R], piece: P) -> Future[R]:
    """The result of `work`, by a daemon thread: an executor's threads would delay the end of the process."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(work(piece))
        except BaseException as error:  # raised to the reader
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
