"""What a job tells Prometheus while it works, through Ray: training, jobs over shards, and what MLflow still lacks.

Ray's agent on each node exports the values: a gauge as ``ray_NAME``, a counter as ``ray_NAME_total``. In a process that
is not connected to Ray nothing is counted and no thread is started. Whatever becomes of its metrics, the job goes on.

Ray drops a gauge some twenty seconds after it was last set, so what a dead process said goes away by itself; those of a
living job are set anew by a thread.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from agggen_platform.job_config import JobConfig
    from agggen_platform.sharded.shards import Shard
    from agggen_platform.sharded.worker import Done
    from agggen_platform.training.news import News
    from agggen_platform.training.post import Heard

_log = logging.getLogger(__name__)
_REFRESH_SECONDS = 5.0  # Ray's processes export every 10


@dataclass(frozen=True)
class Metric:
    """One that jobs export."""

    name: str
    """As Ray is told."""
    kind: Literal["gauge", "counter"]
    about: str
    labels: tuple[str, ...]

    @property
    def exported(self) -> str:
        """As Prometheus finds it."""
        return f"ray_{self.name}" + ("_total" if self.kind == "counter" else "")


_RUN, _STAGE, _JOB = ("run",), ("run", "stage"), ("kind", "run")

UPDATES = Metric("agggen_training_updates", "counter", "Updates made, those made again after a restart too.", _STAGE)
PROGRESS = Metric("agggen_training_progress_ratio", "gauge", "Updates made of all that the stage may have.", _STAGE)
SPEED = Metric("agggen_training_texts_per_second", "gauge", "Texts trained on, since the last log line.", _STAGE)
LOSS = Metric("agggen_training_loss_nats", "gauge", "Mean loss a scored position.", (*_STAGE, "split"))
NORM = Metric("agggen_training_gradient_norm", "gauge", "Mean norm of the gradient before it is clipped.", _STAGE)
RATE = Metric("agggen_training_learning_rate", "gauge", "Of the last update.", _STAGE)
CHECKPOINT = Metric(
    "agggen_training_checkpoint_timestamp_seconds",
    "gauge",
    "When a checkpoint was last verified, in Unix time; before the first, when the job began to train.",
    _RUN,
)
INTERVAL = Metric("agggen_training_checkpoint_interval_seconds", "gauge", "storage.checkpoint_seconds.", _RUN)
WORKERS = Metric("agggen_training_workers", "gauge", "Workers that train; 0 while none does.", _RUN)
WANTED = Metric("agggen_training_workers_wanted", "gauge", "cluster.workers.", _RUN)
RESTARTS = Metric("agggen_training_restarts", "counter", "How often workers were started again.", _RUN)

ITEMS = Metric("agggen_job_items", "counter", "What became of the rows, by the names of the run log.", (*_JOB, "item"))
SHARDS = Metric("agggen_job_shards", "gauge", "Shards of the job.", _JOB)
LEFT = Metric("agggen_job_shards_left", "gauge", "Shards that are not done.", _JOB)
AGAIN = Metric("agggen_job_shards_again", "counter", "How often a shard was begun again after its worker died.", _JOB)
WORKED = Metric("agggen_job_work_seconds", "counter", "Seconds that workers worked, added up.", _JOB)
LAST = Metric(
    "agggen_job_shard_timestamp_seconds",
    "gauge",
    "When a shard was last done, in Unix time; before the first, when the work began.",
    _JOB,
)
DUPLICATES = Metric("agggen_job_duplicates", "gauge", "Records whose id an earlier record of the input has.", _JOB)
LIMIT = Metric("agggen_job_reject_limit_ratio", "gauge", "max_reject_share.", _JOB)

UNSENT = Metric("agggen_tracking_unsent_bytes", "gauge", "Of the run log, that MLflow has not taken.", _RUN)

METRICS = (
    *(UPDATES, PROGRESS, SPEED, LOSS, NORM, RATE, CHECKPOINT, INTERVAL, WORKERS, WANTED, RESTARTS),
    *(ITEMS, SHARDS, LEFT, AGAIN, WORKED, LAST, DUPLICATES, LIMIT, UNSENT),
)
"""All of them."""


class Board:
    """The metrics of one job. As a context manager it lets go of its gauges at the end."""

    def __init__(self, **labels: str) -> None:
        """`labels`: of every metric, such as the run."""
        self._labels = labels
        self._gauges: dict[tuple[Metric, tuple[tuple[str, str], ...]], float] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Sets a gauge; a value that is not finite is left out."""
        if not math.isfinite(value):
            return
        key = metric, tuple(sorted((self._labels | labels).items()))
        with self._lock:
            known = self._gauges.get(key) == value
            self._gauges[key] = value
        if not known and _record(metric, value, dict(key[1])):
            self._keep_alive()

    def add(self, metric: Metric, amount: float, **labels: str) -> None:
        """Adds to a counter, where the amount is above 0."""
        if amount > 0:
            _record(metric, amount, self._labels | labels)

    def close(self) -> None:
        """Gauges are set no more."""
        self._over.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keep_alive(self) -> None:
        with self._lock:
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._refresh, name="metrics", daemon=True)
                self._thread.start()

    def _refresh(self) -> None:
        while not self._over.wait(_REFRESH_SECONDS):
            with self._lock:
                gauges = list(self._gauges.items())
            for (metric, labels), value in gauges:
                _record(metric, value, dict(labels))


