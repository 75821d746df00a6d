"""Runs all shards of a job in actors of Ray Data or in this process, and reports progress.

The pipeline of Ray Data gets descriptions of shards; actors read rows from the store and write to the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from agggen.errors import AggGenError
from agggen_platform.metrics import ShardsMeter
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import C, Done, Worker, with_attempts
from agggen_platform.storage.folder import Folder

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

_SECONDS_BETWEEN_METRICS = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress(Generic[C]):
    """The progress of a job."""

    shards: int
    total: int
    reused: int
    """Shards that an earlier run had done."""
    counts: C
    """Of this run."""
    seconds: float
    """Since the first shard started."""


class Work(Generic[C]):
    """The results of shards, in the order of their completion."""

    def __init__(
        self,
        results: Iterator[Done[C]],
        total: int,
        counts: type[C],
        progress: Callable[[Progress[C]], None],
        log: Tracker | None = None,
        metrics: Callable[[Progress[C]], dict[str, float]] = lambda _: {},
        meter: ShardsMeter | None = None,
    ) -> None:
        """
        Args:
            counts: the class of the tally.
            progress: is called after every shard.
            metrics: the speed of this run, for the run log.
            meter: exports metrics of every shard.
        """
        self._results, self._total, self._tell, self._log, self._more = results, total, progress, log, metrics
        self._meter = meter
        self.done: dict[int, Done[C]] = {}
        """The results by the index of their shards."""
        self._reused = 0
        self._began = self._logged = time.monotonic()
        self._fresh = counts()
        self.counts = counts()
        """Of all finished shards, those of earlier runs included."""
        self.retries = 0
        """Retries of shards whose worker died."""
        self.seconds = 0.0
        """The total working time of this run's workers."""

    def wait(self, shard: Shard) -> None:
        """Returns when the shard is finished.

        Raises:
            AggGenError: it failed.
        """
        while shard.index not in self.done:
            done = next(self._results, None)
            if done is None:
                raise JobError(f"no worker finished {shard}; run the same command again")
            self.done[done.shard] = done
            self._reused += done.reused
            self.counts.add(done.counts)
            self.retries += done.retries
            if not done.reused:
                self._fresh.add(done.counts)
                self.seconds += done.seconds
                if len(self.done) - self._reused == 1:
                    self._began = time.monotonic() - done.seconds
            self._tell(self.progress())
            if self._meter:
                self._meter.done(done, self._total - len(self.done))
            if self._log and time.monotonic() - self._logged >= _SECONDS_BETWEEN_METRICS:
                self._logged = time.monotonic()
                self._log.log_metrics(self.metrics(), step=len(self.done))

    def progress(self) -> Progress[C]:
        return Progress(
            len(self.done), self._total, self._reused, self._fresh, max(1e-9, time.monotonic() - self._began)
        )

    def metrics(self) -> dict[str, float]:
        """For the run log: counts of the whole job, and the speed of this run."""
        now = self.progress()
        counts = {name: float(count) for name, count in self.counts.numbers().items()}
        return counts | {"shards": now.shards} | self._more(now)


@contextmanager
def results(
    shards: Sequence[Shard],
    worker: type[Worker[C]],
    settings: Any,
    here: Callable[[], Worker[C]],
    actors: int | None,
    address: str | None,
    gpus: float = 0.0,
) -> Iterator[Iterator[Done[C]]]:
    """Runs the shards, in actors of a Ray cluster or in this process, as the results are consumed.

    Args:
        worker: the class of the actors, created from `settings`, which have the folder `out`.
        here: creates the worker of this process.
        actors: the largest number, with a CPU each; None: as many as the cluster has or gets; 0: this process.
        address: the Ray cluster (see ``ray_cluster``).
        gpus: the GPUs of each actor.

    Raises:
        JobError: the cluster is this machine alone, which has no GPU for an actor.
    """
    shards = with_attempts(shards, Folder(settings.out))
    if actors == 0 or not shards:
        with closing(here()) as local_worker:
            yield local_worker.runs(shards)
        return
    from agggen_platform.ray_cluster import connected

    with connected(address) as cluster:
        room = int(min(cluster.cpus, cluster.gpus / gpus if gpus else cluster.cpus))
        if gpus and not room:
            if cluster.local:
                raise JobError(f"an actor needs {gpus:g} GPUs (gpus_per_actor), and this machine has {cluster.gpus:g}")
            _log.warning("the cluster has no room for an actor with %g GPUs now; waiting for its autoscaler", gpus)
        done = by_actors(shards, worker, settings, min(actors or len(shards), len(shards)), room, gpus)
        try:
            yield done
        finally:
            done.close()


def by_actors(
    shards: Sequence[Shard], worker: type[Worker[C]], settings: Any, most: int, room: int, gpus: float
) -> Generator[Done[C]]:
    """`room`: the number of actors that fit now and are started; more actors make an autoscaler add nodes."""
    import ray.data

    _quiet()
    items = ray.data.from_items([{"shard": shard.as_json()} for shard in shards], override_num_blocks=len(shards))
    dataset = items.map_batches(
        worker,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(
            min_size=1, max_size=most, initial_size=max(1, min(most, room)), max_tasks_in_flight_per_actor=2
        ),
        num_cpus=1,
        num_gpus=gpus or None,
    )
    try:
        for table in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            for done in table["done"].drop_null().to_pylist():
                yield Done.from_json(done, worker.counts)
    except ray.exceptions.RayError as error:
        raise _explained(error) from error


def _quiet() -> None:
    """Silences Ray Data in the terminal; its log files have everything."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if type(handler).__name__ != "SessionFileHandler":
            handler.setLevel(logging.ERROR)


def _explained(error: BaseException) -> AggGenError:
    """The worker's `AggGenError`, else a `JobError` with the last line of the failure."""
    root = error
    while cause := getattr(root, "cause", None) or root.__cause__:
        root = cause
        if isinstance(root, AggGenError):
            return root
    if not str(root).strip():  # for actors that failed to start only Ray's own error has the reason
        root = error
    lines = [line for line in str(root).splitlines() if line.strip()] or [""]
    reason = f"{type(root).__name__}: {lines[-1].strip()}"
    return JobError(f"the workers failed ({reason}); finished shards are kept, the same command resumes")
