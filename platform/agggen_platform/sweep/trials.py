"""Runs the trials of a study by Ray Tune.

Tune starts the trials as actors, limits how many run at once, books their resources, and starts a trial again whose
process died, which then continues from its checkpoint. The study decides what to try (`_StudySearch`) and which trial
to stop early (`_StudyScheduler`). Only the driver reads and writes the study.

This module imports Ray Tune: import it where trials are run.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError
from ray import tune
from ray.exceptions import RayError
from ray.tune import TuneError
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from agggen.config import Scalar
from agggen.errors import ConfigError, StoppedEarlyError, StoppedError
from agggen.training.events import TrainingEvent
from agggen.training.stopping import StopRequest
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.ray_cluster import ClusterError, nodes, room_for
from agggen_platform.ray_private import keep_credentials_from_trials
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.config import SweepError
from agggen_platform.sweep.space import as_overrides, trial_config
from agggen_platform.sweep.study import Study, reason_of
from agggen_platform.training.job import train_job

_CLAIMED_SECONDS = 60.0  # that a trial waits for its own former process, which outlived the driver, to end
_STEP_SECONDS = 2.0  # after which a step of Tune ends without an evaluation, so that Tune can stop the trial
_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no CSV, JSON and TensorBoard files beside MLflow
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # the study keeps them
    "RAY_AIR_NEW_OUTPUT": "0",  # which prints even where verbose is 0
}


@dataclass(frozen=True)
class TrialJob:
    """What all trials of a sweep have in common."""

    config: JobConfig
    sweep: str
    runs_dir: Path
    folder: Path
    """Where the driver works: relative paths of the configuration start there."""
    command: str = ""
    """That started the sweep."""

    def run(
        self,
        number: int,
        params: Mapping[str, Scalar],
        on_evaluation: Callable[[TrainingEvent], bool],
        stop: StopRequest | None = None,
    ) -> dict[str, Any]:
        """Trains, or continues a trial that was cut off; returns what `Study.complete` takes.

        Raises:
            StoppedError: `on_evaluation` or `stop` stopped it.
        """
        config = trial_config(self.config, params)
        name = f"{self.sweep}-t{number:03d}"
        searched = "\n".join(f"- `{setting}`" for setting in as_overrides(params))
        note = f"Trial {number} of the sweep {self.sweep}:\n\n{searched}"
        deadline = time.monotonic() + _CLAIMED_SECONDS
        while True:
            try:
                done = train_job(
                    config,
                    name,
                    runs_dir=self.runs_dir,
                    parent=self.sweep,
                    on_evaluation=on_evaluation,
                    stop=stop,
                    tags={"mlflow.source.name": self.command, "mlflow.note.content": note},
                )
            except ClaimedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return {"bundle": done.address, "run": done.run_name, "seconds": done.seconds}


class _Trial(tune.Trainable):
    """A trial's actor. A thread trains; after each evaluation it waits for the next step, or for the end.

    At a SIGTERM, as on a node that goes away, training saves a checkpoint, the step fails, and Tune starts the trial
    again.
    """

    def setup(self, config: dict[str, Any], job: TrialJob) -> None:
        if job.folder.is_dir():
            os.chdir(job.folder)
        self._stop = StopRequest()
        self._stop.__enter__()  # for as long as this process lives
        self._results: queue.SimpleQueue[dict[str, Any] | StoppedError] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[StoppedError | None] = queue.SimpleQueue()
        self._unanswered = False
        self._thread = threading.Thread(target=self._train, args=(job, config["number"], config["params"]), daemon=True)
        self._thread.start()

    def _train(self, job: TrialJob, number: int, params: Mapping[str, Scalar]) -> None:
        def evaluated(event: TrainingEvent) -> bool:
            self._results.put({"stage": event.stage, "epoch": event.epoch, **event.metrics})
            # The study may not know the evaluation: it must come before the last checkpoint.
            if (answer := self._answers.get()) is not None:
                raise answer
            return False

        try:
            self._results.put(job.run(number, params, evaluated, self._stop))
        except StoppedError as error:
            self._results.put(error)
        except Exception as error:  # any fault of a trial is its result; the sweep goes on
            self._results.put({"reason": reason_of(error)})

    def step(self) -> dict[str, Any]:
        """An evaluation, or how the trial ended: what `TrialJob.run` returns, or the `reason` why it failed."""
        if self._unanswered:
            self._answers.put(None)
        self._unanswered = False
        try:
            result = self._results.get(timeout=_STEP_SECONDS)
        except queue.Empty:
            return {}
        if isinstance(result, StoppedError):
            raise result
        self._unanswered = True
        return result

    def cleanup(self) -> None:
        """Ends training in order: it saves a checkpoint, and workers of its own give back what they hold."""
        self._stop.ask()
        # Tune tells no reason. It goes on with a trial at once or stops it, unless the sweep itself is interrupted.
        fell_behind = StoppedEarlyError("it fell behind other trials")
        ended = self._unanswered and self._stop.signal is None
        self._answers.put(fell_behind if ended else StoppedError("the trial was stopped at an evaluation"))
        self._thread.join()


class _StudySearch(Searcher):
    """Hands out the trials of a study. The study is durable itself, so Tune need not save it."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self._study = study

    def suggest(self, trial_id: str) -> Any:
        suggestion = self._study.next()
        return {"number": suggestion.number, "params": suggestion.params} if suggestion else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """The study knows already. An error of the study raised here would count as the trial's."""

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).touch()


