"""The base class of planners and generators, which batches items of different requests in a thread.

Unlike Ray's ``@serve.batch``, it considers lengths and deadlines, drops cancelled items, and isolates failing items.
"""

import asyncio
import itertools
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from agggen.bundle import load_bundle
from agggen.errors import BundleError
from agggen_platform.registry.admission import fetch, smoke_test
from agggen_platform.serving.config import BatchConfig, ReplicaConfig, ServeConfig
from serve.engine import INTERNAL, TIMEOUT, Failure, ReplicaAnswers
from serve.observe import Metrics, log_as_replica
from serve.scaling import RECORDS

_log = logging.getLogger("agggen.serve")

_FAILURES_BEFORE_TEST = 3  # consecutive failed records after which a replica's self-test runs

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class Traits(NamedTuple):
    """The properties of an item that decide which items share a batch."""

    work: str = "work"  # the kind of work; equal for all items of a batch
    key: Hashable = None  # settings that must be equal within a batch
    length: int = 1  # at least 1; items of similar length are batched together
    share: float = 0.0  # fraction of a batch that the item fills; the shares of several items sum to at most 1
    alone: bool = False  # whether to batch the item only with items of the same `Batcher.submit` call


@dataclass(eq=False, slots=True)
class _QueuedItem(Generic[T, A]):
    item: T
    traits: Traits
    key: Hashable  # equal for all items of a batch
    rank: int  # position in its call of `submit`
    number: int  # increases in the order of arrival
    arrived_at: float
    deadline: float
    answer: asyncio.Future[A | Failure]

    def settle(self, answer: A | Failure) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class Abandoned(Exception):
    pass


class Batcher(Generic[T, A]):
    """Collects items and processes them in batches, in its own thread, so that the event loop stays free.

    A batch is the longest waiting item plus items of similar length. Of equally similar items, the i-th of every call
    precede the (i+1)-th of any call, so that a large call does not delay a small one. Items whose deadline has passed
    or whose caller was cancelled are dropped.
    """

    def __init__(
        self,
        work: Callable[[str, Sequence[T]], Sequence[A | Failure]],
        config: BatchConfig,
        traits: Callable[[T], Traits] = lambda item: Traits(),
        meters: Metrics | None = None,
    ) -> None:
        """`work` is called in the thread with the kind of work and the items of a batch; returns the answers in order.

        If it raises, the batch is halved repeatedly; a single item for which it raises gets INTERNAL.
        """
        self._work, self._config, self._traits, self._meters = work, config, traits, meters
        self._waiting: dict[int, _QueuedItem[T, A]] = {}  # by number, so in order of arrival
        self._numbers = itertools.count()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batch")
        self._worker: asyncio.Task[None] | None = None
        self._batch_is_full = asyncio.Event()
        self._batch: list[_QueuedItem[T, A]] = []  # the items that are being processed
        self._batch_started_at = 0.0
        self.consecutive_failures = 0  # failed items since the last successful one

    @property
    def load(self) -> int:
        """The number of items that wait or are being processed."""
        return len(self._waiting) + len(self._batch)

    def raise_if_abandoned(self) -> None:
        """For long-running work, in its thread: raises Abandoned if no caller waits for the current batch any more."""
        if self._batch and all(entry.answer.done() for entry in self._batch):
            raise Abandoned

    def is_stuck(self, seconds: float) -> bool:
        return bool(self._batch) and time.monotonic() - self._batch_started_at > seconds

    async def run(self, call: Callable[[], R]) -> R:
        """Runs `call` in the batch thread, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def submit(self, items: Sequence[T], seconds: float) -> list[A | Failure]:
        """An answer for each item: a result, or Failure: "deadline" after `seconds`, "busy" if the queue is full."""
        now, call = asyncio.get_running_loop().time(), next(self._numbers)
        entries = [self._entry(item, call, rank, now, now + seconds) for rank, item in enumerate(items)]
        pending = [entry.answer for entry in entries if not entry.answer.done()]
        try:
            if pending:
                self._start_worker()
                await asyncio.wait(pending, timeout=seconds)
        finally:
            for entry in entries:
                self._waiting.pop(entry.number, None)
                entry.settle(TIMEOUT)
        return [entry.answer.result() for entry in entries]

    def _entry(self, item: T, call: int, rank: int, now: float, deadline: float) -> _QueuedItem[T, A]:
        traits = self._traits(item)
        key = (traits.work, traits.key, call if traits.alone else None)
        answer: asyncio.Future[A | Failure] = asyncio.get_running_loop().create_future()
        entry = _QueuedItem(item, traits, key, rank, next(self._numbers), now, deadline, answer)
        if deadline <= now:
            entry.settle(TIMEOUT)
        elif len(self._waiting) >= self._config.queue:
            entry.settle(Failure("busy", f"the queue is full ({self._config.queue} records); try again later"))
        else:
            self._waiting[entry.number] = entry
        return entry

    def _start_worker(self) -> None:
        if self._worker is None or self._worker.done():
            self._batch_is_full = asyncio.Event()
            self._worker = asyncio.get_running_loop().create_task(self._run())
        if self._fills_batch():
            self._batch_is_full.set()

    def _fills_batch(self) -> bool:
        waiting = self._waiting
        return len(waiting) >= self._config.records or sum(entry.traits.share for entry in waiting.values()) >= 1

    async def _run(self) -> None:
        """Processes batches until no item waits; `_start_worker` then starts a new task for the next item."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._wait_for_items()
            batch = self._take_batch(loop.time())
            if not batch:
                continue
            self._batch_started_at, self._batch = time.monotonic(), batch
            if self._meters:
                self._meters.queue(len(self._waiting))
            wait_seconds = loop.time() - batch[0].arrived_at
            try:
                work, items = batch[0].traits.work, [entry.item for entry in batch]
                answers = await loop.run_in_executor(self._thread, self._answers, work, items)
                for entry, answer in zip(batch, answers, strict=True):
                    entry.settle(answer)
                if self._meters:
                    self._meters.batch(work, len(batch), wait_seconds, time.monotonic() - self._batch_started_at)
            finally:  # every caller gets an answer, even after an error
                self._batch = []
                for entry in batch:
                    entry.settle(INTERNAL)

    async def _wait_for_items(self) -> None:
        """Waits until a batch is full or its oldest item has waited long enough."""
        self._batch_is_full.clear()
        if not self._fills_batch():
            oldest = next(iter(self._waiting.values()))
            seconds = oldest.arrived_at + self._config.wait_ms / 1000 - asyncio.get_running_loop().time()
            if seconds > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._batch_is_full.wait(), seconds)

    def _take_batch(self, now: float) -> list[_QueuedItem[T, A]]:
        for entry in [entry for entry in self._waiting.values() if entry.deadline <= now]:
            self._waiting.pop(entry.number).settle(TIMEOUT)
        if not self._waiting:
            return []
        oldest = next(iter(self._waiting.values()))

        def distance(entry: _QueuedItem[T, A]) -> tuple[bool, int, int, int]:
            octaves = abs(math.log2(entry.traits.length / oldest.traits.length))
            return entry is not oldest, int(octaves * 2), entry.rank, entry.number

        similar = sorted((entry for entry in self._waiting.values() if entry.key == oldest.key), key=distance)
        filled = itertools.accumulate(entry.traits.share for entry in similar[: self._config.records])
        count = max(1, sum(share <= 1 + 1e-9 for share in filled))
        return [self._waiting.pop(entry.number) for entry in similar[:count]]

    def _answers(self, work: str, items: Sequence[T]) -> list[A | Failure]:
        """The results of `work`; if it raises, both halves of the batch are retried separately."""
        try:
            answers = list(self._work(work, items))
            if len(answers) != len(items):
                raise RuntimeError(f"{len(answers)} answers to {len(items)} items")
            self.consecutive_failures = 0
            return answers
        except Abandoned:
            return [TIMEOUT] * len(items)
        except Exception:
            if len(items) == 1:
                _log.exception("a record could not be processed")
                self.consecutive_failures += 1
                return [INTERNAL]
        middle = len(items) // 2
        return self._answers(work, items[:middle]) + self._answers(work, items[middle:])


