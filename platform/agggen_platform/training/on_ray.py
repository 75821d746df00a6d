"""Runs `agggen.run.fit` on the workers of Ray Train.

``TorchTrainer.fit()`` runs in a Ray task, `_fit_on_workers`, so that the job can stop Ray Train and all its workers.
Workers and job communicate through an actor (`events.RunCoordinator`), and workers write checkpoints to the run's
store; Ray Train's own checkpoints and ``report`` are not used, because ``report`` takes seconds per call. When a worker
dies, Ray Train restarts all workers, or fewer (``cluster.min_workers``), and they resume from the newest checkpoint.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agggen.errors import AggGenError, ConfigError, StoppedError, TrainingError
from agggen.records import Record
from agggen.run import fit
from agggen.training.distributed import DistributedGroup
from agggen.training.events import EventReporter, SampleWriter
from agggen_platform.job_config import JobConfig, run_config_of
from agggen_platform.ray_cluster import ClusterError, connected, nodes, workers_that_fit
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.claim import Claim
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking.tracker import SystemMetrics
from agggen_platform.training.events import MessageKind, RunCoordinator, WorkerMessage, WorkerMonitor
from agggen_platform.training.keeper import StoreKeeper
from agggen_platform.training.prepared import read_prepared

_POLL_SECONDS = 0.3
_RESOURCE_SECONDS = 5  # Ray Train's timeout for resources; it cannot be stopped while it waits for them
_END_SECONDS = 40.0  # timeout for the end of Ray Train after a request to stop
_MAX_RESTARTS_WITHOUT_PROGRESS = 10  # consecutive restarts without a newer checkpoint; for max_failures=-1
_COLLECTIVE_SECONDS = 300  # timeout of collectives: workers wait while one downloads a checkpoint or writes samples
_ENVIRONMENT = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a dead worker is detected; default 2
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(_RESOURCE_SECONDS),
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
}


@contextmanager
def cluster_for_workers(config: JobConfig) -> Iterator[None]:
    """Connects to the cluster; raises ClusterError if the workers do not fit and it does not autoscale."""
    settings = config.cluster
    if config.training.device.startswith("cuda") and not settings.gpus_per_worker:
        raise ConfigError(f"training.device={config.training.device} needs cluster.gpus_per_worker above 0")
    with connected(settings.address) as cluster:
        minimum = settings.min_workers or settings.workers
        n_fitting = workers_that_fit(settings.resources_per_worker, nodes())
        if n_fitting < minimum and not settings.autoscaling:
            resources = " and ".join(f"{amount:g} {name}" for name, amount in settings.resources_per_worker.items())
            raise ClusterError(
                f"{minimum} workers of {resources} each do not fit: the cluster has {cluster.cpus:g} CPUs and "
                f"{cluster.gpus:g} GPUs, enough for {n_fitting}. Change cluster.workers, cluster.cpus_per_worker or "
                "cluster.gpus_per_worker, or set cluster.autoscaling=true if the cluster autoscales"
            )
        yield


@dataclass(frozen=True)
class _Task:  # the arguments of `train_on_workers`
    config: JobConfig
    folder: Folder
    prepared: str
    samples: Sequence[Record]
    claim: Claim
    coordinator: Any

    def send(self, kind: MessageKind, content: Any = None) -> Any:
        return self.coordinator.send.remote(WorkerMessage(kind, content))


def train_on_workers(
    config: JobConfig,
    folder: Folder,
    prepared: str,
    samples: Sequence[Record],
    claim: Claim,
    monitor: WorkerMonitor,
    stop: Callable[[], bool],
) -> None:
    """Trains both stages; their last checkpoints are then in `folder`. To be called inside `cluster_for_workers`.

    `prepared` is the path of the examples in `folder`, `samples` are records for which texts are generated after each
    epoch; workers check `claim` before they save a checkpoint. Training stops if `stop` returns True or raises.

    Raises StoppedError if `stop` returned True (the same call resumes training), TrainingError if training cannot
    continue or workers died too often, ClusterError if Ray Train itself failed or the cluster was lost.
    """
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # On the node of the job, so that the loss of another node does not end training.
    job_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    coordinator = ray.remote(num_cpus=0, scheduling_strategy=job_node)(RunCoordinator).remote()
    task = _Task(config, folder, prepared, samples, claim, coordinator)
    environment = {name: os.environ.get(name, value) for name, value in _ENVIRONMENT.items()}
    options = {"num_cpus": 0, "max_retries": 0, "max_calls": 1, "runtime_env": {"env_vars": environment}}
    ray_task = ray.remote(**options, scheduling_strategy=job_node)(_fit_on_workers).remote(task)
    is_stopping = has_ended = False
    try:
        while not has_ended:
            has_ended = bool(ray.wait([ray_task], timeout=_POLL_SECONDS)[0])
            monitor.handle(*ray.get(coordinator.take_messages.remote()))
            _check_progress(config, monitor)
            if not is_stopping and stop():
                is_stopping = True
                ray.get(coordinator.stop.remote())
            if is_stopping and not monitor.is_alive and not has_ended:
                raise StoppedError("training was stopped while no workers ran; the same call resumes it")
        error = ray.get(ray_task)
        result = ray.get(coordinator.result.remote())
    except RayError as cause:
        raise ClusterError(f"the Ray cluster was lost: {_last_line(cause)}; the same call resumes training") from cause
    except KeyboardInterrupt:  # a second Ctrl-C kills Ray Train immediately
        ray.cancel(ray_task, force=True)
        has_ended = True
        raise
    finally:
        if not has_ended:  # asks Ray Train to end, which releases all resources, and kills it after a while
            with suppress(RayError):  # the cluster has ended
                ray.get(coordinator.stop.remote())
                if not ray.wait([ray_task], timeout=_END_SECONDS)[0]:
                    ray.cancel(ray_task, force=True)
        ray.kill(coordinator)
    if result is not None:
        kind, message = result
        raise StoppedError(message) if kind == "stopped" else TrainingError(message)
    if error is not None:
        raise error


def _check_progress(config: JobConfig, monitor: WorkerMonitor) -> None:
    attempts = monitor.attempts_without_progress
    if config.cluster.max_failures == -1 and attempts >= _MAX_RESTARTS_WITHOUT_PROGRESS:
        raise TrainingError(
            f"workers were restarted {attempts} times in a row without a newer checkpoint"
            f"{'; the last reason: ' + monitor.failure if monitor.failure else ''}. The same command resumes "
            "from the last checkpoint; if workers are often lost, set a shorter storage.checkpoint_seconds"
        )


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


# --- in the task that runs Ray Train --------------------------------------------------------------------------------


def _fit_on_workers(task: _Task) -> AggGenError | None:
    """Runs Ray Train until training ends or should stop; returns the error, or None.

    Ray Train cannot be stopped while it waits for resources. Therefore it fails after `_RESOURCE_SECONDS`, which also
    cancels its resource requests, and is started again unless the job should stop.
    """
    import ray
    from ray.train import ControllerError, WorkerGroupError

    from agggen_platform.ray_private import startup_errors

    while True:
        stop, attempts = ray.get(task.coordinator.state.remote())
        if stop:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="agggen-ray-train-") as scratch:  # unused, but required
                _trainer(task, attempts, scratch).fit()
            return None
        except WorkerGroupError as error:
            failures = sorted(error.worker_failures.items())
            reasons = "; ".join(f"worker {rank}: {_last_line(failure)}" for rank, failure in failures)
            return TrainingError(
                f"workers failed more than cluster.max_failures={task.config.cluster.max_failures} times, the last "
                f"time: {reasons}. The same command resumes from the last checkpoint"
            )
        except ControllerError as error:
            if not isinstance(error.controller_failure, startup_errors()):
                return ClusterError(f"Ray Train failed: {_last_line(error)}")
        except Exception as error:  # Ray Train raises many other types
            return ClusterError(f"Ray Train failed: {_last_line(error)}")


def _trainer(task: _Task, failures: int, scratch: str) -> Any:
    """Ray Train's trainer; `failures` is the number of failed attempts so far."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    settings = task.config.cluster
    is_elastic = 0 < settings.min_workers < settings.workers
    limit = settings.max_failures  # -1: none
    remaining_failures = limit if limit == -1 else max(limit - failures, 0)
    return TorchTrainer(
        _train_loop,
        train_loop_config={"task": task},
        torch_config=TorchConfig(backend="nccl" if settings.gpus_per_worker else "gloo", timeout_s=_COLLECTIVE_SECONDS),
        scaling_config=ScalingConfig(
            num_workers=(settings.min_workers, settings.workers) if is_elastic else settings.workers,
            use_gpu=settings.gpus_per_worker > 0,
            resources_per_worker=settings.resources_per_worker,
        ),
        run_config=RunConfig(
            name="run",
            storage_path=scratch,
            failure_config=FailureConfig(max_failures=remaining_failures, controller_failure_limit=0),
        ),
    )


