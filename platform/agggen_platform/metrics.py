"""Metrics of training, sharded jobs and run logs, exported to Prometheus through `ray.util.metrics`.

Ray's agent on each node exports a gauge as ``ray_NAME`` and a counter as ``ray_NAME_total``. Ray drops a gauge about 20
seconds after it was last set, so a thread sets all gauges again every few seconds; gauges of a dead process disappear.
A process that is not connected to Ray exports nothing. Errors of Ray are logged, not raised.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from agggen.training.events import TrainingEvent
    from agggen_platform.job_config import JobConfig
    from agggen_platform.sharded.shards import Shard
    from agggen_platform.sharded.worker import FinishedShard

_log = logging.getLogger(__name__)
_REFRESH_SECONDS = 5.0  # Ray's processes export every 10 seconds


@dataclass(frozen=True)
class Metric:
    name: str
    kind: Literal["gauge", "counter"]
    description: str
    labels: tuple[str, ...]


def _metric(name: str, kind: Literal["gauge", "counter"], labels: str, description: str) -> Metric:
    return Metric(f"agggen_{name}", kind, description, tuple(labels.split()))


METRICS = (
    _metric("training_updates", "counter", "run stage", "Optimizer updates, including those repeated after a restart."),
    _metric("training_progress_ratio", "gauge", "run stage", "Optimizer updates as a share of the stage's maximum."),
    _metric("training_texts_per_second", "gauge", "run stage", "Training texts per second since the last log line."),
    _metric("training_loss_nats", "gauge", "run stage split", "Mean loss per scored position."),
    _metric("training_gradient_norm", "gauge", "run stage", "Mean norm of the gradient before clipping."),
    _metric("training_learning_rate", "gauge", "run stage", "Learning rate of the last update."),
    _metric("training_checkpoint_timestamp_seconds", "gauge", "run", "Unix time of the last verified checkpoint."),
    _metric("training_checkpoint_interval_seconds", "gauge", "run", "The setting storage.checkpoint_seconds."),
    _metric("training_workers", "gauge", "run", "Workers that are training; 0 between restarts."),
    _metric("training_workers_wanted", "gauge", "run", "The setting cluster.workers."),
    _metric("training_restarts", "counter", "run", "Restarts of the workers."),
    _metric("job_items", "counter", "kind run item", "Rows by outcome (label item), named as in the run log."),
    _metric("job_shards", "gauge", "kind run", "Shards of the job."),
    _metric("job_shards_left", "gauge", "kind run", "Unfinished shards."),
    _metric("job_shard_retries", "counter", "kind run", "Retries of shards after their worker died."),
    _metric("job_work_seconds", "counter", "kind run", "Processing time, summed over all workers."),
    _metric("job_shard_timestamp_seconds", "gauge", "kind run", "Unix time when a shard was last finished."),
    _metric("job_duplicates", "gauge", "kind run", "Records with the id of an earlier record of the input."),
    _metric("job_reject_limit_ratio", "gauge", "kind run", "The setting max_reject_share."),
    _metric("tracking_unsent_bytes", "gauge", "run", "Bytes of the run log not yet sent to MLflow."),
)
"""All metrics. Timestamp gauges are initialized with the start time of the job."""
_BY_NAME = {metric.name.removeprefix("agggen_"): metric for metric in METRICS}


class JobMetrics:
    """The metrics of one job, all with `labels`. A context manager; stops refreshing the gauges at exit."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._gauges: dict[tuple[Metric, tuple[tuple[str, str], ...]], float] = {}
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def set(self, name: str, value: float, **labels: str) -> None:
        if not math.isfinite(value):
            return
        metric = _BY_NAME[name]
        key = metric, tuple(sorted((self._labels | labels).items()))
        with self._lock:
            is_changed = self._gauges.get(key) != value
            self._gauges[key] = value
            if not is_changed or not _record(metric, value, dict(key[1])) or self._thread or self._closed.is_set():
                return
            self._thread = threading.Thread(target=self._refresh, name="metrics", daemon=True)
            self._thread.start()

    def add(self, name: str, amount: float, **labels: str) -> None:
        if amount > 0:
            _record(_BY_NAME[name], amount, self._labels | labels)

    def close(self) -> None:
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh(self) -> None:
        while not self._closed.wait(_REFRESH_SECONDS):
            with self._lock:
                gauges = list(self._gauges.items())
            for (metric, labels), value in gauges:
                _record(metric, value, dict(labels))


