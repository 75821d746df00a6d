"""Runs all shards of a job in actors of Ray Data or in this process, and reports progress.

Ray Data transfers only descriptions of shards; actors read rows from the store and write output to the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from agggen.errors import AggGenError
from agggen_platform.metrics import ShardMetrics
from agggen_platform.sharded.config import JobError, ShardedConfig
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import C, FinishedShard, Worker, with_attempts
from agggen_platform.storage.folder import Folder

if TYPE_CHECKING:
    from agggen_platform.tracking import Tracker

_SECONDS_BETWEEN_METRICS = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress(Generic[C]):
    shards: int  # number of finished shards
    total: int  # number of shards
    reused: int  # number of shards finished by an earlier run
    counts: C  # counts of this run
    seconds: float  # time since the first shard started


@dataclass(frozen=True, kw_only=True)
class Report(Generic[C]):
    """A finished job."""

    progress: Progress[C] | None = None  # the progress of this run; None if an earlier run finished the job
    seconds: float = 0.0  # the duration of this run

    @property
    def finished_before(self) -> bool:
        return self.progress is None


@dataclass
class ShardResults(Generic[C]):
    """The results of a job's finished shards."""

    total: int  # the number of shards of the job
    counts: C  # counts of all finished shards, including those of earlier runs
    _new_counts: C  # counts of the shards finished in this run
    done: dict[int, FinishedShard[C]] = field(default_factory=dict)  # the finished shards by index
    retries: int = 0  # number of retries after a worker died
    _reused: int = 0
    _began: float = field(default_factory=time.monotonic)

    def add(self, done: FinishedShard[C]) -> None:
        self.done[done.shard] = done
        self.counts.add(done.counts)
        self.retries += done.retries
        self._reused += done.reused
        if not done.reused:
            self._new_counts.add(done.counts)
            if len(self.done) - self._reused == 1:
                self._began = time.monotonic() - done.seconds

    def progress(self) -> Progress[C]:
        seconds = max(1e-9, time.monotonic() - self._began)
        return Progress(len(self.done), self.total, self._reused, self._new_counts, seconds)

    def metrics(self) -> dict[str, float]:
        """Metrics for the run log: counts of the whole job and rates of this run."""
        now = self.progress()
        counts = {name: float(count) for name, count in self.counts.numbers().items()}
        return counts | {"shards": now.shards} | now.counts.speeds(now.seconds)


def run_shards(
    shards: Sequence[Shard],
    worker: type[Worker[C]],
    settings: Any,
    config: ShardedConfig,
    *,
    local_worker: Callable[[], Worker[C]] | None = None,
    gpus: float = 0.0,
    check_inputs: Callable[[], None],
    progress: Callable[[Progress[C]], None],
    log: Tracker | None,
) -> ShardResults[C]:
    """Processes all shards in actors of a Ray cluster or in this process.

    Args:
        worker: the class of the actors, constructed with `settings`.
        settings: has the attributes `out` (the output folder's address) and `job` (the job's fingerprint).
        local_worker: creates a worker that processes all shards in this process; None: use actors.
        gpus: GPUs per actor.
        check_inputs: raises JobError if the input has changed; called at the end.
        progress: called after every shard.

    Raises:
        AggGenError: a shard failed.
        JobError: a shard has no result, too many rows were rejected, or a local cluster lacks the GPUs for an actor.
    """
    results = ShardResults(len(shards), worker.counts(), worker.counts())
    out, logged = Folder(settings.out), time.monotonic()
    shards_with_attempts = with_attempts(shards, out)
    with (
        ShardMetrics(worker.kind, f"{worker.kind}-{settings.job}", shards, config.max_reject_share) as meter,
        _results(shards_with_attempts, worker, settings, config, local_worker, gpus) as finished,
    ):
        meter.begin()
        for done in finished:
            results.add(done)
            progress(results.progress())
            meter.done(done, results.total - len(results.done))
            if log and time.monotonic() - logged >= _SECONDS_BETWEEN_METRICS:
                logged = time.monotonic()
                log.log_metrics(results.metrics(), step=len(results.done))
    if missing := [shard for shard in shards if shard.index not in results.done]:
        raise JobError(f"no worker finished {missing[0]}; run the same command again")
    check_inputs()
    rejects, total, limit = results.counts.rejects, results.counts.total, config.max_reject_share
    if rejects > limit * total:
        raise JobError(
            f"{rejects:,} of {total:,} {results.counts.noun} were rejected ({rejects / total:.1%}, max_reject_share is "
            f"{limit:.1%}), so the output was not published; the reasons are in {out.at('rejects')}. Run again to "
            "retry failures of workers, or with a larger max_reject_share to publish the output"
        )
    return results


@contextmanager
def _results(
    shards: Sequence[Shard],
    worker: type[Worker[C]],
    settings: Any,
    config: ShardedConfig,
    local_worker: Callable[[], Worker[C]] | None,
    gpus: float,
) -> Iterator[Iterator[FinishedShard[C]]]:
    if local_worker is not None:
        with closing(local_worker()) as in_process:
            yield in_process.runs(shards)
        return
    if not shards:
        yield iter(())
        return
    from agggen_platform.ray_cluster import connected

    with connected(config.ray_address) as cluster:
        available = int(min(cluster.cpus, cluster.gpus / gpus if gpus else cluster.cpus))
        if gpus and not available:
            if cluster.local:
                raise JobError(f"an actor needs {gpus:g} GPUs (gpus_per_actor), but this machine has {cluster.gpus:g}")
            _log.warning("no node is free for an actor with %g GPUs; waiting for the cluster's autoscaler", gpus)
        max_actors = min(config.actors or len(shards), len(shards))
        with closing(run_in_actors(shards, worker, settings, max_actors, available, gpus)) as results:
            yield results


def run_in_actors(
    shards: Sequence[Shard], worker: type[Worker[C]], settings: Any, max_actors: int, available: int, gpus: float
) -> Generator[FinishedShard[C]]:
    """Starts with at most `available` actors; Ray Data requests more from the autoscaler, up to `max_actors`."""
    import ray.data

    _silence_ray_data()
    items = ray.data.from_items([{"shard": shard.as_json()} for shard in shards], override_num_blocks=len(shards))
    dataset = items.map_batches(
        worker,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(
            min_size=1,
            max_size=max_actors,
            initial_size=max(1, min(max_actors, available)),
            max_tasks_in_flight_per_actor=2,
        ),
        num_cpus=1,
        num_gpus=gpus or None,
    )
    try:
        for table in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            for done in table["done"].drop_null().to_pylist():
                yield FinishedShard.from_json(done, worker.counts)
    except ray.exceptions.RayError as error:
        raise _root_error(error) from error


def _silence_ray_data() -> None:
    """Disables Ray Data's progress bars and warnings in the terminal; its log files still contain them."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if handler.name == "console":  # only Ray's own handler
            handler.setLevel(logging.ERROR)


def _root_error(error: BaseException) -> AggGenError:
    """The worker's `AggGenError` in the chain of causes, else a `JobError` that quotes the root cause's last line."""
    root = error
    while cause := getattr(root, "cause", None) or root.__cause__:
        root = cause
        if isinstance(root, AggGenError):
            return root
    if not str(root).strip():  # an actor failed to start; the reason is in Ray's outer error
        root = error
    lines = [line for line in str(root).splitlines() if line.strip()] or [""]
    reason = f"{type(root).__name__}: {lines[-1].strip()}"
    return JobError(f"the workers failed ({reason}); finished shards are kept, the same command resumes")
