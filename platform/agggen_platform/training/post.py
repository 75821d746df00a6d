"""What a job and the workers that it started on a cluster tell each other, and what of it the user hears."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agggen_platform.job_config import JobConfig
from agggen_platform.storage.errors import StorageError
from agggen_platform.training.news import News

PATIENCE_SECONDS = 60.0
"""Before it is said that there are no workers."""


@dataclass(frozen=True)
class Heard:
    """What the job hears from the post."""

    starts: list[int]  # how many workers there were at each start
    silence: float  # seconds since worker 0 was heard of last
    news: list[News]  # since the job asked last
    remarks: list[str]  # likewise
    attempts: int  # how often workers began, whether or not they came to train
    failure: str  # of the last attempt that could say why it failed; empty where none could
    checkpoint: float = 0.0  # when one was last verified, in Unix time; 0: none was yet


class Post:
    """What the job and worker 0 tell each other; an actor."""

    def __init__(self) -> None:
        self._news: list[News] = []
        self._remarks: list[str] = []
        self._starts: list[int] = []
        self._stop = False
        self._end: tuple[str, str] | None = None
        self._controller: Any = None
        self._group: Any = None
        self._attempts, self._failure, self._checkpoint = 0, "", 0.0
        self._failed = False  # the present attempt
        self._alive = time.monotonic()

    def attempt(self) -> None:
        """Worker 0: workers begin."""
        self._attempts += 1
        self._failed = False

    def failed(self, reason: str) -> None:
        """A worker: an attempt ends, and another may do better."""
        if not self._failed:  # what other workers say is often only that they lost this one
            self._failure, self._failed = reason, True

    def start(self, workers: int) -> None:
        self._alive = time.monotonic()
        self._starts.append(workers)

    def put(self, news: News) -> None:
        self._news.append(news)

    def kept(self) -> None:
        """Worker 0: a checkpoint was verified."""
        self._checkpoint = time.time()

    def remark(self, sentence: str) -> None:
        """Something that the user should read."""
        self._remarks.append(sentence)

    def take(self) -> Heard:
        silence = time.monotonic() - self._alive
        heard = Heard(
            list(self._starts), silence, self._news, self._remarks, self._attempts, self._failure, self._checkpoint
        )
        self._news, self._remarks = [], []
        return heard

    def stop(self) -> None:
        self._stop = True

    def stopping(self) -> bool:
        """Worker 0 asks all the time, which is also its sign of life."""
        self._alive = time.monotonic()
        return self._stop

    def controlled(self, controller: Any) -> None:
        """By this actor of Ray Train."""
        self._controller = controller

    def controller(self) -> Any:
        return self._controller

    def placed(self, group: Any) -> None:
        """The controller: this placement group is asked for, for the workers that it will start."""
        self._group = group

    def group(self) -> Any:
        return self._group

    def end(self, kind: str, message: str) -> None:
        """Worker 0: training cannot go on, which all workers found alike; another attempt would end the same way."""
        self._end = (kind, message)

    def ended(self) -> tuple[str, str] | None:
        return self._end


class Advance:
    """Whether workers that are started again and again get on: whether there is a newer checkpoint each time."""

    def __init__(self, newest: Callable[[], object]) -> None:
        """`newest`: what names the newest checkpoint; raises StorageError where that cannot be known now."""
        self._newest, self._known = newest, 0
        self._place: object = None
        self.fruitless = 0
        """Attempts in a row that began where the one before them did."""

    def hear(self, attempts: int) -> None:
        if attempts == self._known:
            return
        try:
            place = self._newest()
        except StorageError:
            place = self._place
        self.fruitless = self.fruitless + attempts - self._known if place == self._place and self._known else 0
        self._place, self._known = place, attempts


class Crier:
    """Says what becomes of the workers."""

    def __init__(self, config: JobConfig, say: Callable[[str], None]) -> None:
        self.config, self.say, self.known, self.waits = config, say, 0, False

    def hear(self, heard: Heard) -> None:
        for number, workers in enumerate(heard.starts[self.known :], start=self.known):
            again = f" again (restart {number})" if number else ""
            self.say(f"{workers} of {self.config.cluster.workers} workers train{again}")
        self.known = len(heard.starts)
        for remark in heard.remarks:
            self.say(remark)
        waited, self.waits = self.waits, heard.silence > PATIENCE_SECONDS
        if self.waits and not waited:
            self.say(f"still waiting for {self.config.cluster.workers} workers: the cluster is busy, or has to grow")
