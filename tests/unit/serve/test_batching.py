"""The batcher: each item gets exactly one answer in time, independently of failing items."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen_platform.serving.config import BatchConfig
from serve.batching import Batcher, Traits
from serve.engine import Failure
from serve.observe import Metrics
from tests.unit.serve.http_calls import LONG, asynchronous, until


class Doubling(Batcher[int, int]):
    """A batcher without delay that doubles numbers in batches of at most 8 and records the batches."""

    def __init__(
        self, traits: Callable[[int], Traits] = lambda item: Traits(), meters: Metrics | None = None, **config: float
    ) -> None:
        settings: dict[str, Any] = {"records": 8, "wait_ms": 0} | config
        super().__init__(self.double, BatchConfig(**settings), traits, meters)
        self.batches: list[list[int]] = []
        self.works: list[str] = []
        self.threads: set[int] = set()
        self.begun, self.free = threading.Event(), threading.Event()
        self.free.set()

    def double(self, work: str, items: Sequence[int]) -> list[int | Failure]:
        self.threads.add(threading.get_ident())
        self.works.append(work)
        self.batches.append(list(items))
        self.begun.set()
        assert self.free.wait(LONG)
        if any(item < 0 for item in items):
            raise RuntimeError("a secret")
        return [Failure("record", "odd") if item == 13 else 2 * item for item in items]

    async def call_in_progress(self, item: int = 1) -> asyncio.Task[Any]:
        """Starts a call whose batch is in progress until `free` is set."""
        self.free.clear()
        call = self.call(item)
        await asyncio.to_thread(self.begun.wait, LONG)
        return call

    def call(self, *items: int) -> asyncio.Task[Any]:
        return asyncio.create_task(self.submit(items, LONG))


def codes(answers: Sequence[int | Failure]) -> list[int | str]:
    return [answer.code if isinstance(answer, Failure) else answer for answer in answers]


@asynchronous
async def test_calls_share_full_batches_that_one_other_thread_processes() -> None:
    batcher = Doubling(records=3, wait_ms=60_000)
    first, second = await asyncio.gather(batcher.call(5, 13, 7, 8), batcher.call(1, 2))
    assert (codes(first), second) == ([10, "record", 14, 16], [2, 4])
    assert await batcher.submit([], LONG) == []
    assert await batcher.run(threading.get_ident) in batcher.threads
    assert len(batcher.threads) == 1 and threading.get_ident() not in batcher.threads
    assert [len(batch) for batch in batcher.batches] == [3, 3]


@asynchronous
async def test_a_full_queue_refuses_items_until_it_has_room() -> None:
    batcher = Doubling(records=1, queue=2)
    first, second = await batcher.call_in_progress(), batcher.call(2, 3, 4)
    await asyncio.sleep(0)
    assert batcher.load == 3
    (refused,) = await batcher.submit([5], LONG)
    assert isinstance(refused, Failure) and refused.code == "busy" and "full (2 records)" in refused.message
    batcher.free.set()
    assert (await first, codes(await second)) == ([2], [4, 6, "busy"])
    assert await batcher.submit([6, 7], LONG) == [12, 14]


@asynchronous
async def test_late_items_and_those_of_cancelled_callers_are_not_processed() -> None:
    batcher = Doubling(records=1)
    first = await batcher.call_in_progress()
    assert not batcher.is_stuck(LONG) and batcher.is_stuck(0)
    assert codes(await batcher.submit([2, 3], 0.02)) == ["deadline"] * 2
    assert codes(await batcher.submit([4], 0)) == ["deadline"]
    assert batcher.load == 1  # late items are removed from the queue
    cancelled, waiting = batcher.call(5, 6), batcher.call(7)
    await asyncio.sleep(0)
    cancelled.cancel()
    first.cancel()  # even if its batch is in progress
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    batcher.free.set()
    assert await waiting == [14]
    assert not batcher.is_stuck(0)
    assert batcher.batches == [[1], [7]]


@asynchronous
async def test_work_is_abandoned_after_its_last_caller_was_cancelled() -> None:
    checks = 0

    def work(kind: str, items: Sequence[int]) -> list[int]:
        nonlocal checks
        while 0 in items:  # until all callers are cancelled
            checks += 1
            time.sleep(0.01)
            batcher.raise_if_abandoned()
        return list(items)

    batcher: Batcher[int, int] = Batcher(work, BatchConfig(records=2, wait_ms=50))
    first, second = (asyncio.create_task(batcher.submit([0], LONG)) for _ in range(2))
    await until(lambda: checks)
    first.cancel()
    before = checks
    await until(lambda: checks >= before + 5)  # one caller is still waiting
    second.cancel()
    assert await batcher.submit([1], LONG) == [1]
    assert batcher.consecutive_failures == 0


@asynchronous
async def test_a_failing_item_fails_without_the_others_and_without_details(caplog: pytest.LogCaptureFixture) -> None:
    batcher = Doubling(records=100)
    answers = await batcher.submit([*range(1, 13), -1, *range(14, 50)], LONG)
    assert codes(answers) == [*range(2, 26, 2), "internal", *range(28, 100, 2)]
    assert "secret" not in str(answers) and "a secret" in caplog.text and "Traceback" in caplog.text
    assert batcher.consecutive_failures == 0
    assert codes(await batcher.submit([-1, -2], LONG)) == ["internal"] * 2
    assert batcher.consecutive_failures == 2


@pytest.mark.parametrize(
    ("traits", "calls", "batches"),
    [
        (lambda item: Traits("odd" if item % 2 else "even"), [[1, 2, 3], [4, 5, 6]], [[1, 5, 3], [2, 4, 6]]),
        (lambda item: Traits(key=item % 2), [[1, 2, 3], [4, 5, 6]], [[1, 5, 3], [2, 4, 6]]),
        (lambda item: Traits(alone=item < 5), [[1, 2], [3, 4], [5], [6]], [[1, 2], [3, 4], [5, 6]]),
    ],
    ids=["work", "key", "alone"],
)
@asynchronous
async def test_items_share_a_batch_according_to_their_measures(
    traits: Callable[[int], Traits], calls: list[list[int]], batches: list[list[int]]
) -> None:
    batcher = Doubling(traits)
    await asyncio.gather(*(batcher.call(*items) for items in calls))
    assert batcher.batches == batches
    assert batcher.works == [traits(batch[0]).work for batch in batches]


@asynchronous
async def test_a_batch_has_the_oldest_item_and_those_nearest_in_length() -> None:
    batcher = Doubling(lambda item: Traits(length=item), records=3)
    calls = [await batcher.call_in_progress(100)]
    for items in ([200], [10, 11, 12], [210], [9], [190]):
        calls.append(batcher.call(*items))
        await asyncio.sleep(0)
    batcher.free.set()
    await asyncio.gather(*calls)
    assert batcher.batches == [[100], [200, 210, 190], [10, 9, 11], [12]]


@asynchronous
async def test_the_shares_of_the_items_of_a_batch_sum_to_at_most_one() -> None:
    batcher = Doubling(lambda item: Traits(share=item / 10), wait_ms=60_000)
    await batcher.submit([2, 3, 5, 4, 6, 25, 7, 3], LONG)  # a full batch starts at once
    assert batcher.batches == [[2, 3, 5], [4, 6], [25], [7, 3]]


@asynchronous
async def test_a_large_call_does_not_delay_a_small_one() -> None:
    batcher = Doubling(records=4)
    calls = [await batcher.call_in_progress(), batcher.call(*range(100)), batcher.call(500)]
    await asyncio.sleep(0)
    batcher.free.set()
    assert await calls[2] == [1000]
    assert not calls[1].done()
    await asyncio.gather(*calls)
    assert 500 in batcher.batches[1]


def test_meters_record_the_queue_and_each_batch() -> None:
    observed: list[Any] = []

    class Observed(Metrics):
        def queue(self, waiting: int) -> None:
            observed.append(waiting)

        def batch(self, work: str, records: int, waited: float, worked: float) -> None:
            assert 0 <= waited <= LONG and 0 <= worked <= LONG
            observed.append((work, records))

    batcher = Doubling(lambda item: Traits("double"), Observed(), records=2)
    assert asyncio.run(batcher.submit([1, 2, 3], LONG)) == [2, 4, 6]
    assert observed == [1, ("double", 2), 0, ("double", 1)]


@dataclass(frozen=True)
class Call:
    items: list[int]  # negative: raises
    after: int  # event-loop steps before the submission
    seconds: float
    cancelled_after: int | None  # event-loop steps after the submission


CALLS = st.lists(
    st.builds(
        Call,
        st.lists(st.integers(-2, 9), min_size=0, max_size=6),
        st.integers(0, 6),
        st.sampled_from([0.0, 0.001, LONG, LONG, LONG]),
        st.none() | st.integers(0, 12),
    ),
    max_size=8,
)


@settings(max_examples=150)
@given(CALLS, st.integers(1, 5), st.integers(1, 12), st.sampled_from([0.0, 0.5]))
def test_every_item_gets_exactly_one_answer(calls: list[Call], records: int, queue: int, wait_ms: float) -> None:
    """In any order of arrivals, failures and cancellations; no item succeeds twice."""
    done: list[tuple[int, int]] = []

    def work(_: str, items: Sequence[tuple[int, int]]) -> list[int | Failure]:
        if any(value < 0 for _, value in items):
            raise RuntimeError
        done.extend(items)
        return [2 * value for _, value in items]

    batcher = Batcher(work, BatchConfig(records, wait_ms, queue), lambda item: Traits(length=abs(item[1]) + 1))
    numbered = iter(range(1000))

    async def caller(call: Call) -> None:
        for _ in range(call.after):
            await asyncio.sleep(0)
        items = [(next(numbered), value) for value in call.items]
        task = asyncio.create_task(batcher.submit(items, call.seconds))
        if call.cancelled_after is not None:
            for _ in range(call.cancelled_after):
                await asyncio.sleep(0)
            task.cancel()
        (answers,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(answers, BaseException):
            assert isinstance(answers, asyncio.CancelledError) and call.cancelled_after is not None
            return
        assert len(answers) == len(items)
        for (_, value), answer in zip(items, answers, strict=True):
            if isinstance(answer, Failure):
                assert answer.code in ("busy", *["deadline"] * (call.seconds < LONG), *["internal"] * (value < 0))
            else:
                assert value >= 0 and answer == 2 * value and call.seconds > 0

    async def test() -> None:
        await asyncio.gather(*map(caller, calls))
        while batcher.load:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(test(), LONG))
    assert len(done) == len(set(done))
