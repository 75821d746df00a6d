"""Runs the trials of a study with Ray Tune.

Tune runs trials as actors, limits their number, reserves their resources, and restarts a trial whose process died; the
trial then resumes from its checkpoint. The study proposes the parameters of trials (`_StudySearch`) and decides on
early stopping (`_StudyScheduler`). Only the driver reads and writes the study.

This module imports Ray Tune, which takes seconds: import it only where trials are run.
"""

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

from agggen.config import Scalar, as_overrides
from agggen.errors import ConfigError, StoppedEarlyError, StoppedError
from agggen.training.events import TrainingEvent
from agggen.training.stopping import StopRequest
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.ray_cluster import ClusterError, nodes, workers_that_fit
from agggen_platform.ray_private import keep_credentials_from_trials
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.config import SweepError, trial_config
from agggen_platform.sweep.study import Study, reason_of
from agggen_platform.training.job import train_job

_CLAIMED_SECONDS = 60.0  # timeout of waiting for a previous process of the trial, which may have outlived the driver
_STEP_SECONDS = 2.0  # timeout of a step without an evaluation, because Tune can stop a trial only between steps
_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no log files besides the run log
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # the study stores the errors
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output ignores verbose=0
}


@dataclass(frozen=True)
class TrialJob:
    """The inputs that all trials of a sweep share."""

    config: JobConfig
    sweep: str
    runs_dir: Path
    folder: Path  # the driver's working directory; relative paths in the configuration refer to it
    command: str = ""  # the command line of the sweep

    def run(
        self,
        number: int,
        params: Mapping[str, Scalar],
        on_evaluation: Callable[[TrainingEvent], bool],
        stop: StopRequest | None = None,
    ) -> dict[str, Any]:
        """Trains or resumes a trial; returns the arguments of `Study.complete`."""
        config = trial_config(self.config, params)
        name = f"{self.sweep}-t{number:03d}"
        settings = "\n".join(f"- `{setting}`" for setting in as_overrides(params))
        note = f"Trial {number} of the sweep {self.sweep}:\n\n{settings}"
        deadline = time.monotonic() + _CLAIMED_SECONDS
        while True:
            try:
                run = train_job(
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
                return {"bundle": run.address, "run": run.run_name, "seconds": run.seconds}


class _Trial(tune.Trainable):
    """The actor of a trial. A thread trains; after each evaluation it waits for Tune's next step or stop.

    After SIGTERM (the node is drained) training saves a checkpoint, the step fails, and Tune restarts the trial.
    """

    def setup(self, config: dict[str, Any], job: TrialJob) -> None:
        if job.folder.is_dir():
            os.chdir(job.folder)
        self._stop = StopRequest()
        self._stop.__enter__()  # handles signals until this process ends
        self._results: queue.SimpleQueue[dict[str, Any] | StoppedError] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[StoppedError | None] = queue.SimpleQueue()
        self._awaits_answer = False
        self._thread = threading.Thread(target=self._train, args=(job, config["number"], config["params"]), daemon=True)
        self._thread.start()

    def _train(self, job: TrialJob, number: int, params: Mapping[str, Scalar]) -> None:
        def on_evaluation(event: TrainingEvent) -> bool:
            self._results.put({"stage": event.stage, "epoch": event.epoch, **event.metrics})
            # Waits, so that the study has the evaluation before training saves the next checkpoint.
            if (answer := self._answers.get()) is not None:
                raise answer
            return False

        try:
            self._results.put(job.run(number, params, on_evaluation, self._stop))
        except StoppedError as error:
            self._results.put(error)
        except Exception as error:  # a failed trial does not end the sweep
            self._results.put({"reason": reason_of(error)})

    def step(self) -> dict[str, Any]:
        """Returns an evaluation, the result of `TrialJob.run`, or the `reason` of its failure; {} after a timeout."""
        if self._awaits_answer:
            self._answers.put(None)
        self._awaits_answer = False
        try:
            result = self._results.get(timeout=_STEP_SECONDS)
        except queue.Empty:
            return {}
        if isinstance(result, StoppedError):
            raise result
        self._awaits_answer = True
        return result

    def cleanup(self) -> None:
        """Stops training gracefully: it saves a checkpoint, and its workers release their resources."""
        self._stop.request()
        # Tune gives no reason. A trial that waits for the next step was stopped early, unless it received a signal.
        early_stop = StoppedEarlyError("it fell behind other trials")
        is_pruned = self._awaits_answer and self._stop.signal is None
        self._answers.put(early_stop if is_pruned else StoppedError("the trial was stopped at an evaluation"))
        self._thread.join()


class _StudySearch(Searcher):
    """Proposes the trials of a study; saves no state, because the study stores every change itself."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self._study = study

    def suggest(self, trial_id: str) -> Any:
        suggestion = self._study.next()
        return {"number": suggestion.number, "params": suggestion.params} if suggestion else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Does nothing: the scheduler updates the study, because Tune would attribute an error here to the trial."""

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).touch()