class TrainingMeter(Board):
    """How one training job gets on."""

    def __init__(self, run: str, config: JobConfig) -> None:
        super().__init__(run=run)
        self._steps: dict[str, int] = {}
        self._starts = 0
        self._wanted, self._interval = config.cluster.workers, config.storage.checkpoint_seconds

    def begin(self) -> None:
        """Training begins."""
        self.set(INTERVAL, self._interval)
        self.set(CHECKPOINT, time.time())
        if self._wanted:
            self.set(WANTED, self._wanted)
            self.set(WORKERS, 0)

    def hear(self, news: News) -> None:
        """What training said."""
        stage, said = news.stage, news.metrics
        self.add(UPDATES, news.step - self._steps.get(stage, news.step), stage=stage)
        self._steps[stage] = news.step
        share = news.step / news.total_steps if news.total_steps else 1.0
        self.set(PROGRESS, 1.0 if news.kind == "end" else share, stage=stage)
        for metric, name in ((SPEED, "texts_per_second"), (NORM, "gradient_norm"), (RATE, "learning_rate")):
            if name in said:
                self.set(metric, said[name], stage=stage)
        for split in ("train", "dev"):
            if f"{split}_loss" in said:
                self.set(LOSS, said[f"{split}_loss"], stage=stage, split=split)

    def workers(self, heard: Heard, silent: bool) -> None:
        """What the post has heard of the workers; `silent`: none is alive."""
        starts = len(heard.starts)
        if starts:
            self.add(RESTARTS, starts - max(self._starts, 1))
        self._starts = starts
        self.set(WORKERS, 0 if silent or not starts else heard.starts[-1])
        if heard.checkpoint:
            self.set(CHECKPOINT, heard.checkpoint)

    def checkpoint(self) -> None:
        """One was verified just now."""
        self.set(CHECKPOINT, time.time())


class ShardsMeter(Board):
    """How one job over shards gets on."""

    def __init__(self, kind: str, run: str, shards: Sequence[Shard], max_reject_share: float) -> None:
        super().__init__(kind=kind, run=run)
        self._shards, self._limit = shards, max_reject_share

    def begin(self) -> None:
        """The work begins."""
        self.set(SHARDS, len(self._shards))
        self.set(LEFT, len(self._shards))
        self.set(DUPLICATES, sum(len(shard.doubles) for shard in self._shards))
        self.set(LIMIT, self._limit)
        self.set(LAST, time.time())

    def done(self, done: Done[Any], left: int) -> None:
        """A shard is done, and so many are left; one that an earlier run had done counts as such only."""
        self.set(LEFT, left)
        if done.found:
            return
        self.set(LAST, time.time())
        self.add(AGAIN, done.again)
        self.add(WORKED, done.seconds)
        for item, count in done.counts.as_dict().items():
            self.add(ITEMS, count, item=item)


def _record(metric: Metric, value: float, labels: Mapping[str, str]) -> bool:
    """Tells Ray; whether this process is connected to it."""
    connected = getattr(sys.modules.get("ray"), "is_initialized", None)  # absent while another thread imports it
    if connected is None or not connected():
        return False
    try:
        instrument = _instrument(metric)
        (instrument.set if metric.kind == "gauge" else instrument.inc)(value, tags=dict(labels))
    except Exception as error:  # whatever becomes of Ray, the job goes on
        _say_once(f"{type(error).__name__}: {error}")
        return False
    return True


@cache
def _instrument(metric: Metric) -> Any:
    from ray.util.metrics import Counter, Gauge

    return (Gauge if metric.kind == "gauge" else Counter)(metric.name, metric.about, metric.labels)


@cache
def _say_once(why: str) -> None:
    _log.warning("metrics of this job are missing: %s", why)
