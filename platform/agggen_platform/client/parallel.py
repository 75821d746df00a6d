"""Concurrent requests for the pieces of a stream, with the answers in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

P = TypeVar("P")
A = TypeVar("A")


class _Pending(Iterator[A]):
    """The answers to one piece, received by a thread; `close` stops it at its next answer."""

    def __init__(self, answers: Generator[A, None, None]) -> None:
        self._received: SimpleQueue[A | Exception | None] = SimpleQueue()  # None: the end
        self._closed = threading.Event()
        self.thread = threading.Thread(target=self._receive, args=(answers,), daemon=True)
        self.thread.start()

    def _receive(self, answers: Generator[A, None, None]) -> None:
        try:
            with closing(answers):
                for answer in answers:
                    if self._closed.is_set():
                        return
                    self._received.put(answer)
            self._received.put(None)
        except Exception as error:  # raised to the reader
            self._received.put(error)

    def __next__(self) -> A:
        answer = self._received.get()
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise StopIteration
        return answer

    def close(self) -> None:
        self._closed.set()


def in_parallel(
    pieces: Iterator[P], answers: Callable[[P], Generator[A, None, None]], width: Callable[[], int]
) -> Generator[A, None, None]:
    """The answers to all pieces in their order; at most `width()` requests are active.

    Answers to later pieces are buffered, of at most twice as many pieces.
    """
    pending: deque[_Pending[A]] = deque()
    try:
        while True:
            most = width()
            while len(pending) < 2 * most and sum(item.thread.is_alive() for item in pending) < most:
                if (piece := next(pieces, None)) is None:
                    break
                pending.append(_Pending(answers(piece)))
            if not pending:
                return
            if (answer := next(pending[0], None)) is None:
                pending.popleft()
            else:
                yield answer
    finally:
        for item in pending:
            item.close()