class _StudyScheduler(FIFOScheduler):
    """Reports evaluations to the study, and stops trials that it prunes or that have ended."""

    def __init__(self, study: Study, on_trial_end: Callable[[int], None]) -> None:
        super().__init__()
        self._study, self._on_trial_end = study, on_trial_end

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
            finite_value = value if value is not None and math.isfinite(value) else None
            if not study.report_evaluation(number, result["stage"], result["epoch"], finite_value):
                return self.CONTINUE
        self._on_trial_end(number)
        return self.STOP


class _StudyCallback(tune.Callback):
    """Marks trials whose process died more often than ``cluster.max_failures`` as failed in the study."""

    def __init__(self, study: Study, on_trial_end: Callable[[int], None]) -> None:
        self._study, self._on_trial_end = study, on_trial_end

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        number, error_text = trial.config["number"], Path(trial.error_file).read_text(encoding="utf-8")
        last_line = error_text.strip().splitlines()[-1].strip()[:300]
        self._study.fail(number, f"its process died repeatedly; was it out of memory? Ray says: {last_line}")
        self._on_trial_end(number)


def run_trials(study: Study, job: TrialJob, on_trial_end: Callable[[int], None]) -> None:
    """Runs the remaining trials on the connected Ray cluster; `on_trial_end` gets the number of each stored trial.

    Raises ClusterError if the cluster is too small for a trial or was lost, ConfigError if it has several nodes but
    ``storage.url`` is not set, SweepError if the study cannot be read or written, and after Ctrl-C KeyboardInterrupt,
    once the trials have saved checkpoints.
    """
    cluster = job.config.cluster
    node_resources = nodes()
    if len(node_resources) > 1 and not job.config.storage.url:
        raise ConfigError(
            f"the cluster has {len(node_resources)} nodes, and all need access to the checkpoints: set storage.url "
            "to s3://bucket/prefix, or to a folder that all nodes share"
        )
    concurrent = trials_at_once(cluster, node_resources, study.config.concurrent)
    # The actor of a trial with workers reserves one byte of memory, so that its workers get the CPUs.
    reserved_resources = {"memory": 1.0} if cluster.workers else cluster.resources_per_worker
    folder = job.runs_dir / job.sweep
    os.environ.update(_ENVIRONMENT)
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)  # it recommends Tune's own resume option
    keep_credentials_from_trials()
    try:
        tune.run(
            tune.with_parameters(_Trial, job=job),
            name="tune",
            storage_path=str(folder),
            num_samples=study.remaining,
            search_alg=_StudySearch(study),
            scheduler=_StudyScheduler(study, on_trial_end),
            callbacks=[_StudyCallback(study, on_trial_end)],
            max_concurrent_trials=concurrent,
            resources_per_trial=tune.PlacementGroupFactory([reserved_resources]),
            max_failures=cluster.max_failures,
            raise_on_failed_trial=False,
            verbose=0,
        )
    except (TuneError, RayError, StorageInternalError, OSError) as error:
        cause: BaseException = error
        while isinstance(cause, TuneError) and (inner_error := cause.__cause__ or cause.__context__):
            cause = inner_error
        if isinstance(cause, RayError):
            raise ClusterError(f"the Ray cluster was lost: {cause}; the same command resumes") from error
        if isinstance(cause, StorageInternalError | OSError):
            raise SweepError(f"the study was lost ({reason_of(cause)}); the same command resumes") from error
        raise cause from None
    finally:
        shutil.rmtree(folder / "tune", ignore_errors=True)
    if study.remaining:  # Tune returns normally after Ctrl-C
        raise KeyboardInterrupt


def trials_at_once(config: ClusterConfig, nodes: list[dict[str, float]], limit: int = 0) -> int:
    """The number of concurrent trials: `limit` if it is not 0, but without autoscaling at most as many as fit."""
    workers = max(1, config.workers)  # a trial without workers trains in its own process
    n_fitting = workers_that_fit(config.resources_per_worker, nodes) // workers
    if config.autoscaling:
        return limit or max(1, n_fitting)
    if not n_fitting:
        gpus = f" and {config.gpus_per_worker:g} GPUs" if config.gpus_per_worker else ""
        node_list = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise ClusterError(
            f"a trial needs {workers} workers of {config.cpus_per_worker:g} CPUs{gpus}, and they do not fit: the nodes "
            f"have {node_list or 'nothing'}; lower cluster.workers or cluster.cpus_per_worker, or set "
            "cluster.autoscaling=true if the cluster autoscales"
        )
    return min(limit or n_fitting, n_fitting)