class TrainingMetrics(JobMetrics):
    def __init__(self, run: str, config: JobConfig) -> None:
        super().__init__(run=run)
        self._steps: dict[str, int] = {}
        self._workers, self._interval = config.cluster.workers, config.storage.checkpoint_seconds

    def begin(self) -> None:
        self.set("training_checkpoint_interval_seconds", self._interval)
        self.checkpoint(time.time())
        if self._workers:
            self.set("training_workers_wanted", self._workers)
            self.set("training_workers", 0)

    def event(self, event: TrainingEvent) -> None:
        stage, values = event.stage, event.metrics
        self.add("training_updates", event.step - self._steps.get(stage, event.step), stage=stage)
        self._steps[stage] = event.step
        share = event.step / event.total_steps if event.total_steps else 1.0
        self.set("training_progress_ratio", 1.0 if event.kind == "end" else share, stage=stage)
        for name in ("texts_per_second", "gradient_norm", "learning_rate"):
            if name in values:
                self.set(f"training_{name}", values[name], stage=stage)
        for split in ("train", "dev"):
            if f"{split}_loss" in values:
                self.set("training_loss_nats", values[f"{split}_loss"], stage=stage, split=split)

    def checkpoint(self, timestamp: float) -> None:
        self.set("training_checkpoint_timestamp_seconds", timestamp)


class ShardMetrics(JobMetrics):
    def __init__(self, kind: str, run: str, shards: Sequence[Shard], max_reject_share: float) -> None:
        super().__init__(kind=kind, run=run)
        self._shards, self._max_reject_share = shards, max_reject_share

    def begin(self) -> None:
        self.set("job_shards", len(self._shards))
        self.set("job_shards_left", len(self._shards))
        self.set("job_duplicates", sum(len(shard.duplicates) for shard in self._shards))
        self.set("job_reject_limit_ratio", self._max_reject_share)
        self.set("job_shard_timestamp_seconds", time.time())

    def add_shard(self, result: FinishedShard[Any], unfinished: int) -> None:
        """Counts a finished shard, unless an earlier run finished it. `unfinished`: number of unfinished shards."""
        self.set("job_shards_left", unfinished)
        if result.reused:
            return
        self.set("job_shard_timestamp_seconds", time.time())
        self.add("job_shard_retries", result.retries)
        self.add("job_work_seconds", result.seconds)
        for item, count in result.counts.numbers().items():
            self.add("job_items", count, item=item)


def _record(metric: Metric, value: float, labels: dict[str, str]) -> bool:
    """Passes a value to Ray; returns False if this process is not connected to Ray, or Ray failed."""
    is_connected = getattr(sys.modules.get("ray"), "is_initialized", None)  # None while another thread imports Ray
    if is_connected is None or not is_connected():
        return False
    try:
        instrument = _instrument(metric)
        (instrument.set if metric.kind == "gauge" else instrument.inc)(value, tags=labels)
    except Exception as error:  # an error of Ray must not stop the job
        _warn_once(f"{type(error).__name__}: {error}")
        return False
    return True


@cache
def _instrument(metric: Metric) -> Any:
    from ray.util.metrics import Counter, Gauge

    return (Gauge if metric.kind == "gauge" else Counter)(metric.name, metric.description, metric.labels)


@cache
def _warn_once(reason: str) -> None:
    _log.warning("metrics of this job are not exported to Ray: %s", reason)
