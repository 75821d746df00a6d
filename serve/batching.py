"""Work of different requests put together: one batch at a time, in a thread, by what fits together.

Ray's own ``@serve.batch`` was considered: it knows neither lengths nor deadlines nor callers that went away, one bad
item fails its whole batch, and an exception that is returned for an item reaches the client as a success.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from agggen_platform.serving.config import BatchConfig
from serve.engine import Failure

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


@dataclass(eq=False, slots=True)
class _Waiting(Generic[T, A]):
    item: T
    kind: Hashable
    length: int
    rank: int  # within its call
    number: int  # of arrival
    arrived: float
    deadline: float
    answer: asyncio.Future[A | Failure]


class Batcher(Generic[T, A]):
    """Collects items and works on them together, in one thread of its own, while the event loop stays free.

    Every batch holds the item that has waited longest, so nothing starves; the rest of it are items of the same kind:
    those of nearest length and, among these, the first of every call before the second of any, so a large call does
    not keep a small one waiting. An item whose time is over, or whose caller went away, is dropped before it is worked
    on.
    """

    def __init__(
        self,
        work: Callable[[Hashable, Sequence[T]], Sequence[A | Failure]],
        config: BatchConfig,
        kind: Callable[[T], Hashable] = lambda item: None,
        length: Callable[[T], int] = lambda item: 1,
    ) -> None:
        """
        Args:
            work: answers items of one kind, in their order; it runs in the thread. If it raises, the batch is halved
                until the items that make it raise are alone: they get a Failure "internal", the others their answers.
            config: how many items a batch may hold, how long it waits to fill, how many items may wait.
            kind: what items must agree in to be worked on together.
            length: what items should be close in; 1 or more.
        """
        self._work, self._config, self._kind, self._length = work, config, kind, length
        self._waiting: dict[int, _Waiting[T, A]] = {}  # by number of arrival, so in that order
        self._numbers = itertools.count()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batch")
        self._worker: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._began: float | None = None  # the batch that is worked on
        self.failed_in_a_row = 0
        """Items since the last one that could be worked on."""

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._waiting)

    def stuck(self, seconds: float) -> bool:
        """Whether one batch has been worked on for longer than this."""
        return self._began is not None and time.monotonic() - self._began > seconds

    async def run(self, call: Callable[[], R]) -> R:
        """What `call` gives in the thread of the batches, between two of them."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def submit(self, items: Sequence[T], seconds: float) -> list[A | Failure]:
        """The answer to each item, within `seconds`; "deadline" for what is not done then, "busy" for what has no room.

        If the caller is cancelled, what was not begun is dropped.
        """
        now = asyncio.get_running_loop().time()
        entries = [self._entry(item, rank, now, now + seconds) for rank, item in enumerate(items)]
        pending = [entry.answer for entry in entries if not entry.answer.done()]
        try:
            if pending:
                await asyncio.wait(pending, timeout=seconds)
        finally:
            for entry in entries:
                self._waiting.pop(entry.number, None)
                if not entry.answer.done():
                    entry.answer.set_result(too_late())
        return [entry.answer.result() for entry in entries]

    def _entry(self, item: T, rank: int, now: float, deadline: float) -> _Waiting[T, A]:
        answer: asyncio.Future[A | Failure] = asyncio.get_running_loop().create_future()
        length, number = max(self._length(item), 1), next(self._numbers)
        entry = _Waiting(item, self._kind(item), length, rank, number, now, deadline, answer)
        if deadline <= now:
            answer.set_result(too_late())
        elif len(self._waiting) >= self._config.queue:
            answer.set_result(Failure("busy", f"{self._config.queue} records wait already; try again later"))
        else:
            self._waiting[number] = entry
            self._wake()
        return entry

    def _wake(self) -> None:
        if self._worker is None or self._worker.done():
            self._full = asyncio.Event()
            self._worker = asyncio.get_running_loop().create_task(self._run())
        if len(self._waiting) >= self._config.records:
            self._full.set()

    async def _run(self) -> None:
        """Works until nothing waits; the next item starts it again."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._company()
            batch = self._take(loop.time())
            if not batch:
                continue
            self._began = time.monotonic()
            try:
                answers = await loop.run_in_executor(
                    self._thread, self._answers, batch[0].kind, [entry.item for entry in batch]
                )
                for entry, answer in zip(batch, answers, strict=True):
                    _settle(entry, answer)
            finally:  # nobody waits for what can no longer be answered
                self._began = None
                for entry in batch:
                    _settle(entry, broken())

    async def _company(self) -> None:
        """Waits until a batch is full or its oldest item has waited long enough."""
        self._full.clear()
        if self._waiting and len(self._waiting) < self._config.records:
            oldest = next(iter(self._waiting.values()))
            left = oldest.arrived + self._config.wait_ms / 1000 - asyncio.get_running_loop().time()
            if left > 0:
                try:
                    await asyncio.wait_for(self._full.wait(), left)
                except TimeoutError:
                    return

    def _take(self, now: float) -> list[_Waiting[T, A]]:
        """The next batch, which waits no longer."""
        for entry in [entry for entry in self._waiting.values() if entry.deadline <= now]:
            _settle(self._waiting.pop(entry.number), too_late())
        if not self._waiting:
            return []
        oldest = next(iter(self._waiting.values()))

        def distance(entry: _Waiting[T, A]) -> tuple[bool, int, int, int]:
            apart = abs(math.log2(entry.length / oldest.length))
            return entry is not oldest, int(apart * 2), entry.rank, entry.number

        alike = sorted((entry for entry in self._waiting.values() if entry.kind == oldest.kind), key=distance)
        return [self._waiting.pop(entry.number) for entry in alike[: self._config.records]]

    def _answers(self, kind: Hashable, items: Sequence[T]) -> list[A | Failure]:
        """What `work` says, item by item where it raises."""
        try:
            answers = list(self._work(kind, items))
            if len(answers) != len(items):
                raise RuntimeError(f"{len(answers)} answers to {len(items)} items")
            self.failed_in_a_row = 0
            return answers
        except Exception:
            if len(items) == 1:
                logger.exception("a record could not be worked on")
                self.failed_in_a_row += 1
                return [broken()]
        middle = len(items) // 2
        return self._answers(kind, items[:middle]) + self._answers(kind, items[middle:])


def _settle(entry: _Waiting[T, A], answer: A | Failure) -> None:
    if not entry.answer.done():
        entry.answer.set_result(answer)


def too_late() -> Failure:
    """Of a record that was not done in time."""
    return Failure("deadline", "the request's time was over before this record was done")


def broken() -> Failure:
    """Of a record at which something unexpected happened; the log says what."""
    return Failure("internal", "this record could not be worked on; the server's log says why")
