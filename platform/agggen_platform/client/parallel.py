"""Several pieces of a stream on the way at once, their answers in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

P = TypeVar("P")
A = TypeVar("A")


class _Asked(Iterator[A]):
    """The answers to one piece, which a thread of its own receives; `close` stops it at its next answer."""

    def __init__(self, answers: Generator[A, None, None]) -> None:
        self._come: SimpleQueue[A | Exception | None] = SimpleQueue()  # None: that was all
        self._closed = threading.Event()
        self.thread = threading.Thread(target=self._receive, args=(answers,), daemon=True)
        self.thread.start()

    def _receive(self, answers: Generator[A, None, None]) -> None:
        try:
            with closing(answers):
                for answer in answers:
                    if self._closed.is_set():
                        return
                    self._come.put(answer)
            self._come.put(None)
        except Exception as error:  # the reader's
            self._come.put(error)

    def __next__(self) -> A:
        come = self._come.get()
        if isinstance(come, Exception):
            raise come
        if come is None:
            raise StopIteration
        return come

    def close(self) -> None:
        self._closed.set()


def in_parallel(
    pieces: Iterator[P], answers: Callable[[P], Generator[A, None, None]], width: Callable[[], int]
) -> Generator[A, None, None]:
    """The answers to all pieces in their order; at most `width()` pieces are asked for at once.

    Answers to later pieces wait here, those of twice so many pieces at most.
    """
    asked: deque[_Asked[A]] = deque()
    try:
        while True:
            most = width()
            while len(asked) < 2 * most and sum(one.thread.is_alive() for one in asked) < most:
                if (piece := next(pieces, None)) is None:
                    break
                asked.append(_Asked(answers(piece)))
            if not asked:
                return
            if (answer := next(asked[0], None)) is None:
                asked.popleft()
            else:
                yield answer
    finally:
        for one in asked:
            one.close()