class _StudyScheduler(FIFOScheduler):
    """Tells the study what trials report, and stops those that fall behind or are done."""

    def __init__(self, study: Study, ended: Callable[[int], None]) -> None:
        super().__init__()
        self._study, self._ended = study, ended

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        study, number = self._study, trial.config["number"]
        if "reason" in result:
            study.fail(number, result["reason"])
        elif "bundle" in result:
            study.complete(number, result["bundle"], result["run"], result["seconds"])
        elif "stage" not in result:
            return self.CONTINUE
        else:
            value = result.get(study.config.measure)
            finite = value if value is not None and math.isfinite(value) else None
            if not study.evaluated(number, result["stage"], result["epoch"], finite):
                return self.CONTINUE
        self._ended(number)
        return self.STOP


class _StudyCallback(tune.Callback):
    """Tells the study of trials whose process died more often than ``cluster.max_failures``."""

    def __init__(self, study: Study, ended: Callable[[int], None]) -> None:
        self._study, self._ended = study, ended

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        number, errors = trial.config["number"], Path(trial.error_file).read_text(encoding="utf-8")
        last = errors.strip().splitlines()[-1].strip()[:300]
        self._study.fail(number, f"its process died again and again; was it out of memory? Ray says: {last}")
        self._ended(number)


def run_trials(study: Study, job: TrialJob, ended: Callable[[int], None]) -> None:
    """Runs all trials that are left, on the Ray cluster that this process is connected to.

    `ended` gets the number of each trial that has ended, once the study knows.

    Raises:
        ClusterError: there is no room for a trial, or the cluster was lost.
        ConfigError: the trials may run on several nodes, and there is no store that all of these see.
        ClaimedError: another process took the sweep over.
        SweepError: the study can no longer be read or written.
        KeyboardInterrupt: the first Ctrl-C, after the trials have saved checkpoints; a second one at once.
    """
    cluster = job.config.cluster
    available = nodes()
    if len(available) > 1 and not job.config.storage.url:
        raise ConfigError(
            f"the cluster has {len(available)} nodes, and a trial must find its checkpoints on each of them: set "
            "storage.url to s3://bucket/prefix, or to a folder that all nodes see"
        )
    concurrent = trials_at_once(cluster, available, study.config.concurrent)
    # A trial with workers books next to nothing: if trials held all CPUs, their workers would wait for ever.
    books = {"memory": 1.0} if cluster.workers else cluster.resources_per_worker
    folder = job.runs_dir / job.sweep
    os.environ.update(_ENVIRONMENT)
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)  # it tells how to resume by Tune's own means
    keep_credentials_from_trials()
    try:
        tune.run(
            tune.with_parameters(_Trial, job=job),
            name="tune",
            storage_path=str(folder),
            num_samples=study.left,
            search_alg=_StudySearch(study),
            scheduler=_StudyScheduler(study, ended),
            callbacks=[_StudyCallback(study, ended)],
            max_concurrent_trials=concurrent,
            resources_per_trial=tune.PlacementGroupFactory([books]),
            max_failures=cluster.max_failures,
            raise_on_failed_trial=False,
            verbose=0,
        )
    except (TuneError, RayError, StorageInternalError, OSError) as error:
        cause: BaseException = error
        while isinstance(cause, TuneError) and (inner := cause.__cause__ or cause.__context__):
            cause = inner
        if isinstance(cause, RayError):
            raise ClusterError(f"the Ray cluster was lost: {cause}; the same command resumes") from error
        if isinstance(cause, StorageInternalError | OSError):
            raise SweepError(f"the study was lost ({reason_of(cause)}); the same command resumes") from error
        raise cause from None
    finally:
        shutil.rmtree(folder / "tune", ignore_errors=True)
    if study.left:  # Tune returns where Ctrl-C stopped it
        raise KeyboardInterrupt


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
