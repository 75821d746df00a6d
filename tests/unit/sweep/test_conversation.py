"""A trial in step with whoever decides about it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agggen.errors import TrainingError
from agggen_platform.sweep.trial import Conversation, Word


def conversation(work: Callable[[Conversation], Word]) -> Conversation:
    return Conversation(work, "dev_loss")


def test_evaluations_come_one_by_one_and_then_the_end() -> None:
    seen: list[bool] = []

    def work(talk: Conversation) -> Word:
        seen.append(talk.evaluated("baseline", 10, {"dev_loss": 2.0, "bleu": 3.0}))
        seen.append(talk.evaluated("joint", 5, {"bleu": 3.0}))
        seen.append(talk.evaluated("joint", 6, {"dev_loss": float("nan")}))
        return {"bundle": "b"}

    trial = conversation(work)
    assert trial.next() == {"done": False, "stage": "baseline", "step": 10, "value": 2.0}
    assert seen == []  # it waits
    assert trial.next() == {"done": False, "stage": "joint", "step": 5, "value": None}
    assert seen == [False]
    assert trial.next()["value"] is None
    assert trial.next() == {"done": True, "outcome": "finished", "bundle": "b"}
    assert seen == [False, False, False]
    assert trial.stop(1.0)


def test_a_stopped_trial_is_told_so_and_ends_in_its_own_way() -> None:
    closed = threading.Event()

    def work(talk: Conversation) -> Word:
        try:
            while not talk.evaluated("joint", 1, {"dev_loss": 1.0}):
                pass
            assert talk.evaluated("joint", 2, {"dev_loss": 1.0})  # it may take a while to come to an end
            raise TrainingError("stopped after update 1")
        finally:
            closed.set()

    trial = conversation(work)
    trial.next()
    trial.next()
    assert not closed.is_set()
    assert trial.stop(10.0)
    assert closed.is_set()


def test_a_trial_that_was_never_begun_can_be_stopped() -> None:
    assert conversation(lambda talk: {}).stop(1.0)


def test_faults_are_results() -> None:
    def wrong(talk: Conversation) -> Word:
        raise TrainingError("the loss is\nnot finite")

    def broken(talk: Conversation) -> Word:
        raise ZeroDivisionError("division by zero")

    assert conversation(wrong).next() == {"done": True, "outcome": "failed", "reason": "the loss is not finite"}
    word = conversation(broken).next()
    assert word["reason"].startswith("ZeroDivisionError: division by zero at test_conversation.py:")
