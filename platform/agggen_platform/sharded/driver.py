"""Runs all shards of a job in actors of Ray Data or in this process, and reports progress.

Ray Data transfers only descriptions of shards; actors read rows from the store and write output to the store.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic

from agggen.errors import AggGenError
from agggen_platform.metrics import ShardMetrics
from agggen_platform.sharded.config import JobError, ShardedConfig
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import C, FinishedShard, Worker, with_attempts
from agggen_platform.storage.folder import Folder
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
    progress: Progress[C] | None = None  # the final progress of this run; None if an earlier run finished the job
    seconds: float = 0.0  # the duration of this run

    @property
    def was_already_finished(self) -> bool:
        return self.progress is None


@dataclass
class ShardResults(Generic[C]):
    total: int  # the number of shards of the job
    counts: C  # counts of all finished shards, including those of earlier runs
    _new_counts: C  # counts of the shards finished in this run
    finished: dict[int, FinishedShard[C]] = field(default_factory=dict)  # by index of the shard
    retries: int = 0  # number of retries after a worker died
    _n_reused: int = 0  # number of shards finished by earlier runs
    _start_time: float = field(default_factory=time.monotonic)  # when the first shard of this run started

    def add(self, result: FinishedShard[C]) -> None:
        self.finished[result.shard] = result
        self.counts.add(result.counts)
        self.retries += result.retries
        self._n_reused += result.reused
        if not result.reused:
            self._new_counts.add(result.counts)
            if len(self.finished) - self._n_reused == 1:
                self._start_time = time.monotonic() - result.seconds

    def progress(self) -> Progress[C]:
        seconds = max(1e-9, time.monotonic() - self._start_time)
        return Progress(len(self.finished), self.total, self._n_reused, self._new_counts, seconds)

    def metrics(self) -> dict[str, float]:
        """Metrics for the run log: counts of the whole job and rates of this run."""
        progress = self.progress()
        counts = {name: float(count) for name, count in self.counts.numbers().items()}
        return counts | {"shards": progress.shards} | progress.counts.speeds(progress.seconds)


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
        worker: the class of the actors, constructed with `settings` (attributes: `out`, the output folder's address,
            and `job`, the job's fingerprint).
        local_worker: creates a worker that processes all shards in this process; None: use actors.
        check_inputs: raises JobError if the input has changed; called at the end.

    Raises AggGenError if a shard failed or has no result, too many rows were rejected, or a machine lacks the GPUs.
    """
    results = ShardResults(len(shards), worker.counts(), worker.counts())
    out, last_logged = Folder(settings.out), time.monotonic()
    shards_with_attempts = with_attempts(shards, out)
    with (
        ShardMetrics(worker.kind, f"{worker.kind}-{settings.job}", shards, config.max_reject_share) as metrics,
        _result_stream(shards_with_attempts, worker, settings, config, local_worker, gpus) as result_stream,
    ):
        metrics.begin()
        for result in result_stream:
            results.add(result)
            progress(results.progress())
            metrics.add_shard(result, results.total - len(results.finished))
            if log and time.monotonic() - last_logged >= _SECONDS_BETWEEN_METRICS:
                last_logged = time.monotonic()
                log.log_metrics(results.metrics(), step=len(results.finished))
    if missing := [shard for shard in shards if shard.index not in results.finished]:
        raise JobError(f"no worker finished {missing[0]}; run the same command again")
    check_inputs()
    rejects, total, limit = results.counts.rejects, results.counts.total, config.max_reject_share
    if rejects > limit * total:
        raise JobError(
            f"{rejects:,} of {total:,} {results.counts.noun} were rejected ({rejects / total:.1%}, max_reject_share is "
            f"{limit:.1%}), so the output was not published; the reasons are in {out.at('rejects')}. Run again to "
            "retry rows on which workers failed, or with a larger max_reject_share to publish the output"
        )
    return results


@contextmanager
def _result_stream(
    shards: Sequence[Shard],
    worker: type[Worker[C]],
    settings: Any,
    config: ShardedConfig,
    local_worker: Callable[[], Worker[C]] | None,
    gpus: float,
) -> Iterator[Iterator[FinishedShard[C]]]:
    """Yields an iterator that processes the shards and returns their results; stops the workers at exit."""
    if local_worker is not None:
        with closing(local_worker()) as created_worker:
            yield created_worker.run_all(shards)
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
    """Starts at most `available` actors; Ray Data requests more from the autoscaler, up to `max_actors`."""
    import ray.data

    # No progress bars and warnings of Ray Data in the terminal; its log files still contain them.
    ray.data.DataContext.get_current().enable_progress_bars = False
    for handler in logging.getLogger("ray.data").handlers:
        if handler.name == "console":
            handler.setLevel(logging.ERROR)
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
            for result in table["result"].drop_null().to_pylist():
                yield FinishedShard.from_json(result, worker.counts)
    except ray.exceptions.RayError as error:
        raise _root_error(error) from error


def _root_error(error: BaseException) -> AggGenError:
    """The worker's `AggGenError` in the chain of causes, else a `JobError` that quotes the root cause's last line."""
    root = error
    while cause := getattr(root, "cause", None) or root.__cause__:
        root = cause
        if isinstance(root, AggGenError):
            return root
    if not str(root).strip():  # an actor failed to start; only Ray's outer error contains the reason
        root = error
    lines = [line for line in str(root).splitlines() if line.strip()] or [""]
    reason = f"{type(root).__name__}: {lines[-1].strip()}"
    return JobError(f"the workers failed ({reason}); finished shards are kept; run the same command again to resume")
