"""Messages of workers are passed on to the user and the metrics; restarts without progress are counted."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from agggen.training.events import EventKind, TrainingEvent
from agggen.training.loop import Stage
from agggen.training.stopping import StopRequest
from agggen_platform.metrics import TrainingMetrics
from agggen_platform.storage.errors import StorageError
from agggen_platform.tracking import Tracker
from agggen_platform.training.events import EventSink, RunCoordinator, WorkerMessage, WorkerMonitor
from tests.unit.training.toy import config_of


class Job:
    """A job with its coordinator, which records all messages."""

    def __init__(self) -> None:
        self.newest: object = None
        self.events: list[TrainingEvent] = []
        self.notes: list[str] = []
        self.system: list[Mapping[str, float]] = []
        self.coordinator = RunCoordinator()
        meter = TrainingMetrics("r", config_of(Path("nowhere")))
        self.monitor = WorkerMonitor(3, self._newest, self.events.append, meter, self.notes.append, self.system.append)

    def _newest(self) -> object:
        if self.newest == "silent":
            raise StorageError("the store does not answer")
        return self.newest

    def receive(self, *messages: tuple[str, object]) -> None:
        for kind, content in messages:
            self.coordinator.send(WorkerMessage(kind, content))  # type: ignore[arg-type]
        self.monitor.handle(*self.coordinator.take_messages())


@pytest.fixture
def job() -> Job:
    return Job()


def test_restarts_without_a_newer_checkpoint_are_counted(job: Job) -> None:
    attempts_without_progress = []
    checkpoints = [None, None, None, None, 10, 10, 10, "silent", 20]
    for attempts, newest in zip((1, 0, 1, 1, 1, 1, 2, 1, 1), checkpoints, strict=True):
        job.newest = newest
        job.receive(*[("attempt", None)] * attempts)
        attempts_without_progress.append(job.monitor.attempts_without_progress)
    assert attempts_without_progress == [0, 0, 1, 2, 0, 1, 3, 4, 0]
    assert job.coordinator.state() == (False, 9)


def test_the_first_reason_of_an_attempt_is_kept(job: Job) -> None:
    """Later reasons, of other workers, only report the loss of this worker."""
    job.receive(("attempt", None), ("failure", "worker 1: the disk is gone"), ("failure", "worker 0: connection reset"))
    job.receive(("attempt", None))
    assert job.monitor.failure == "worker 1: the disk is gone"
    job.receive(("failure", "worker 0: no room"))
    assert job.monitor.failure == "worker 0: no room"


def test_events_remarks_and_system_metrics_arrive_in_order(job: Job) -> None:
    event, metrics = TrainingEvent("log", "joint", 1, 100, 0, math.inf), {"system/worker-1/gpu_0_memory": 512.0}
    job.receive(("workers", 3), ("event", event), ("remark", "an older one"), ("system", metrics), ("workers", 2))
    assert (job.events, job.system) == ([event], [metrics])
    assert job.notes == ["3 of 3 workers train", "an older one", "2 of 3 workers train again (restart 1)"]


def test_workers_without_heartbeats_are_reported(job: Job) -> None:
    assert not job.monitor.is_alive
    job.monitor.handle([WorkerMessage("workers", 3)], 0.0)
    assert job.monitor.is_alive
    for silence in (30.0, 61.0, 62.0, 0.0, 61.0):
        job.monitor.handle([], silence)
    assert not job.monitor.is_alive
    waiting = "still waiting for 3 workers: the cluster is busy, or has to grow"
    assert job.notes == ["3 of 3 workers train", waiting, waiting]


def test_the_heartbeats_response_contains_a_stop_request() -> None:
    coordinator = RunCoordinator()
    assert not coordinator.heartbeat() and coordinator.state() == (False, 0)
    coordinator.stop()
    assert coordinator.heartbeat()
    coordinator = RunCoordinator()
    coordinator.end("failed", "the loss is not finite")
    assert (coordinator.state(), coordinator.result()) == ((True, 0), ("failed", "the loss is not finite"))


def test_a_stage_that_ends_again_after_a_restart_does_not_move_the_common_loss_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between the end of the baseline and the upload of its last checkpoint."""
    steps: list[int] = []
    tracker = Tracker(runs_dir=tmp_path)
    monkeypatch.setattr(tracker, "log_metrics", lambda metrics, step: steps.extend([step] * ("dev_loss" in metrics)))
    sink = EventSink(tracker, TrainingMetrics("r", config_of(tmp_path)), lambda _: None, None, StopRequest())

    def send(kind: EventKind, stage: Stage, step: int) -> None:
        sink.send(TrainingEvent(kind, stage, step, 100, 1, 1.0, {"dev_loss": 1.0} if kind == "evaluation" else {}))

    for _ in range(2):
        send("evaluation", "baseline", 100)
        send("end", "baseline", 100)
    send("evaluation", "joint", 10)
    assert steps == [100, 100, 110]
