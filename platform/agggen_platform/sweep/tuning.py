"""Ray Tune, driven by a study: it starts the trials, restarts those whose process died, and carries words between them
and the study. It keeps nothing: its folder is scrap.

This module imports Ray; import it where it is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from agggen.errors import ConfigError
from agggen_platform.storage.claim import ClaimedError
from agggen_platform.sweep.capacity import trials_at_once
from agggen_platform.sweep.config import SweepError
from agggen_platform.sweep.study import Study, reason_of
from agggen_platform.sweep.trial import Conversation, TrialJob, Word


class _Trial(tune.Trainable):
    """A trial's process."""

    def setup(self, config: dict[str, Any], job: TrialJob) -> None:
        if job.folder.is_dir():
            os.chdir(job.folder)
        number, params = config["number"], config["params"]
        self._conversation = Conversation(lambda talk: job.run(number, params, talk), job.measure)

    def step(self) -> Word:
        return self._conversation.next()

    def cleanup(self) -> None:
        self._conversation.stop()


class _StudyLost(BaseException):
    """The study cannot be read or written. No Exception, because Tune would take it for a fault of the trial."""


@contextmanager
def _study_at_hand() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _StudyLost from error


class _Unsaved:
    """Tune pickles what it is given, to restore it one day; here that day never comes."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Searcher(_Unsaved, Searcher):
    """Hands out the study's trials and tells it how they ended."""

    def __init__(self, study: Study, told: Callable[[int], None]) -> None:
        super().__init__()
        self._study, self._told = study, told
        self._numbers: dict[str, int] = {}

    def suggest(self, trial_id: str) -> Any:
        with _study_at_hand():
            suggestion = self._study.next()
        if suggestion is None:
            return Searcher.FINISHED
        self._numbers[trial_id] = suggestion.number
        return {"number": suggestion.number, "params": suggestion.params}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        number = self._numbers.pop(trial_id)
        with _study_at_hand():
            if error or result is None:
                self._study.fail(number, "its process died again and again; was it out of memory?")
            elif result.get("outcome") == "finished":
                self._study.complete(number, result["bundle"], result["run"], result["seconds"])
            elif result.get("outcome") == "failed":
                self._study.fail(number, result["reason"])
            else:
                self._study.stop(number)
            self._told(number)

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).touch()  # Tune wants a file; all state is in the study


class _Scheduler(_Unsaved, FIFOScheduler):
    """Passes evaluations to the study, which says whether to stop."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self._study = study

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        number = trial.config["number"]
        with _study_at_hand():
            stop = self._study.evaluated(number, result["stage"], result["step"], result["value"])
        return TrialScheduler.STOP if stop else TrialScheduler.CONTINUE


def run_trials(study: Study, job: TrialJob, told: Callable[[int], None], scrap: Path) -> None:
    """Runs all trials that are left, on the Ray cluster that this process is connected to.

    `told` hears the number of each trial that has ended, after the study knows; `scrap` is a folder to use and remove.

    Raises:
        ClusterError: there is no room for a trial.
        ConfigError: the trials may run on several nodes, and nothing is said about where all of these see their files.
        ClaimedError: another process took the sweep over.
        SweepError: the study was lost on the way.
    """
    cluster = job.config.cluster
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if len(nodes) > 1 and not job.config.storage.url:
        raise ConfigError(
            f"the cluster has {len(nodes)} nodes, and a trial must find its checkpoints on each of them: set "
            "storage.url to s3://bucket/prefix, or to a folder that all nodes see"
        )
    concurrent = trials_at_once(cluster, nodes, study.config.concurrent)
    books = {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker}
    resources = {"memory": 1.0} if cluster.workers else books  # nothing (see `capacity`); but Tune refuses nothing
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # it would end the sweep as if it were done
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # the new output prints a box even where verbose is 0
    shutil.rmtree(scrap, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(_Trial, job=job), resources),
        tune_config=tune.TuneConfig(
            search_alg=_Searcher(study, told),
            scheduler=_Scheduler(study),
            num_samples=study.left,
            max_concurrent_trials=concurrent,
            reuse_actors=False,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name=job.sweep,
            storage_path=str(scrap),
            failure_config=tune.FailureConfig(max_failures=cluster.max_failures),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    except _StudyLost as lost:
        if isinstance(lost.__cause__, ClaimedError):
            raise lost.__cause__ from None
        raise SweepError(
            f"the study was lost ({reason_of(lost.__cause__ or lost)}); the same command goes on"
        ) from lost
    finally:
        shutil.rmtree(scrap, ignore_errors=True)
