"""A trial in its process: training in a thread, in step with whoever decides about it.

Training calls back after each evaluation and waits there until it is told to go on or to stop. So a stopped trial ends
the way a finished one does: its tracking run is closed, and a run of Ray Train that it started gives its workers back.
(A Tune function that is stopped just never returns from its report; what it started is left to chance.)
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agggen.errors import StoppedError
from agggen_platform.config import Scalar
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.space import trial_config
from agggen_platform.sweep.study import finite, reason_of

Word = dict[str, Any]
"""What a trial has to say: an evaluation (``stage, step, value``), or that it is done: with the ``outcome`` finished
and what the work returned, or failed with a ``reason``."""

_PATIENCE = 60.0


class Conversation:
    """`work` in a thread of its own, one evaluation at a time."""

    def __init__(self, work: Callable[[Conversation], Word], measure: str) -> None:
        """`work` calls `evaluated` after each evaluation; `measure` is the metric to hand on."""
        self._work, self._measure = work, measure
        self._words: queue.SimpleQueue[Word] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="trial", daemon=True)
        self._waiting = False
        self.stopped = False
        """Whether the trial was told to stop."""

    def next(self) -> Word:
        """The next word; to ask for it means that the trial may go on."""
        if not self._thread.ident:
            self._thread.start()
        elif self._waiting:
            self._answers.put(False)
        word = self._words.get()
        self._waiting = not word["done"]
        return word

    def stop(self, patience: float = _PATIENCE) -> bool:
        """Has the trial stop where it waits; whether it did within `patience` seconds."""
        if self._waiting:
            self._waiting, self.stopped = False, True
            self._answers.put(True)
            self._thread.join(patience)
        return not self._thread.is_alive()

    def evaluated(self, stage: str, step: int, metrics: Mapping[str, float]) -> bool:
        """Called by the work: hands an evaluation on, waits for the decision, says whether to stop."""
        if not self.stopped:
            self._words.put({"done": False, "stage": stage, "step": step, "value": finite(metrics.get(self._measure))})
        return self.stopped or self._answers.get()

    def _run(self) -> None:
        try:
            word = {"outcome": "finished", **self._work(self)}
        except Exception as error:  # any fault of a trial is its result; the sweep goes on
            word = {"outcome": "failed", "reason": reason_of(error)}
        self._words.put({"done": True, **word})


@dataclass(frozen=True)
class TrialJob:
    """What all trials of a sweep have in common, sent to each."""

    config: JobConfig
    sweep: str
    runs_dir: Path
    folder: Path
    """Where the driver works: relative paths of the configuration start there."""
    measure: str

    def name(self, number: int) -> str:
        """The run of a trial."""
        return f"{self.sweep}-t{number:03d}"

    def run(self, number: int, params: Mapping[str, Scalar], conversation: Conversation) -> Word:
        """Trains, or goes on where this trial was cut off; returns what `Study.complete` wants to know."""
        from agggen_platform.training.job import train_job

        def show(news: object) -> None:
            # Stopped at the last epoch of a stage, the loop goes on to the next stage. Workers are told once more.
            if conversation.stopped and not self.config.cluster.workers:
                raise StoppedError("the trial was stopped early")

        config = trial_config(self.config, params)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                done = train_job(
                    config,
                    self.name(number),
                    runs_dir=self.runs_dir,
                    parent=self.sweep,
                    on_evaluation=conversation.evaluated,
                    show=show,
                )
            except ClaimedError:  # by this trial's former process, which outlived the driver and will end soon
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return {"bundle": done.address, "run": done.run_name, "seconds": done.seconds}
