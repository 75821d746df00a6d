"""Runs the trials of a study with Ray Tune.

Tune runs trials as actors, limits how many run at once, reserves their resources, and restarts a trial whose process
died, which then resumes from its checkpoint. The study proposes the parameters of trials (`_StudySearch`) and decides
on early stopping (`_StudyScheduler`). Only the driver reads and writes the study.

This module imports Ray Tune, which takes seconds: import it only where trials are run.
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
from agggen_platform.ray_cluster import ClusterError, nodes, workers_that_fit
from agggen_platform.ray_private import keep_credentials_from_trials
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.config import SweepError
from agggen_platform.sweep.space import as_overrides, trial_config
from agggen_platform.sweep.study import Study, reason_of
from agggen_platform.training.job import train_job

_CLAIMED_SECONDS = 60.0  # how long a trial waits for its previous process, which may have outlived the driver
_STEP_SECONDS = 2.0  # after which a step ends without an evaluation: Tune can stop a trial only between steps
_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no CSV, JSON and TensorBoard files in addition to MLflow
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # the study stores the errors
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output ignores verbose=0
}


@dataclass(frozen=True)
class TrialJob:
    """The settings that all trials of a sweep share."""

    config: JobConfig
    sweep: str
    runs_dir: Path
    folder: Path
    """The working directory of the driver; relative paths in the configuration refer to it."""
    command: str = ""
    """The command line of the sweep."""

    def run(
        self,
        number: int,
        params: Mapping[str, Scalar],
        on_evaluation: Callable[[TrainingEvent], bool],
        stop: StopRequest | None = None,
    ) -> dict[str, Any]:
        """Trains or resumes a trial; returns the arguments of `Study.complete`.

        Raises:
            StoppedError: `on_evaluation` or `stop` stopped the trial.
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
    """The actor of a trial. A thread trains; after each evaluation it waits until Tune begins a step or stops it.

    On SIGTERM (a node is drained), training saves a checkpoint, the step fails, and Tune restarts the trial.
    """

    def setup(self, config: dict[str, Any], job: TrialJob) -> None:
        if job.folder.is_dir():
            os.chdir(job.folder)
        self._stop = StopRequest()
        self._stop.__enter__()  # handles signals until this process ends
        self._results: queue.SimpleQueue[dict[str, Any] | StoppedError] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[StoppedError | None] = queue.SimpleQueue()
        self._unanswered = False
        self._thread = threading.Thread(target=self._train, args=(job, config["number"], config["params"]), daemon=True)
        self._thread.start()

    def _train(self, job: TrialJob, number: int, params: Mapping[str, Scalar]) -> None:
        def evaluated(event: TrainingEvent) -> bool:
            self._results.put({"stage": event.stage, "epoch": event.epoch, **event.metrics})
            # Waits, so that the study has the evaluation before a checkpoint is saved.
            if (answer := self._answers.get()) is not None:
                raise answer
            return False

        try:
            self._results.put(job.run(number, params, evaluated, self._stop))
        except StoppedError as error:
            self._results.put(error)
        except Exception as error:  # a failed trial does not end the sweep
            self._results.put({"reason": reason_of(error)})

    def step(self) -> dict[str, Any]:
        """Returns an evaluation, the result of `TrialJob.run`, or the `reason` of its failure; {}: none of these."""
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
        """Ends training gracefully: it saves a checkpoint, and its workers release their resources."""
        self._stop.request()
        # Tune gives no reason. A trial that waits for the next step was stopped early, unless it received a signal.
        fell_behind = StoppedEarlyError("it fell behind other trials")
        ended = self._unanswered and self._stop.signal is None
        self._answers.put(fell_behind if ended else StoppedError("the trial was stopped at an evaluation"))
        self._thread.join()


class _StudySearch(Searcher):
    """Proposes the trials of a study; saves nothing, because the study stores every change itself."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self._study = study

    def suggest(self, trial_id: str) -> Any:
        suggestion = self._study.next()
        return {"number": suggestion.number, "params": suggestion.params} if suggestion else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Does nothing: the scheduler updates the study; an error raised here would count as an error of the trial."""

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).touch()


class _StudyScheduler(FIFOScheduler):
    """Reports evaluations to the study, and stops the trials that fall behind or have ended."""

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
    """Marks trials as failed in the study if their process died more often than ``cluster.max_failures``."""

    def __init__(self, study: Study, ended: Callable[[int], None]) -> None:
        self._study, self._ended = study, ended

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        number, errors = trial.config["number"], Path(trial.error_file).read_text(encoding="utf-8")
        last = errors.strip().splitlines()[-1].strip()[:300]
        self._study.fail(number, f"its process died repeatedly; was it out of memory? Ray says: {last}")
        self._ended(number)


def run_trials(study: Study, job: TrialJob, ended: Callable[[int], None]) -> None:
    """Runs the remaining trials on the Ray cluster that this process is connected to.

    `ended` is called with the number of each trial that ended, after the study was updated.

    Raises:
        ClusterError: the cluster is too small for a trial, or was lost.
        ConfigError: the cluster has several nodes, but ``storage.url`` is not set.
        ClaimedError: another process took the sweep over.
        SweepError: the study cannot be read or written any more.
        KeyboardInterrupt: after Ctrl-C, once the trials have saved checkpoints; after a second Ctrl-C immediately.
    """
    cluster = job.config.cluster
    available = nodes()
    if len(available) > 1 and not job.config.storage.url:
        raise ConfigError(
            f"the cluster has {len(available)} nodes, and a trial must find its checkpoints on each of them: set "
            "storage.url to s3://bucket/prefix, or to a folder that all nodes see"
        )
    concurrent = trials_at_once(cluster, available, study.config.concurrent)
    # The actor of a trial with workers reserves almost nothing, to leave the CPUs to its workers.
    reserved = {"memory": 1.0} if cluster.workers else cluster.resources_per_worker
    folder = job.runs_dir / job.sweep
    os.environ.update(_ENVIRONMENT)
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)  # it recommends Tune's own resume option
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
            resources_per_trial=tune.PlacementGroupFactory([reserved]),
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
    if study.left:  # Tune returns normally after Ctrl-C
        raise KeyboardInterrupt


def trials_at_once(config: ClusterConfig, nodes: list[dict[str, float]], limit: int = 0) -> int:
    """The number of concurrent trials on nodes with these resources (``{"CPU": 8.0, "GPU": 1.0}``).

    `limit` is the maximum; 0: as many as fit. On a cluster with autoscaling, a `limit` above 0 is always returned.

    Raises:
        ClusterError: the cluster is too small for a trial.
    """
    workers = max(1, config.workers)  # a trial without workers trains in its own process
    room = workers_that_fit(config.resources_per_worker, nodes) // workers
    if config.autoscaling:
        return limit or max(1, room)
    if not room:
        gpus = f" and {config.gpus_per_worker:g} GPUs" if config.gpus_per_worker else ""
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise ClusterError(
            f"a trial needs {workers} workers of {config.cpus_per_worker:g} CPUs{gpus}, and the cluster has no room "
            f"for one: its nodes have {have or 'nothing'}; lower cluster.workers or cluster.cpus_per_worker, or set "
            "cluster.autoscaling=true on a cluster with autoscaling"
        )
    return min(limit or room, room)