class Replica(ABC, Generic[T, A]):
    def __init__(self, config: ServeConfig, role: ReplicaConfig) -> None:
        """Loads the configured bundle, which must not be an alias, since an alias can move.

        Raises BundleError if the bundle is missing, has another fingerprint, or does not pass its self-test.
        """
        log_as_replica(config.log)
        torch.set_num_threads(max(1, int(role.cpus)))
        path, self._fingerprint = fetch(config.bundle, config.fingerprint)
        self._bundle = load_bundle(path)
        if role.gpus and not torch.cuda.is_available():
            raise BundleError(f"{role.gpus:g} GPUs are configured, but torch finds none")
        self._device = "cuda" if role.gpus else "cpu"
        if faults := smoke_test(self._bundle, device=self._device):
            raise BundleError(f"the bundle at {config.bundle} does not pass its self-test: {faults[0]}")
        self._address = config.shown_as or config.bundle
        self._max_batch_seconds, self._meters = config.limits.longest_deadline_s, Metrics()
        self._batcher: Batcher[T, A] = Batcher(self._work, config.batch, self._traits, self._meters)

    async def _answers(self, items: Sequence[T], seconds: float) -> ReplicaAnswers[Any]:
        """The answers to the items, or Failures after `seconds`; a batch may contain items of several calls."""
        return ReplicaAnswers(await self._batcher.submit(items, seconds), self._fingerprint)

    @abstractmethod
    def _work(self, work: str, items: Sequence[T]) -> Sequence[A | Failure]: ...

    @abstractmethod
    def _traits(self, item: T) -> Traits: ...

    @abstractmethod
    def _test(self) -> Sequence[str]:
        """Runs a self-test in the batcher's thread and returns its failures."""

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Called by Serve, for `serve.scaling.by_records`."""
        return {RECORDS: self._batcher.load}

    async def check_health(self) -> None:
        """Raises RuntimeError, so that Serve replaces the replica, if a batch hangs or records and self-test fail."""
        if self._batcher.is_stuck(self._max_batch_seconds):
            raise RuntimeError(f"a batch has been in progress for more than {self._max_batch_seconds:g} s")
        n_failed = self._batcher.consecutive_failures
        if n_failed >= _FAILURES_BEFORE_TEST:
            if faults := await self._batcher.run(self._test):
                raise RuntimeError(f"{n_failed} consecutive records failed, and so does the self-test: {faults[0]}")
            self._batcher.consecutive_failures = 0
        self._meters.bundle(self._fingerprint, self._address)
