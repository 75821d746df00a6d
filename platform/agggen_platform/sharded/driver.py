"""Has all shards of a job done, by actors of Ray Data or in this process, and tells how far it is.

The shards are the items of a Ray Data pipeline with one stage of actors. What passes through Ray are descriptions of
shards: the rows go from the store to the actor and from the actor to the store.
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
    """How far a job is."""

    shards: int
    total: int
    reused: int
    """Shards that an earlier run had done."""
    counts: C
    """Of this run."""
    seconds: float
    """Since the first shard could be worked on."""


class Work(Generic[C]):
    """The shards as they come in, in whatever order."""

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
            counts: the kind of tally.
            progress: is told after every shard.
            metrics: the speed of this run, for the run log.
            meter: is told of every shard.
        """
        self._results, self._total, self._tell, self._log, self._more = results, total, progress, log, metrics
        self._meter = meter
        self.done: dict[int, Done[C]] = {}
        """What became of each shard, by its index."""
        self._reused = 0
        self._began = self._logged = time.monotonic()
        self._fresh = counts()
        self.counts = counts()
        """Of all shards that are done, by this run or before."""
        self.retries = 0
        """How often a shard was begun again, because workers died."""
        self.seconds = 0.0
        """That workers of this run worked, added up."""

    def wait(self, shard: Shard) -> None:
        """Returns when the shard is done.

        Raises:
            AggGenError: it will not be.
        """
        while shard.index not in self.done:
            done = next(self._results, None)
            if done is None:
                raise JobError(f"no worker did {shard}; run it again")
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
    """Has the shards done as the results are asked for: by actors of a Ray cluster, or here.

    Args:
        worker: what an actor is, made of `settings`, which name the folder `out`.
        here: makes the worker of this process.
        actors: how many at most, each with a CPU; None: as many as the cluster has or gets room for; 0: none, this
            process works.
        address: where Ray runs (see ``ray_cluster``).
        gpus: that each actor books.

    Raises:
        JobError: the cluster is this machine alone, which has no GPU for an actor.
    """
    shards = with_attempts(shards, Folder(settings.out))
    if actors == 0 or not shards:
        with closing(here()) as one:
            yield one.runs(shards)
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
    """`room`: for so many actors now, which are started; further ones make an autoscaler add nodes."""
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
        for row in dataset.iter_rows():
            yield Done.from_json(row["done"], worker.counts)
    except ray.exceptions.RayError as error:
        raise _explained(error) from error


def _quiet() -> None:
    """Keeps Ray Data's talk out of the terminal; its own log files have it."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if type(handler).__name__ != "SessionFileHandler":
            handler.setLevel(logging.ERROR)


def _explained(error: BaseException) -> AggGenError:
    """A worker's own error if it is meant for the user, else that the workers died or broke."""
    root = error
    while cause := getattr(root, "cause", None) or root.__cause__:
        root = cause
        if isinstance(root, AggGenError):
            return root
    if not str(root).strip():  # what ended an actor while it started stands in the last line of Ray's own error alone
        root = error
    said = [line for line in str(root).splitlines() if line.strip()] or [""]
    why = f"{type(root).__name__}: {said[-1].strip()}"
    return JobError(f"the workers broke ({why}); what is done is kept, run the same command again to go on")
