"""A training job, from configuration to bundle; a job with the name of an earlier run resumes or returns that run.

    RUNS/NAME/tracking.jsonl, samples/    the run log, on the machine where the job runs
    RUNS/NAME/rejects.jsonl               invalid records, and texts that cannot be trained on
    STORE/NAME/run.json                   the configuration and the fingerprints of the data
    STORE/NAME/prepared/                  training examples (`prepared`)
    STORE/NAME/checkpoints/               verified checkpoints of both stages (`storage.checkpoints`)
    STORE/NAME/bundle/                    the model

STORE is ``storage.url``, or RUNS if that is null; a STORE other than RUNS also has a copy of the run log
(`tracking.backup`). The run's name does not depend on STORE: RUNS/NAME may contain an earlier job's bundle and
checkpoints, which a job with another STORE does not change.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, dropwhile
from pathlib import Path
from typing import Any

from agggen.bundle import Bundle, fingerprint, load_bundle, save_bundle
from agggen.config import config_hash, flatten
from agggen.corpora.rejects import write_rejects
from agggen.datasets import Dataset
from agggen.errors import StoppedEarlyError, StoppedError
from agggen.model.joint import JointModel
from agggen.run import Prepared, bundle_of, fit, new_model
from agggen.training.data import Data, check_unchanged, training_data
from agggen.training.distributed import SINGLE_WORKER
from agggen.training.events import EventReporter, SampleWriter, TrainingEvent
from agggen.training.loop import Stage
from agggen.training.stopping import StopRequest
from agggen_platform.job_config import JobConfig, TrackingConfig, run_config_of
from agggen_platform.metrics import TrainingMetrics
from agggen_platform.storage.bundles import MANIFEST, get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.backup import log_backup
from agggen_platform.tracking.journal import entries
from agggen_platform.tracking.transitions import transitions_table
from agggen_platform.training.events import EventSink, WorkerMonitor
from agggen_platform.training.keeper import StoreKeeper, trained_weights
from agggen_platform.training.prepared import load_or_prepare

_RUN, _BUNDLE, _CHECKPOINTS = "run.json", "bundle", "checkpoints"
_STORE_NAMES = (_RUN, _BUNDLE, _CHECKPOINTS, "prepared")
_TABLE_TEXTS = 50  # rows of the table of texts in MLflow
_STAGES = ("baseline", "joint")


@dataclass(frozen=True)
class TrainedRun:
    """The result of a training job."""

    bundle: Bundle
    path: Path  # the bundle's folder on this machine
    trained: bool  # False if an earlier call had finished the run
    seconds: float
    run_name: str
    address: str  # the bundle's address in STORE
    ui_command: str  # see `Tracker.ui_command`


def data_of(config: JobConfig, dataset: Dataset | None = None) -> Data:
    return training_data(config, config.max_reject_share, dataset)


def default_name(preset: str, config: JobConfig, data: Data) -> str:
    """``PRESET-HASH``, with a hash of everything that affects the result; the same command thus continues its run."""
    identity = json.dumps([config_hash(run_config_of(config)), *data.input_fingerprints.values()])
    return f"{Path(preset).stem}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def tracker_of(
    config: TrackingConfig, name: str, runs_dir: Path, tags: Mapping[str, str] | None, **options: Any
) -> Tracker:
    patience = config.patience_seconds
    return Tracker(config.uri, config.experiment, name, tags, runs_dir=runs_dir, patience=patience, **options)


def train_job(
    config: JobConfig,
    name: str,
    *,
    runs_dir: Path,
    fresh: bool = False,
    parent: str | None = None,
    on_evaluation: Callable[[TrainingEvent], bool] | None = None,
    stop: StopRequest | None = None,
    show: Callable[[TrainingEvent], None] = lambda event: None,
    report: Callable[[str], None] = lambda message: None,
    data: Data | None = None,
    tags: Mapping[str, str] | None = None,
) -> TrainedRun:
    """Trains a model, in this process (``cluster.workers`` 0) or on Ray Train, and logs the run.

    An existing run of this name is resumed; it is returned if it is finished, and replaced if `fresh`.

    Args:
        parent: the name of the parent run, such as a sweep.
        on_evaluation: called with the event of each evaluation; returns True or raises StoppedError to stop the job. If
            it raises StoppedEarlyError, the run's status in MLflow is FINISHED.
        stop: by default a new request; in the main thread, SIGINT and SIGTERM request a stop.
        show, report: called with each event of training; with messages for the user, such as restarts of workers.
        data: the records of the corpus, if they are loaded already.

    Raises ConfigError for an invalid name, or if a run of this name has another configuration or data; ClaimedError if
    another job works on it; StoppedError if it was stopped (the same call resumes it); TrainingError if it failed.
    """
    run = _Run(config, name, runs_dir, parent, tags)
    data = data or data_of(config)
    with claim(run.folder) as run_claim, ExitStack() as stack:
        if run.has_own_store:
            stack.enter_context(claim(Folder(str(run.runs_folder))))
        if fresh:
            run.clear()
        run.check(data)
        if run.has_own_store:
            stack.enter_context(log_backup(run.runs_folder, run.folder, _STORE_NAMES, run_claim, report))
        if finished_run := run.finished_run():
            if run.is_log_unfinished():
                with run.tracker:
                    run.log_end(finished_run.bundle, finished_run.path, finished_run.address, data)
            return finished_run
        if config.cluster.workers:
            from agggen_platform.training.on_ray import cluster_for_workers, train_on_workers

            stack.enter_context(cluster_for_workers(config))
        prepared, prepared_path = load_or_prepare(run.folder, config, data)
        run_claim()
        run.begin(data, prepared, report)
        start_time = time.monotonic()
        stop = stop or StopRequest()

        def should_stop() -> bool:
            run_claim.raise_if_lost()
            return stop()

        with run.tracker as tracker, stop, TrainingMetrics(name, config) as meter:
            sink = EventSink(tracker, meter, show, on_evaluation, stop)
            meter.begin()
            run.describe(data)
            samples = data.samples(config.tracking.samples)
            checkpoints = CheckpointStore(Folder(run.folder.at(_CHECKPOINTS)), config.storage.keep, report, run_claim)
            try:
                if config.cluster.workers:
                    silent_store = CheckpointStore(checkpoints.folder, report=lambda _: None)
                    monitor = WorkerMonitor(
                        config.cluster.workers,
                        lambda: [silent_store.latest(stage) for stage in _STAGES],
                        sink.send,
                        meter,
                        report,
                        tracker.log_system,
                    )
                    train_on_workers(config, run.folder, prepared_path, samples, run_claim, monitor, should_stop)
                    model, metrics = _from_checkpoints(config, prepared, checkpoints)
                else:
                    reporter = EventReporter(sink.send, SampleWriter(samples, prepared.encoder, config.inference))
                    with StoreKeeper(checkpoints, SINGLE_WORKER, lambda: meter.checkpoint(time.time())) as keeper:
                        seconds = config.storage.checkpoint_seconds
                        model, metrics = fit(config, prepared, keeper, [reporter], SINGLE_WORKER, should_stop, seconds)
            except StoppedEarlyError:
                raise
            except StoppedError as error:
                raise stop.with_exit_code(error) from error
            meter.close()  # all checkpoints are written
            run_claim()
            bundle = bundle_of(run_config_of(config), prepared, model, metrics, data.sources)
            path, address = run.publish(bundle, run_claim)
            seconds = time.monotonic() - start_time
            tracker.log_metrics({"train_seconds": seconds})
            run.log_end(bundle, path, address, data)
    return TrainedRun(bundle, path, True, seconds, name, address, run.tracker.ui_command())


def _from_checkpoints(
    config: JobConfig, prepared: Prepared, checkpoints: CheckpointStore
) -> tuple[JointModel, dict[str, float]]:
    """What `fit` returns, from the checkpoints of the workers."""
    model = new_model(config, prepared)
    metrics: dict[str, float] = {}
    for stage in _STAGES:
        if epochs := getattr(config.training, stage).epochs:
            weights, progress = trained_weights(checkpoints, stage, epochs)
            model.load_state_dict(weights)
            metrics |= {f"{stage}.dev_loss": progress.best_dev_loss, f"{stage}.updates": float(progress.step)}
    return model.eval(), metrics


class _Run:
    """A run: its configuration, run log and folders."""

    def __init__(
        self, config: JobConfig, name: str, runs_dir: Path, parent: str | None, tags: Mapping[str, str] | None
    ) -> None:
        tracking, storage = config.tracking, config.storage
        self.tracker = tracker_of(tracking, name, runs_dir, tags, parent=parent, system_seconds=tracking.system_seconds)
        self.config, self.name = config, name
        self.runs_folder = runs_dir.absolute() / name
        self.folder = Folder(Folder(storage.url or str(runs_dir)).at(name))
        # Whether STORE and RUNS are different folders:
        self.has_own_store = self.folder.local is None or self.folder.local.resolve() != self.runs_folder.resolve()

    def clear(self) -> None:
        """Removes the run's files, but no claims, and if STORE is not RUNS, no files of jobs with STORE = RUNS."""
        runs = Folder(str(self.runs_folder))
        files = [(runs, name) for name in runs.names()]
        if self.has_own_store:
            files = [(runs, name) for _, name in files if name.partition("/")[0] not in _STORE_NAMES]
            files += [(self.folder, name) for name in self.folder.names()]
        for folder, name in files:
            if not name.startswith(".claim"):
                folder.delete(name)

    def check(self, data: Data) -> None:
        if content := self.folder.read(_RUN):
            remedy = "another --name, or --fresh"
            check_unchanged(json.loads(content), self._identity(data), f"the run {self.name}", remedy)

    def begin(self, data: Data, prepared: Prepared, report: Callable[[str], None]) -> None:
        """Writes run.json and rejects.jsonl; reports the numbers of rejects."""
        path = self.runs_folder / "rejects.jsonl"
        for kind, rejects_by_name in (("invalid records", data.rejects), ("texts", prepared.rejects)):
            for name, rejects in rejects_by_name.items():
                report(f"{len(rejects):,} {kind} of {name} are left out; see {path}")
        if all_rejects := list(chain(*data.rejects.values(), *prepared.rejects.values())):
            self.runs_folder.mkdir(parents=True, exist_ok=True)
            write_rejects(path, all_rejects)
        self.folder.write(_RUN, (json.dumps(self._identity(data), indent=1, ensure_ascii=False) + "\n").encode())

    def _identity(self, data: Data) -> dict[str, Any]:
        return flatten(run_config_of(self.config)) | data.input_fingerprints

    def describe(self, data: Data) -> None:
        self.tracker.log_params(flatten(self.config))
        self.tracker.set_tags({"config_hash": config_hash(run_config_of(self.config))})
        for name, digest in data.fingerprints.items():
            corpus, _, split = name.rpartition("/")
            self.tracker.log_dataset(corpus, split, digest, corpus)

    def log_end(self, bundle: Bundle, path: Path, address: str, data: Data) -> None:
        tracker, config = self.tracker, self.config
        tracker.log_artifact(path)
        dev_split = f"{config.corpus.name}/{config.corpus.dev}"
        params = flatten(run_config_of(config))
        tracker.log_model(self.name, fingerprint(path), params, bundle.metrics, dev_split, data.fingerprints[dev_split])
        tracker.log_text(transitions_table(bundle), "transitions.csv")
        records = data.samples(_TABLE_TEXTS if config.tracking.samples else 0)
        stage: Stage = "joint" if config.training.joint.epochs else "baseline"
        generations = SampleWriter(records, bundle.encoder, config.inference).generate(bundle.model, stage)
        rows = zip(records, generations, strict=True)
        tracker.log_texts((record, generation.plan, generation.text) for record, generation in rows)
        tracker.set_tags({"bundle": address})

    def is_log_unfinished(self) -> bool:
        """Whether the run log lacks its end, because the job was killed after it had published the bundle."""
        events = [event for event, _ in entries(self.tracker.path) if event is not None]
        since_bundle = dropwhile(lambda event: event["event"] != "tags" or "bundle" not in event["values"], events)
        return bool(events) and not any(event["event"] == "end" for event in since_bundle)

    def finished_run(self) -> TrainedRun | None:
        """The result of an earlier call that finished the run; raises BundleError if the bundle was changed."""
        if self.folder.read(f"{_BUNDLE}/{MANIFEST}") is None:
            return None
        address = self.folder.at(_BUNDLE)
        path = get_bundle(address)
        return TrainedRun(load_bundle(path), path, False, 0.0, self.name, address, self.tracker.ui_command())

    def publish(self, bundle: Bundle, check_claim: Callable[[], None]) -> tuple[Path, str]:
        """Saves the bundle; returns its path on this machine, and its address for other machines."""
        path = self.folder.local / _BUNDLE if self.folder.local else self.runs_folder / ".upload"
        if path.exists():  # empty folders that `clear` left (a bundle would have ended the job), or of a killed upload
            shutil.rmtree(path)
        save_bundle(path, bundle)
        if self.folder.local:
            return path, str(path)
        address = put_bundle(path, self.folder.at(_BUNDLE), check_claim)
        shutil.rmtree(path)
        return get_bundle(address), address
