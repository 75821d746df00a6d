"""The library's loop on the workers of Ray Train: who divides the batches, and how they and the job talk.

The job stays the one that logs, answers and ends. An actor beside it, `Post`, carries news from worker 0 to the job and
the wish to stop to worker 0, which spreads it (`Trainer` adds it up). Ray Train's own `report` is paced at seconds a
call and is not used, nor are its checkpoints: workers keep theirs in the run's store. When workers die, Ray Train
starts all of them anew, fewer if it must (``cluster.min_workers``), and they continue from there.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from agggen.errors import AggGenError, ConfigError, StoppedError, TrainingError
from agggen.records import Record
from agggen.run import fit
from agggen.training.distributed import Connected
from agggen_platform.job_config import JobConfig, result_of
from agggen_platform.ray_cluster import Cluster, ClusterError, connected
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.training.keeper import StoreKeeper
from agggen_platform.training.news import News, Reporter, Send, Writer
from agggen_platform.training.prepared import read_prepared

_POLL_SECONDS = 0.3
_PATIENCE_SECONDS = 60.0  # before it is said that there are no workers yet
_ENVIRONMENT = {
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a dead worker is noticed; 2 by default
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",  # workers import torch; on a busy machine that takes minutes
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
}


@contextmanager
def workers_of(config: JobConfig) -> Iterator[Workers]:
    """The cluster that `config` names, found able to hold its workers.

    Raises:
        ConfigError: the device cannot be had by workers that book no GPU.
        ClusterError: nothing answers at ``cluster.address``, or the cluster lacks what the workers need and does not
            grow.
    """
    wanted = config.cluster
    if config.training.device.startswith("cuda") and not wanted.gpus_per_worker:
        raise ConfigError(f"training.device {config.training.device} needs cluster.gpus_per_worker; workers have none")
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)  # read by Ray Train when it starts
    with connected(wanted.address) as cluster:
        if not wanted.autoscaling:
            _check_room(config, cluster)
        yield Workers(config)


def _check_room(config: JobConfig, cluster: Cluster) -> None:
    import ray

    wanted = config.cluster
    least = wanted.min_workers or wanted.workers
    needs = {"CPU": wanted.cpus_per_worker, "GPU": wanted.gpus_per_worker}
    needs = {name: amount for name, amount in needs.items() if amount}
    room = 0
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            room += int(min((has.get(name, 0.0) + 1e-9) // amount for name, amount in needs.items()))
    if room < least:
        each = " and ".join(f"{amount:g} {name}" for name, amount in needs.items())
        raise ClusterError(
            f"{least} workers of {each} each do not fit: the cluster has {cluster.cpus:g} CPUs and {cluster.gpus:g} "
            f"GPUs, room for {room}. Change cluster.workers, cluster.cpus_per_worker or cluster.gpus_per_worker, or "
            "set cluster.autoscaling=true if the cluster grows"
        )


class Post:
    """What the job and worker 0 tell each other; an actor."""

    def __init__(self) -> None:
        self._news: list[News] = []
        self._starts: list[int] = []
        self._stop = False
        self._end: tuple[str, str] | None = None

    def start(self, workers: int) -> None:
        self._starts.append(workers)

    def starts(self) -> list[int]:
        """How many workers there were at each start."""
        return self._starts

    def put(self, news: News) -> None:
        self._news.append(news)

    def take(self) -> list[News]:
        """All that came since the last call."""
        taken, self._news = self._news, []
        return taken

    def stop(self) -> None:
        self._stop = True

    def stopping(self) -> bool:
        return self._stop

    def end(self, kind: str, message: str) -> None:
        """Worker 0: training cannot go on, which all workers found alike; another attempt would end the same way."""
        self._end = (kind, message)

    def ended(self) -> tuple[str, str] | None:
        return self._end


@dataclass(frozen=True)
class _Task:
    """All that a worker is told."""

    config: JobConfig
    folder: Folder
    prepared: str
    samples: list[dict[str, Any]]
    post: Any


class Workers:
    """Workers on a cluster that this process is connected to."""

    def __init__(self, config: JobConfig) -> None:
        self.config = config

    def train(
        self,
        folder: Folder,
        prepared: str,
        samples: Sequence[Record],
        hear: Send,
        stop: Callable[[], bool],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Returns when both stages are trained and their checkpoints are in `folder`.

        Args:
            folder: the run's, which all workers see.
            prepared: where in it the examples are.
            samples: records to write about after each epoch.
            hear: hears what worker 0 says.
            stop: asked a few times a second.
            say: told, in a sentence, when workers start, start again, or do not.

        Raises:
            StoppedError: it was asked to stop; the same call continues.
            TrainingError: training cannot go on, or workers died more often than ``cluster.max_failures``.
            ClusterError: Ray Train itself failed.
        """
        import ray

        post = ray.remote(num_cpus=0)(Post).remote()
        task = _Task(self.config, folder, prepared, [record.as_dict() for record in samples], post)
        failures: list[BaseException] = []

        def fit_all() -> None:
            try:
                self._fit(task)
            except BaseException as error:
                failures.append(error)

        # In a thread: Ray Train would take SIGINT for itself, and news must be heard meanwhile.
        thread = threading.Thread(target=fit_all, name="ray-train", daemon=True)
        thread.start()
        asked, crier = False, _Crier(self.config, say)
        while True:
            running = thread.is_alive()
            crier.hear(ray.get(post.starts.remote()))
            asked_now = [hear(news) for news in ray.get(post.take.remote())]
            if not asked and (any(asked_now) or stop()):
                asked = True
                ray.get(post.stop.remote())
            if not running:
                break
            thread.join(_POLL_SECONDS)
        ended = ray.get(post.ended.remote())
        ray.kill(post)
        if ended is not None:
            kind, message = ended
            raise StoppedError(message) if kind == "stopped" else TrainingError(message)
        if failures:
            raise _explained(failures[0], self.config) from failures[0]

    def _fit(self, task: _Task) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
        from ray.train.v2.api.config import LoggingConfig

        wanted = self.config.cluster
        elastic = 0 < wanted.min_workers < wanted.workers
        # Nothing of ours goes there: checkpoints are in the run's store.
        scratch = tempfile.mkdtemp(prefix="agggen-ray-train-")
        try:
            TorchTrainer(
                _work,
                train_loop_config={"task": task},
                torch_config=TorchConfig(backend="nccl" if wanted.gpus_per_worker else "gloo"),
                scaling_config=ScalingConfig(
                    num_workers=(wanted.min_workers, wanted.workers) if elastic else wanted.workers,
                    use_gpu=wanted.gpus_per_worker > 0,
                    resources_per_worker={"CPU": wanted.cpus_per_worker}
                    | ({"GPU": wanted.gpus_per_worker} if wanted.gpus_per_worker else {}),
                ),
                run_config=RunConfig(
                    name="run",
                    storage_path=scratch,
                    failure_config=FailureConfig(max_failures=wanted.max_failures),
                    logging_config=LoggingConfig(log_level="ERROR"),
                ),
            ).fit()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


