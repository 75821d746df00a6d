"""Events of a training run, and their receivers.

Workers send events and messages to the job through the actor `RunCoordinator`; `WorkerMonitor` handles the messages.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agggen.training.events import SendEvent, TrainingEvent
from agggen.training.stopping import StopRequest
from agggen_platform.metrics import TrainingMetrics
from agggen_platform.storage.errors import StorageError
from agggen_platform.tracking import Tracker

_WAITING_SECONDS = 60.0  # without a heartbeat: the user is told that the job waits for workers
_DEAD_SECONDS = 20.0  # without a heartbeat: worker 0 counts as dead


MessageKind = Literal["event", "attempt", "workers", "failure", "checkpoint", "remark", "system"]


@dataclass(frozen=True)
class WorkerMessage:
    """A message of a worker to the job.

    Contents: event: the `TrainingEvent`; attempt, when one starts: None; workers, when they start: their number;
    failure: the reason; checkpoint: the Unix time of its verification; remark: a text for the user; system: metrics.
    """

    kind: MessageKind
    content: Any = None


class RunCoordinator:
    """The actor between workers and job: passes messages to the job, and the request to stop to the workers."""

    def __init__(self) -> None:
        self._messages: list[WorkerMessage] = []
        self._n_attempts = 0
        self._stop = False
        self._result: tuple[str, str] | None = None
        self._heartbeat = time.monotonic()

    def send(self, message: WorkerMessage) -> None:
        self._messages.append(message)
        self._n_attempts += message.kind == "attempt"
        if message.kind == "workers":
            self._heartbeat = time.monotonic()

    def heartbeat(self) -> bool:
        """Called by worker 0; returns whether it should stop."""
        self._heartbeat = time.monotonic()
        return self._stop

    def end(self, kind: Literal["stopped", "failed"], message: str) -> None:
        """Called by worker 0: training has ended, and a retry would end in the same way."""
        self._result = (kind, message)

    def take_messages(self) -> tuple[list[WorkerMessage], float]:
        """Called by the job: returns the new messages, and the seconds since the last heartbeat."""
        messages, self._messages = self._messages, []
        return messages, time.monotonic() - self._heartbeat

    def stop(self) -> None:
        self._stop = True

    def state(self) -> tuple[bool, int]:
        """Returns whether no further attempt should start, and the number of attempts so far."""
        return self._stop or self._result is not None, self._n_attempts

    def result(self) -> tuple[str, str] | None:
        return self._result


class WorkerMonitor:
    """Handles the workers' messages in the job: informs the user, and counts attempts without progress."""

    def __init__(
        self,
        workers: int,
        newest_checkpoint: Callable[[], object],
        send: SendEvent,
        meter: TrainingMetrics,
        report: Callable[[str], None],
        log_system: Callable[[Mapping[str, float]], None] = lambda _: None,
    ) -> None:
        """`newest_checkpoint` returns an object that identifies the newest checkpoint, or raises StorageError."""
        self._workers, self._newest_checkpoint, self._send = workers, newest_checkpoint, send
        self._meter, self._report, self._log_system = meter, report, log_system
        self._n_attempts = self._n_starts = self._n_running = 0
        self._last_checkpoint: object = None
        self._is_waiting = self._has_failed = False
        self.is_alive = False  # whether worker 0 has sent a heartbeat in the last `_DEAD_SECONDS`
        self.attempts_without_progress = 0  # consecutive attempts that began at the same checkpoint as the one before
        self.failure = ""  # reason of the last failed attempt

    def handle(self, messages: Sequence[WorkerMessage], heartbeat_age: float) -> None:
        for message in messages:
            self._handle(message.kind, message.content)
        self.is_alive = self._n_starts > 0 and heartbeat_age <= _DEAD_SECONDS
        self._meter.set("training_workers", self._n_running if self.is_alive else 0)
        is_waiting = heartbeat_age > _WAITING_SECONDS
        if is_waiting and not self._is_waiting:
            self._report(f"still waiting for {self._workers} workers: the cluster is busy, or has to grow")
        self._is_waiting = is_waiting

    def _handle(self, kind: str, content: Any) -> None:
        match kind:
            case "event":
                self._send(content)
            case "attempt":
                self._handle_attempt()
            case "workers":
                restart = f" again (restart {self._n_starts})" if self._n_starts else ""
                self._report(f"{content} of {self._workers} workers train{restart}")
                if self._n_starts:
                    self._meter.add("training_restarts", 1)
                self._n_starts, self._n_running = self._n_starts + 1, content
            case "failure" if not self._has_failed:  # later failures often follow from the first
                self.failure, self._has_failed = content, True
            case "checkpoint":
                self._meter.checkpoint(content)
            case "remark":
                self._report(content)
            case "system":
                self._log_system(content)

    def _handle_attempt(self) -> None:
        try:
            checkpoint = self._newest_checkpoint()
        except StorageError:
            checkpoint = self._last_checkpoint
        no_progress = self._n_attempts > 0 and checkpoint == self._last_checkpoint
        self.attempts_without_progress = self.attempts_without_progress + 1 if no_progress else 0
        self._n_attempts, self._last_checkpoint, self._has_failed = self._n_attempts + 1, checkpoint, False


@dataclass
class EventSink:
    """Passes training events to run log, metrics, progress display and early stopping."""

    tracker: Tracker
    meter: TrainingMetrics
    show: Callable[[TrainingEvent], None]
    on_evaluation: Callable[[TrainingEvent], bool] | None
    stop: StopRequest
    _final_steps: dict[str, int] = field(default_factory=dict)  # number of updates of each stage that has ended

    def send(self, event: TrainingEvent) -> None:
        self.meter.event(event)
        if event.metrics:
            values = {f"{event.stage}/{name}": value for name, value in event.metrics.items()}
            self.tracker.log_metrics(values, step=event.step)
        if event.kind == "evaluation":  # one metric for both stages, so that one curve shows the whole run
            # After a restart, a stage may end a second time.
            step = event.step + sum(steps for stage, steps in self._final_steps.items() if stage != event.stage)
            self.tracker.log_metrics({"dev_loss": event.metrics["dev_loss"]}, step=step)
        if event.kind == "end":
            self._final_steps[event.stage] = event.step
        if event.samples:
            self.tracker.log_text(event.samples, f"samples/{event.stage}-{event.epoch:03d}.txt")
        self.show(event)
        if event.kind == "evaluation" and self.on_evaluation is not None and self.on_evaluation(event):
            self.stop.request()