# --- in a worker ----------------------------------------------------------------------------------------------------


def _train_loop(loop_config: dict[str, Any]) -> None:
    import ray

    task: _Task = loop_config["task"]
    if ray.get(task.coordinator.result.remote()) is not None:
        return  # a retry would end in the same way
    group = DistributedGroup()
    if group.rank == 0:
        task.send("attempt")
    try:
        _fit(task, group)
    except Exception as error:
        ray.get(task.send("failure", f"worker {group.rank}: {_last_line(error)}"))
        raise


def _fit(task: _Task, group: DistributedGroup) -> None:
    import ray
    import torch

    config = run_config_of(task.config)
    threads = config.training.threads or max(int(task.config.cluster.cpus_per_worker), 1)
    device = "cuda" if task.config.cluster.gpus_per_worker else "cpu"
    config = replace(config, training=replace(config.training, threads=threads, device=device))
    torch.set_num_threads(threads)
    prepared = read_prepared(task.folder, task.prepared)
    writer = SampleWriter(task.samples, prepared.encoder, config.inference)
    reporter = EventReporter(partial(task.send, "event"), writer)
    folder, keep = Folder(task.folder.at("checkpoints")), task.config.storage.keep
    store = CheckpointStore(folder, keep, partial(task.send, "remark"), task.claim)
    is_worker_0 = group.rank == 0
    if is_worker_0:
        task.send("workers", group.size)
    try:
        with (
            _heartbeat(task.coordinator, is_worker_0) as stop,
            _gpu_metrics(task, group.rank),
            StoreKeeper(store, group, lambda: task.send("checkpoint", time.time())) as keeper,
        ):
            seconds = task.config.storage.checkpoint_seconds
            fit(config, prepared, keeper, [reporter] if is_worker_0 else [], group, stop, seconds)
    except TrainingError as error:
        # All workers raise this error at the same update: after a request to stop, a loss that is not finite, or a
        # checkpoint of another run. Other errors, such as an unreadable disk of one worker, lead to a retry.
        if is_worker_0:
            ray.get(task.coordinator.end.remote("stopped" if isinstance(error, StoppedError) else "failed", str(error)))
    ray.get(task.coordinator.heartbeat.remote())  # returns after all earlier messages have arrived


@contextmanager
def _gpu_metrics(task: _Task, rank: int) -> Iterator[None]:
    """Logs memory and utilisation of this worker's GPUs as ``system/worker-RANK/gpu_...``."""

    def send(metrics: Mapping[str, float]) -> None:
        own_prefix = f"system/worker-{rank}/"
        task.send("system", {name.replace("system/", own_prefix): metrics[name] for name in metrics if "/gpu_" in name})

    gpus = task.config.cluster.gpus_per_worker
    system = SystemMetrics(task.config.tracking.system_seconds if gpus else 0.0, send)
    system.start()
    try:
        yield
    finally:
        system.stop()


@contextmanager
def _heartbeat(coordinator: Any, is_worker_0: bool) -> Iterator[Callable[[], bool]]:
    """Sends heartbeats of worker 0 on a thread; yields a function that returns whether training should stop."""
    import ray

    stop, end = threading.Event(), threading.Event()

    def send_heartbeats() -> None:
        while not end.wait(_POLL_SECONDS):
            if ray.get(coordinator.heartbeat.remote()):
                stop.set()

    if is_worker_0:
        threading.Thread(target=send_heartbeats, name="heartbeat", daemon=True).start()
    try:
        yield stop.is_set
    finally:
        end.set()