class _Crier:
    """Says what becomes of the workers."""

    def __init__(self, config: JobConfig, say: Callable[[str], None]) -> None:
        self.config, self.say, self.known = config, say, 0
        self.deadline = time.monotonic() + _PATIENCE_SECONDS

    def hear(self, starts: list[int]) -> None:
        for number, workers in enumerate(starts[self.known :], start=self.known):
            again = f" again (restart {number})" if number else ""
            self.say(f"{workers} of {self.config.cluster.workers} workers train{again}")
        self.known = len(starts)
        if not starts and time.monotonic() > self.deadline:
            self.deadline = math.inf
            self.say(f"still waiting for {self.config.cluster.workers} workers: the cluster is busy, or has to grow")


def _explained(error: BaseException, config: JobConfig) -> AggGenError:
    """What Ray Train raised, as an error for the user."""
    from ray.train import WorkerGroupError

    if not isinstance(error, WorkerGroupError):
        return ClusterError(f"Ray Train failed: {_last_line(error)}")
    reasons = [f"worker {rank}: {_last_line(failure)}" for rank, failure in sorted(error.worker_failures.items())]
    return TrainingError(
        f"workers failed more than cluster.max_failures={config.cluster.max_failures} times, the last time: "
        f"{'; '.join(reasons)}. The same command continues from the last checkpoint"
    )


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


# --- in a worker ---------------------------------------------------------------------------------------------------


def _work(told: dict[str, Any]) -> None:
    """One worker's part: the library's `fit`, from the newest checkpoint in the run's store."""
    import ray
    import torch

    task: _Task = told["task"]
    if ray.get(task.post.ended.remote()) is not None:
        return  # a restart cannot help
    config, group = result_of(task.config), Connected()
    threads = config.training.threads or max(int(task.config.cluster.cpus_per_worker), 1)
    device = "cuda" if task.config.cluster.gpus_per_worker else "cpu"
    config = replace(config, training=replace(config.training, threads=threads, device=device))
    torch.set_num_threads(threads)
    prepared = read_prepared(task.folder, task.prepared)
    writer = Writer([Record.of(sample) for sample in task.samples], prepared.encoder, config.inference)
    store = CheckpointStore(Folder(task.folder.at("checkpoints")), task.config.storage.keep)
    send = _sender(task.post)
    first = group.rank == 0
    if first:
        task.post.start.remote(group.size)
    try:
        with StoreKeeper(store, group) as keeper, _stop_flag(task.post, first) as stop:
            fit(
                config,
                prepared,
                keeper,
                lambda stage: [Reporter(send, writer)] if first else [],
                group,
                stop,
                task.config.storage.checkpoint_seconds,
            )
    except TrainingError as error:
        # All workers find this alike and at the same update; whatever else is wrong is raised, and tried again.
        if first:
            ray.get(task.post.end.remote("stopped" if isinstance(error, StoppedError) else "failed", str(error)))
    ray.get(task.post.stopping.remote())  # all that was put before has arrived


def _sender(post: Any) -> Send:
    def send(news: News) -> bool:
        post.put.remote(news)
        return False

    return send


@contextmanager
def _stop_flag(post: Any, listening: bool) -> Iterator[Callable[[], bool]]:
    """Whether the job wants to stop, asked for in the background by the worker that is `listening`."""
    import ray

    asked, over = threading.Event(), threading.Event()

    def listen() -> None:
        while not over.wait(_POLL_SECONDS):
            if ray.get(post.stopping.remote()):
                asked.set()
                return

    if listening:
        threading.Thread(target=listen, name="stop", daemon=True).start()
    try:
        yield asked.is_set
    finally:
        over.set()
