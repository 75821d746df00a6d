"""Whether workers that are started again and again get on."""

from __future__ import annotations

from agggen_platform.storage.errors import StorageError
from agggen_platform.training.post import Advance, Post


def test_restarts_are_fruitless_until_there_is_a_newer_checkpoint() -> None:
    place: list[object] = [None]

    def newest() -> object:
        if place[0] == "silent":
            raise StorageError("the store does not answer")
        return place[0]

    advance = Advance(newest)
    found = []
    for attempts, now in [
        (0, None),
        (1, None),
        (1, None),
        (2, None),
        (3, None),
        (4, 10),
        (5, 10),
        (7, 10),
        (8, "silent"),
        (9, 20),
    ]:
        place[0] = now
        advance.hear(attempts)
        found.append(advance.fruitless)
    assert found == [0, 0, 0, 1, 2, 0, 1, 3, 4, 0]


def test_a_run_that_continues_is_no_fruitless_restart() -> None:
    advance = Advance(lambda: "joint at 300")
    advance.hear(1)
    assert advance.fruitless == 0


def test_the_first_reason_of_an_attempt_is_told() -> None:
    """The others only say that they miss the worker that died."""
    post = Post()
    post.attempt()
    post.failed("worker 1: the disk is gone")
    post.failed("worker 0: connection reset by peer")
    assert (post.take().attempts, post.take().failure) == (1, "worker 1: the disk is gone")
    post.attempt()
    assert (post.take().attempts, post.take().failure) == (2, "worker 1: the disk is gone"), "until there is another"
    post.failed("worker 0: no room")
    assert post.take().failure == "worker 0: no room"
