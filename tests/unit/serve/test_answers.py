"""The memory of answers: bounded, and never of another request."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from serve.idempotency import LEASE_SECONDS, Answer, Answers, Begun
from tests.sent import sent
from tests.unit.serve.http_calls import Clock


def an_answer(size: int = 10) -> Answer:
    return Answer(200, ((b"content-type", b"text/plain"),), b"x" * size)


def test_a_replica_that_died_with_a_key_lets_go_of_it_in_time_and_cannot_answer_for_the_next(
    store: Answers, clock: Clock
) -> None:
    async def check() -> None:
        assert await store.begin("k", "c", "dead") is Begun.FIRST
        clock.now += LEASE_SECONDS - 1
        assert await store.begin("k", "c", "next") is Begun.RUNNING
        clock.now += 2
        assert await store.begin("k", "c", "next") is Begun.FIRST
        await store.finish("k", "dead", an_answer())
        await store.drop("k", "dead")
        await store.renew("k", "dead")
        assert await store.begin("k", "c", "third") is Begun.RUNNING
        await store.finish("k", "next", an_answer())
        await store.drop("k", "next")  # is over, so nothing happens
        assert await store.begin("k", "c", "third") == an_answer()

    asyncio.run(check())


def test_an_answer_is_forgotten_in_time_even_if_nobody_asks(store: Answers, clock: Clock) -> None:
    async def check() -> None:
        await store.begin("k", "c", "o")
        await store.finish("k", "o", an_answer())
        clock.now += 3599
        assert await store.begin("k", "c", "o") == an_answer()
        clock.now += 61
        await store.begin("else", "c", "o")
        await store.drop("else", "o")
        assert store.size == 0

    asyncio.run(check())


def test_the_longest_unused_is_forgotten_first() -> None:
    async def check() -> None:
        store = Answers(3 * 1700, 60)
        for key in "abc":
            await store.begin(key, key, "o")
            await store.finish(key, "o", an_answer(1000))
        assert isinstance(await store.begin("a", "a", "o"), Answer)
        await store.begin("d", "d", "o")
        await store.finish("d", "o", an_answer(1000))
        found = {key: await store.begin(key, key, "o") for key in "acdb"}
        assert [key for key, one in found.items() if one is Begun.FIRST] == ["b"]

    asyncio.run(check())


def test_an_answer_larger_than_the_memory_does_not_empty_it() -> None:
    async def check() -> None:
        store = Answers(5000, 60)
        for key, size in (("small", 100), ("large", 6000)):
            await store.begin(key, "c", "o")
            await store.finish(key, "o", an_answer(size))
        assert isinstance(await store.begin("small", "c", "o"), Answer)
        assert await store.begin("large", "c", "o") is Begun.FIRST

    asyncio.run(check())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "finish", "drop", "renew", "wait"]),
        st.sampled_from("abcdefgh"),
        st.sampled_from(["one", "two"]),
        st.integers(0, 3000),
    ),
    max_size=80,
)


@given(STEPS)
def test_the_memory_is_never_over_its_bytes_and_never_gives_an_answer_of_another_request(
    steps: list[tuple[str, str, str, int]],
) -> None:
    async def check() -> None:
        clock = Clock()
        store = Answers(4000, 100, clock)
        finished: dict[str, tuple[str, bytes]] = {}
        for number, (step, key, owner, size) in enumerate(steps):
            if step == "begin":
                found = await store.begin(key, owner, owner)
                if isinstance(found, Answer):
                    assert finished[key] == (owner, found.body)
            elif step == "finish":
                body = f"{number}".encode().ljust(size, b"x")
                if (entry := store._entries.get(key)) and entry.owner == owner:
                    finished[key] = (entry.content, body)
                await store.finish(key, owner, Answer(200, (), body))
            elif step == "wait":
                clock.now += size / 50
            else:
                await getattr(store, step)(key, owner)
            assert store.size == sum(entry.size for entry in store._entries.values()) <= 4000

    asyncio.run(check())


def test_what_goes_to_another_process_can() -> None:
    for one in (an_answer(), *Begun):
        assert sent(one) == one
    assert sent(Begun.FIRST) is Begun.FIRST
