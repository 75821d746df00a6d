"""Batches items of different requests, and works on one batch at a time in a thread.

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
from typing import Generic, NamedTuple, TypeVar

from agggen_platform.serving.config import BatchConfig
from serve.engine import Failure
from serve.meters import Meters

_log = logging.getLogger("agggen.serve")

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class Measure(NamedTuple):
    """What a batcher looks at in an item."""

    work: str = "work"
    """The kind of work. Items of a batch agree in this,"""
    like: Hashable = None
    """and in this,"""
    length: int = 1
    """and are close in this, which is 1 or more, where there is a choice."""
    share: float = 0.0
    """How much of a batch it fills by itself; a batch holds 1 in all, or a single item."""


@dataclass(eq=False, slots=True)
class _Waiting(Generic[T, A]):
    item: T
    measure: Measure
    rank: int  # within its call
    number: int  # of arrival
    arrived: float
    deadline: float
    answer: asyncio.Future[A | Failure]


class Batcher(Generic[T, A]):
    """Collects items and works on them together, in one thread of its own, while the event loop stays free.

    Every batch holds the item that has waited longest, so nothing starves; the rest of it are items like it: those of
    nearest length and, among these, the first of every call before the second of any, so a large call does not keep a
    small one waiting. An item whose time is over, or whose caller went away, is dropped before it is worked on.
    """

    def __init__(
        self,
        work: Callable[[str, Sequence[T]], Sequence[A | Failure]],
        config: BatchConfig,
        measure: Callable[[T], Measure] = lambda item: Measure(),
        meters: Meters | None = None,
    ) -> None:
        """
        Args:
            work: answers items whose `Measure.work` it is told, in their order; it runs in the thread. If it raises,
                the batch is halved until the items that make it raise are alone: these get a Failure "internal", the
                others their answers.
            config: how many items a batch may hold, how long it waits to fill, how many items may wait.
            measure: says what goes together.
            meters: what is told of each batch.
        """
        self._work, self._config, self._measure = work, config, measure
        self._meters = meters
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
                self._wake()
                await asyncio.wait(pending, timeout=seconds)
        finally:
            for entry in entries:
                self._waiting.pop(entry.number, None)
                if not entry.answer.done():
                    entry.answer.set_result(too_late())
        return [entry.answer.result() for entry in entries]

    def _entry(self, item: T, rank: int, now: float, deadline: float) -> _Waiting[T, A]:
        answer: asyncio.Future[A | Failure] = asyncio.get_running_loop().create_future()
        entry = _Waiting(item, self._measure(item), rank, next(self._numbers), now, deadline, answer)
        if deadline <= now:
            answer.set_result(too_late())
        elif len(self._waiting) >= self._config.queue:
            answer.set_result(Failure("busy", f"{self._config.queue} records wait already; try again later"))
        else:
            self._waiting[entry.number] = entry
        return entry

    def _wake(self) -> None:
        if self._worker is None or self._worker.done():
            self._full = asyncio.Event()
            self._worker = asyncio.get_running_loop().create_task(self._run())
        if self._is_full():
            self._full.set()

    def _is_full(self) -> bool:
        """Whether there is no reason to wait for more items."""
        waiting = self._waiting
        return len(waiting) >= self._config.records or sum(entry.measure.share for entry in waiting.values()) >= 1

    async def _run(self) -> None:
        """Works until nothing waits; the next item starts it again."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._fill()
            batch = self._take(loop.time())
            if not batch:
                continue
            self._began = time.monotonic()
            if self._meters:
                self._meters.queue(len(self._waiting))
            waited = loop.time() - batch[0].arrived
            try:
                work, items = batch[0].measure.work, [entry.item for entry in batch]
                answers = await loop.run_in_executor(self._thread, self._answers, work, items)
                for entry, answer in zip(batch, answers, strict=True):
                    _settle(entry, answer)
                if self._meters:
                    self._meters.batch(work, len(batch), waited, time.monotonic() - self._began)
            finally:  # no caller is left waiting
                self._began = None
                for entry in batch:
                    _settle(entry, broken())

    async def _fill(self) -> None:
        """Waits until a batch is full or its oldest item has waited long enough."""
        self._full.clear()
        if self._waiting and not self._is_full():
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
        work, like, length, _ = oldest.measure

        def distance(entry: _Waiting[T, A]) -> tuple[bool, int, int, int]:
            apart = abs(math.log2(entry.measure.length / length))
            return entry is not oldest, int(apart * 2), entry.rank, entry.number

        alike = sorted((entry for entry in self._waiting.values() if entry.measure[:2] == (work, like)), key=distance)
        filled = itertools.accumulate(entry.measure.share for entry in alike[: self._config.records])
        count = max(1, sum(share <= 1 + 1e-9 for share in filled))
        return [self._waiting.pop(entry.number) for entry in alike[:count]]

    def _answers(self, work: str, items: Sequence[T]) -> list[A | Failure]:
        """What `work` says, item by item where it raises."""
        try:
            answers = list(self._work(work, items))
            if len(answers) != len(items):
                raise RuntimeError(f"{len(answers)} answers to {len(items)} items")
            self.failed_in_a_row = 0
            return answers
        except Exception:
            if len(items) == 1:
                _log.exception("a record could not be worked on")
                self.failed_in_a_row += 1
                return [broken()]
        middle = len(items) // 2
        return self._answers(work, items[:middle]) + self._answers(work, items[middle:])


def _settle(entry: _Waiting[T, A], answer: A | Failure) -> None:
    if not entry.answer.done():
        entry.answer.set_result(answer)


def too_late() -> Failure:
    """Of a record that was not done in time."""
    return Failure("deadline", "the request's time was over before this record was done")


def broken() -> Failure:
    """Of a record at which something unexpected happened; the log says what."""
    return Failure("internal", "this record could not be worked on; the server's log says why")
