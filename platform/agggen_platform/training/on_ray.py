"""The library's loop on the workers of Ray Train: who divides the batches, and how they and the job talk.

The job stays the one that logs, answers and ends. An actor beside it, `Post`, carries news from worker 0 to the job and
the wish to stop to worker 0, which spreads it (`Trainer` adds it up); where no worker 0 hears it, the job ends Ray
Train's controller, and so all that it started. Ray Train's own `report` is paced at seconds a call and is not used, nor
are its checkpoints: workers keep theirs in the run's store. When workers die, Ray Train starts all of them anew, fewer
if it must (``cluster.min_workers``), and they continue from there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from agggen.errors import AggGenError, ConfigError, StoppedError, TrainingError
from agggen.records import Record
from agggen.run import fit
from agggen.training.distributed import Connected
from agggen_platform.job_config import JobConfig, result_of
from agggen_platform.metrics import TrainingMeter
from agggen_platform.ray_cluster import Cluster, ClusterError, connected
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.folder import Folder
from agggen_platform.training.keeper import StoreKeeper
from agggen_platform.training.news import News, Reporter, Send, Writer
from agggen_platform.training.post import Advance, Crier, Post
from agggen_platform.training.prepared import read_prepared

_POLL_SECONDS = 0.3
_SILENCE_SECONDS = 20.0  # after which worker 0 is taken for dead
_ABORT_SECONDS = 30.0  # that Ray Train's controller has to end workers; it gives them 5 and its own helpers 12
_FRUITLESS_RESTARTS = 10  # in a row, after which a job without cluster.max_failures gives up
_COLLECTIVE_SECONDS = 300  # that workers wait for one of them, which may have checkpoints to fetch or samples to write
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
        meter: TrainingMeter,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Returns when both stages are trained and their checkpoints are in `folder`.

        Args:
            folder: the run's, which all workers see.
            prepared: where in it the examples are.
            samples: records to write about after each epoch.
            hear: hears what worker 0 says.
            stop: asked a few times a second.
            meter: told how many workers there are, and when they keep checkpoints.
            say: told, in a sentence, when workers start, start again, or do not, and what the store made do with.

        Raises:
            StoppedError: it was asked to stop; the same call continues.
            TrainingError: training cannot go on, or workers died more often than ``cluster.max_failures``; where that
                is -1, too often in a row without a newer checkpoint.
            ClusterError: Ray Train itself failed, or the cluster was lost.
        """
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Beside the job: the loss of any other node must not end it.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        post = ray.remote(num_cpus=0, scheduling_strategy=here)(Post).remote()
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
        asked, nobody, crier = False, False, Crier(self.config, say)
        checkpoints = CheckpointStore(Folder(folder.at("checkpoints")), report=lambda _: None)
        advance = Advance(lambda: [checkpoints.latest(stage) for stage in ("baseline", "joint")])
        try:
            while True:
                running = thread.is_alive()
                heard = ray.get(post.take.remote())
                crier.hear(heard)
                advance.hear(heard.attempts)
                if self.config.cluster.max_failures == -1 and advance.fruitless >= _FRUITLESS_RESTARTS:
                    raise TrainingError(
                        f"workers were started again {advance.fruitless} times in a row without a newer checkpoint"
                        f"{'; the last reason: ' + heard.failure if heard.failure else ''}. The same command tries "
                        "again from the last checkpoint; where workers live shortly, set a shorter "
                        "storage.checkpoint_seconds"
                    )
                asked_now = [hear(news) for news in heard.news]
                if not asked and (any(asked_now) or stop()):
                    asked = True
                    ray.get(post.stop.remote())
                if not running:
                    break
                nobody = not heard.starts or heard.silence > _SILENCE_SECONDS
                meter.workers(heard, nobody)
                if asked and nobody:
                    raise StoppedError("training was stopped while no workers ran; the same call continues there")
                thread.join(_POLL_SECONDS)
            ended = ray.get(post.ended.remote())
        except RayError as error:
            raise ClusterError(f"the Ray cluster was lost: {_last_line(error)}; the same call continues") from error
        finally:
            if thread.is_alive():
                _end(post, thread, at_once=nobody)
                thread.join(_SILENCE_SECONDS)
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
                torch_config=TorchConfig(
                    backend="nccl" if wanted.gpus_per_worker else "gloo", timeout_s=_COLLECTIVE_SECONDS
                ),
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
                    callbacks=[_introduction(task.post)],
                ),
            ).fit()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _introduction(post: Any) -> Any:
    """A callback of Ray Train's controller, an actor that only itself can tell of, as of the room that it asks for."""
    import ray
    from ray.train.v2._internal.execution.callback import ControllerCallback, WorkerGroupCallback
    from ray.train.v2._internal.execution.worker_group import worker_group

    class Introduction(ControllerCallback, WorkerGroupCallback):
        def after_controller_start(self, train_run_context: Any) -> None:
            post.controlled.remote(ray.get_runtime_context().current_actor)

        @contextmanager
        def on_worker_group_start(self) -> Iterator[None]:
            ask = worker_group.placement_group

            def told(*args: Any, **settings: Any) -> Any:
                group = ask(*args, **settings)
                post.placed.remote(group)
                return group

            worker_group.placement_group = told  # no callback hears of a group before it has its room
            try:
                yield
            finally:
                worker_group.placement_group = ask

    return Introduction()


