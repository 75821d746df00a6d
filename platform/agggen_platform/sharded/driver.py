"""Processes all shards of a job, by actors of Ray Data or in this process, and reports progress.

The shards are the items of a Ray Data pipeline with one stage of actors. Only descriptions of shards pass through Ray:
the rows go from the store to the actor and from the actor to the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from agggen.errors import AggGenError
from agggen_platform.metrics import ShardsMeter
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import C, Done, Worker

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

_SECONDS_BETWEEN_METRICS = 10.0


@dataclass(frozen=True)
class Progress(Generic[C]):
    """The progress of a job."""

    shards: int
    total: int
    found: int
    """Shards that an earlier run had finished."""
    counts: C
    """Of this run."""
    seconds: float
    """Since the first shard could be worked on."""


class Work(Generic[C]):
    """Collects finished shards, in whatever order they arrive."""

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
            counts: the subclass of `Tally`.
            progress: called after every shard.
            metrics: the speed of this run, for the run log.
            meter: exports metrics of every shard.
        """
        self._results, self._total, self._tell, self._log, self._more = results, total, progress, log, metrics
        self._meter = meter
        self._done: set[str] = set()
        self._found = 0
        self._began = self._logged = time.monotonic()
        self._fresh = counts()
        self.counts = counts()
        """Of all finished shards, of this run or an earlier one."""
        self.retries = 0
        """Attempts at shards that ended with the death of their worker."""
        self.seconds = 0.0
        """Working time of this run's workers, added up."""

    def wait(self, shard: Shard) -> None:
        """Returns when the shard is finished.

        Raises:
            AggGenError: it cannot be finished.
        """
        while shard.part not in self._done:
            done = next(self._results, None)
            if done is None:
                raise JobError(f"no worker finished {shard}; run the same command again")
            self._done.add(done.part)
            self._found += done.found
            self.counts.add(done.counts)
            self.retries += done.retries
            if not done.found:
                self._fresh.add(done.counts)
                self.seconds += done.seconds
                if len(self._done) - self._found == 1:
                    self._began = time.monotonic() - done.seconds
            self._tell(self.progress())
            if self._meter:
                self._meter.done(done, self._total - len(self._done))
            if self._log and time.monotonic() - self._logged >= _SECONDS_BETWEEN_METRICS:
                self._logged = time.monotonic()
                self._log.log_metrics(self.metrics(), step=len(self._done))

    def progress(self) -> Progress[C]:
        return Progress(
            len(self._done), self._total, self._found, self._fresh, max(1e-9, time.monotonic() - self._began)
        )

    def metrics(self) -> dict[str, float]:
        """For the run log: counts of the whole job, and the speed of this run."""
        now = self.progress()
        counts = {name: float(count) for name, count in self.counts.as_dict().items()}
        return counts | {"shards": now.shards} | self._more(now)


@contextmanager
def results(
    shards: Sequence[Shard],
    worker: type[Worker[C]],
    settings: Any,
    make_worker: Callable[[], Worker[C]],
    actors: int | None,
    address: str | None,
    gpus: float = 0.0,
) -> Iterator[Iterator[Done[C]]]:
    """Processes the shards as the results are consumed: by actors of a Ray cluster, or in this process.

    Args:
        worker: the class of the actors, constructed from `settings`.
        make_worker: makes the worker of this process.
        actors: their number; None: one a CPU, or as many as the GPUs allow; 0: no actors, this process works.
        address: of the Ray cluster (see ``ray_cluster``).
        gpus: GPUs that each actor books.

    Raises:
        JobError: the cluster has too few GPUs.
    """
    if actors == 0 or not shards:
        with closing(make_worker()) as local:
            yield map(local.run, shards)
        return
    from agggen_platform.ray_cluster import connected

    with connected(address) as cluster:
        if gpus:
            room = int(cluster.gpus / gpus)
            if room < (actors or 1):
                raise JobError(f"{actors or 1} actors with {gpus:g} GPUs each: the cluster has {cluster.gpus:g}")
            actors = actors or room
        count, cpus = cluster.actors(actors, len(shards))
        done = _by_actors(shards, worker, settings, count, cpus, gpus)
        try:
            yield done
        finally:
            done.close()


def _by_actors(
    shards: Sequence[Shard], worker: type[Worker[C]], settings: Any, actors: int, cpus: float, gpus: float
) -> Generator[Done[C]]:
    import ray.data

    _quiet()
    items = ray.data.from_items([{"shard": shard.as_json()} for shard in shards], override_num_blocks=len(shards))
    dataset = items.map_batches(
        worker,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )
    try:
        for row in dataset.iter_rows():
            yield Done.from_json(row["done"], worker.counts)
    except ray.exceptions.RayError as error:
        raise _explained(error) from error


def _quiet() -> None:
    """Keeps Ray Data's messages out of the terminal; its own log files have them."""
    import logging

    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if type(handler).__name__ != "SessionFileHandler":
            handler.setLevel(logging.ERROR)


def _explained(error: BaseException) -> AggGenError:
    """The worker's own error if it is meant for users, else an error that says that the workers failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AggGenError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return JobError(
        f"the workers failed ({type(error).__name__}: {lines[-1].strip() if lines else ''}); finished shards are kept, "
        "the same command continues"
    )
