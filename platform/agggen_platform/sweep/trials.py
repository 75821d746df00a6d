"""Runs the trials of a study as Ray tasks.

Each trial is one task, `_run_trial`: a whole training job. Ray starts it again if its process dies, and the job then
continues from its checkpoint. After each evaluation the task asks the driver, through `_Mailbox`, whether to go on; the
driver is the only one that reads and writes the study.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agggen.config import Scalar
from agggen.errors import ConfigError, StoppedError
from agggen.training.events import TrainingEvent
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.ray_cluster import ClusterError, nodes, room_for
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.config import SweepError
from agggen_platform.sweep.space import trial_config
from agggen_platform.sweep.study import Study, reason_of

_CLAIMED_SECONDS = 60.0  # that a trial waits for its own former process, which outlived the driver, to end


@dataclass(frozen=True)
class TrialJob:
    """What all trials of a sweep have in common."""

    config: JobConfig
    sweep: str
    runs_dir: Path
    folder: Path
    """Where the driver works: relative paths of the configuration start there."""

    def run(
        self, number: int, params: Mapping[str, Scalar], on_evaluation: Callable[[TrainingEvent], bool]
    ) -> dict[str, Any]:
        """Trains, or continues a trial that was cut off; returns what `Study.complete` takes.

        Raises:
            StoppedError: `on_evaluation` stopped it.
        """
        from agggen_platform.training.job import train_job

        config = trial_config(self.config, params)
        name = f"{self.sweep}-t{number:03d}"
        deadline = time.monotonic() + _CLAIMED_SECONDS
        while True:
            try:
                done = train_job(config, name, runs_dir=self.runs_dir, parent=self.sweep, on_evaluation=on_evaluation)
            except ClaimedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return {"bundle": done.address, "run": done.run_name, "seconds": done.seconds}


class _Mailbox:
    """The actor through which trials ask the driver whether to go on."""

    def __init__(self) -> None:
        self._questions: asyncio.Queue[tuple[int, TrainingEvent]] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[bool]] = {}

    async def ask(self, number: int, event: TrainingEvent) -> bool:
        """A trial: reports an evaluation; returns whether to stop."""
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._questions.put((number, event))
        return await self._answers[number]

    async def next(self) -> tuple[int, TrainingEvent]:
        """The driver: the next evaluation."""
        return await self._questions.get()

    async def answer(self, number: int, stop: bool) -> None:
        """The driver: answers the trial that asked."""
        answer = self._answers[number]
        if not answer.done():  # its process may have died, and asked again
            answer.set_result(stop)


def _run_trial(job: TrialJob, number: int, params: Mapping[str, Scalar], mailbox: Any) -> dict[str, Any]:
    """The task of a trial: what `TrialJob.run` returns, or the `reason` why it failed; neither where it was stopped."""
    import ray

    told = False

    def ask(event: TrainingEvent) -> bool:
        nonlocal told
        told = ray.get(mailbox.ask.remote(number, event))
        return told

    if job.folder.is_dir():
        os.chdir(job.folder)
    try:
        return job.run(number, params, ask)
    except StoppedError:
        if not told:  # by a signal, as on a node that goes away: Ray starts the trial again
            raise
        return {}
    except Exception as error:  # any fault of a trial is its result; the sweep goes on
        return {"reason": reason_of(error)}


def run_trials(study: Study, job: TrialJob, ended: Callable[[int], None]) -> None:
    """Runs all trials that are left, on the Ray cluster that this process is connected to.

    `ended` gets the number of each trial that has ended, once the study knows.

    Raises:
        ClusterError: there is no room for a trial, or the cluster was lost.
        ConfigError: the trials may run on several nodes, and there is no store that all of these see.
        ClaimedError: another process took the sweep over.
        SweepError: the study can no longer be read or written.
    """
    import ray
    from optuna.exceptions import StorageInternalError
    from ray.exceptions import RayError

    cluster = job.config.cluster
    available = nodes()
    if len(available) > 1 and not job.config.storage.url:
        raise ConfigError(
            f"the cluster has {len(available)} nodes, and a trial must find its checkpoints on each of them: set "
            "storage.url to s3://bucket/prefix, or to a folder that all nodes see"
        )
    concurrent = trials_at_once(cluster, available, study.config.concurrent)
    mailbox = ray.remote(num_cpus=0)(_Mailbox).remote()
    # A trial with workers of its own books nothing: if trials held all CPUs, their workers would wait for ever.
    run_trial = ray.remote(
        num_cpus=0 if cluster.workers else cluster.cpus_per_worker,
        num_gpus=0 if cluster.workers else cluster.gpus_per_worker,
        max_retries=cluster.max_failures,
        retry_exceptions=[StoppedError],
        max_calls=1,
    )(_run_trial)
    running: dict[Any, int] = {}
    question = mailbox.next.remote()
    try:
        while True:
            while len(running) < concurrent and (trial := study.next()):
                running[run_trial.remote(job, trial.number, trial.params, mailbox)] = trial.number
            if not running:
                return
            (ready,), _ = ray.wait([*running, question])
            if ready == question:
                number, event = ray.get(question)
                value = event.metrics.get(study.config.measure)
                finite = value if value is not None and math.isfinite(value) else None
                mailbox.answer.remote(number, study.evaluated(number, event.stage, event.epoch, finite))
                question = mailbox.next.remote()
            else:
                number = running.pop(ready)
                _end(study, number, ready)
                ended(number)
    except RayError as error:
        raise ClusterError(f"the Ray cluster was lost: {error}; the same command goes on") from error
    except (StorageInternalError, OSError) as error:
        raise SweepError(f"the study was lost ({reason_of(error)}); the same command goes on") from error
    finally:
        for task in running:
            ray.cancel(task, force=True)
        ray.kill(mailbox)


def _end(study: Study, number: int, task: Any) -> None:
    """Tells the study how a trial ended."""
    import ray
    from ray.exceptions import RayError

    try:
        outcome = ray.get(task)
    except RayError as error:
        outcome = {"reason": f"its process died again and again ({type(error).__name__}); was it out of memory?"}
    if "reason" in outcome:
        study.fail(number, outcome["reason"])
    elif outcome:
        study.complete(number, **outcome)


def trials_at_once(config: ClusterConfig, nodes: list[dict[str, float]], limit: int = 0) -> int:
    """How many trials to run at once on nodes with these resources (``{"CPU": 8.0, "GPU": 1.0}``).

    `limit`: no more than this; 0: as many as have room. A cluster that grows when asked gets the `limit`.

    Raises:
        ClusterError: not even one trial has room.
    """
    workers = max(1, config.workers)  # a trial that trains in its own process is its only worker
    room = room_for(config.resources_per_worker, nodes) // workers
    if config.autoscaling:
        return limit or max(1, room)
    if not room:
        gpus = f" and {config.gpus_per_worker:g} GPUs" if config.gpus_per_worker else ""
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise ClusterError(
            f"a trial needs {workers} workers of {config.cpus_per_worker:g} CPUs{gpus}, and the cluster has no room "
            f"for one: its nodes have {have or 'nothing'}; lower cluster.workers or cluster.cpus_per_worker, or set "
            "cluster.autoscaling=true where nodes come when asked"
        )
    return min(limit or room, room)