def _end(post: Any, thread: threading.Thread, at_once: bool) -> None:
    """Ends Ray Train's controller, and with it the workers that it started.

    Args:
        at_once: because it has none, and waits for room without listening.
    """
    import ray
    from ray.exceptions import RayError

    with suppress(RayError):  # the actor ends in its call; or it is stuck, or gone with the cluster
        deadline = time.monotonic() + _SILENCE_SECONDS
        while (controller := ray.get(post.controller.remote(), timeout=_SILENCE_SECONDS)) is None:
            if not thread.is_alive() or time.monotonic() > deadline:
                return  # workers that start without a post end at once
            time.sleep(_POLL_SECONDS)
        try:
            if not at_once:
                ray.get(controller.abort.remote(), timeout=_ABORT_SECONDS)
        finally:
            ray.kill(controller)
            if (group := ray.get(post.group.remote(), timeout=_SILENCE_SECONDS)) is not None:
                ray.util.remove_placement_group(group)  # Ray would keep it as long as the driver


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

    task: _Task = told["task"]
    if ray.get(task.post.ended.remote()) is not None:
        return  # a restart cannot help
    group = Connected()
    if group.rank == 0:
        task.post.attempt.remote()
    try:
        _fit(task, group)
    except Exception as error:
        ray.get(task.post.failed.remote(f"worker {group.rank}: {_last_line(error)}"))
        raise


def _fit(task: _Task, group: Connected) -> None:
    import ray
    import torch

    config = result_of(task.config)
    threads = config.training.threads or max(int(task.config.cluster.cpus_per_worker), 1)
    device = "cuda" if task.config.cluster.gpus_per_worker else "cpu"
    config = replace(config, training=replace(config.training, threads=threads, device=device))
    torch.set_num_threads(threads)
    prepared = read_prepared(task.folder, task.prepared)
    writer = Writer([Record.of(sample) for sample in task.samples], prepared.encoder, config.inference)
    report = task.post.remark.remote
    store = CheckpointStore(Folder(task.folder.at("checkpoints")), task.config.storage.keep, report)
    send, kept = _sender(task.post), task.post.kept.remote
    first = group.rank == 0
    if first:
        task.post.start.remote(group.size)
    try:
        with _stop_flag(task.post, first) as stop, StoreKeeper(store, group, kept) as keeper:
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
        # All workers find this alike and at the same update: a wish to stop, a loss that is not finite, a checkpoint of
        # another run. Whatever else is wrong, such as a disk that one of them cannot read, is raised, and tried again.
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
    """Whether the job wants to stop, asked for in the background by the worker that is `listening`; to the end, because
    to ask is its sign of life.
    """
    import ray

    asked, over = threading.Event(), threading.Event()

    def listen() -> None:
        while not over.wait(_POLL_SECONDS):
            if ray.get(post.stopping.remote()):
                asked.set()

    if listening:
        threading.Thread(target=listen, name="stop", daemon=True).start()
    try:
        yield asked.is_set
    finally:
        over.set()
