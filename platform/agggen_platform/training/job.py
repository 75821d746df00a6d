"""A training job, from a configuration to a bundle; run again under its name it continues, and finds a finished run.

    RUNS/NAME/tracking.jsonl, samples/, figures/    the run log, on the machine that started the job
    STORE/NAME/run.json                             what was asked for: configuration and fingerprints of the data
    STORE/NAME/prepared/                            examples (`prepared`)
    STORE/NAME/checkpoints/                         verified checkpoints of both stages (`storage.checkpoints`)
    STORE/NAME/bundle/                              the model

    RUNS/NAME/rejects.jsonl                         records of the corpus that could not be read, or not cut into facts

STORE is ``storage.url``, or RUNS where that is null. It is not part of a run's name: one RUNS/NAME may have been the
store of an earlier job whose finished bundle lies there, so a job with another STORE leaves what is a store's alone.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agggen.bundle import Bundle, load_bundle, save_bundle
from agggen.corpora.rejects import write_rejects
from agggen.errors import ConfigError, StoppedError
from agggen.generation.config import current
from agggen.model.joint import JointModel
from agggen.records import Record
from agggen.run import Prepared, RunConfig, bundle_of, fit
from agggen.training.distributed import Alone
from agggen_platform.config import config_hash, flatten, resolved
from agggen_platform.job_config import JobConfig, result_of
from agggen_platform.metrics import TrainingMeter
from agggen_platform.storage.bundles import get_bundle, put_bundle
from agggen_platform.storage.checkpoints import CheckpointStore
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker, plots
from agggen_platform.tracking.journal import entries, history
from agggen_platform.training.data import Data, data_of
from agggen_platform.training.keeper import FinishedKeeper, StoreKeeper
from agggen_platform.training.news import News, Reporter, Writer
from agggen_platform.training.prepared import prepared_in
from agggen_platform.training.stopping import StopRequest

OnEvaluation = Callable[[str, int, Mapping[str, float]], bool]
_RUN, _BUNDLE, _CHECKPOINTS, _PREPARED = "run.json", "bundle", "checkpoints", "prepared"
_REJECTS = "rejects.jsonl"


@dataclass(frozen=True)
class Finished:
    """A trained bundle, where it lies, and whether this call trained it or found it there."""

    bundle: Bundle
    path: Path  # on this machine
    trained: bool
    seconds: float
    run_name: str
    address: str  # where others find the bundle
    ui_command: str  # opens the run log in a browser


def train_job(
    config: JobConfig,
    name: str,
    *,
    runs_dir: Path,
    fresh: bool = False,
    parent: str | None = None,
    on_evaluation: OnEvaluation | None = None,
    show: Callable[[News], None] = lambda news: None,
    say: Callable[[str], None] = lambda sentence: None,
    data: Data | None = None,
) -> Finished:
    """Trains what `config` says, here (``cluster.workers`` 0) or on Ray Train, and logs it.

    Args:
        config: the whole configuration.
        name: the run's. The same name continues; another configuration or other data under it are refused.
        runs_dir: where the run log lives, and all the rest unless ``storage.url`` says otherwise.
        fresh: start over, whatever lies under the name.
        parent: the name of the run that this one is part of.
        on_evaluation: told stage, update and scores after each epoch; True stops the job.
        show: told everything that training says.
        say: told, in a sentence, what becomes of the workers of a cluster, and what the job had to make do with.
        data: the corpus's records, where they are read already.

    Raises:
        ConfigError: the name is no name, or belongs to a run of another configuration or other data.
        CorpusError, RecordError: the corpus is missing, or cannot be trained on; AllenNLPError likewise.
        ClusterError: there is no such cluster, or it lacks what the workers need.
        ClaimedError: another job works on this run.
        StorageError: the store refused or does not answer.
        StoppedError: a signal, or `on_evaluation`; the same call continues.
        TrainingError: training cannot go on.
    """
    run = _Run(config, name, runs_dir, parent)
    data = data or data_of(config)
    with claim(run.folder) as check, ExitStack() as stack:
        if run.away:
            stack.enter_context(claim(Folder(str(run.runs_folder))))
        if fresh:
            run.clear()
        run.check(data)
        if found := run.finished():
            if run.is_half_told():
                with run.tracker:
                    run.tell(found.bundle, found.path, found.address, data.samples(config.tracking.samples))
            return found
        workers = None
        if config.cluster.workers:
            from agggen_platform.training.on_ray import workers_of

            workers = stack.enter_context(workers_of(config))
        prepared, place = prepared_in(run.folder, config, data)
        run.begin(data, prepared, say)
        begin = time.monotonic()
        stop = StopRequest()
        with run.tracker as tracker, stop, TrainingMeter(name, config) as meter:
            desk = _Desk(tracker, show, on_evaluation, meter)
            meter.begin()
            run.describe(data)
            try:
                samples = data.samples(config.tracking.samples)
                if workers is not None:
                    workers.train(run.folder, place, samples, desk.hear, stop, meter, say)
                writer = Writer(samples, prepared.encoder, config.inference)
                model, metrics = run.fit(prepared, desk, writer, stop, say)
            except StoppedError as error:
                raise stop.stopped(error) from error
            meter.close()  # what follows keeps no checkpoints
            check()
            bundle = bundle_of(config, prepared, model, metrics, data.sources, resolved(result_of(config)))
            path, address = run.publish(bundle)
            seconds = time.monotonic() - begin
            tracker.log_metrics({"train_seconds": seconds})
            run.tell(bundle, path, address, samples)
    return Finished(bundle, path, True, seconds, name, address, run.tracker.ui_command())


class _Desk:
    """Where news arrive: they are logged, shown, and answered."""

    def __init__(
        self,
        tracker: Tracker,
        show: Callable[[News], None],
        on_evaluation: OnEvaluation | None,
        meter: TrainingMeter,
    ) -> None:
        self.tracker, self.show, self.on_evaluation, self.meter = tracker, show, on_evaluation, meter

    def hear(self, news: News) -> bool:
        """Whether training should stop."""
        self.meter.hear(news)
        if news.metrics:
            self.tracker.log_metrics({f"{news.stage}/{name}": v for name, v in news.metrics.items()}, step=news.step)
        if news.samples:
            self.tracker.log_text(news.samples, f"samples/{news.stage}-{news.epoch:03d}.txt")
        self.show(news)
        if news.kind != "evaluation" or self.on_evaluation is None:
            return False
        return self.on_evaluation(news.stage, news.step, news.metrics)


class _Run:
    """One run's places and what was asked for."""

    def __init__(self, config: JobConfig, name: str, runs_dir: Path, parent: str | None) -> None:
        tracking, storage = config.tracking, config.storage
        self.tracker = Tracker(
            tracking.uri,
            tracking.experiment,
            name,
            runs_dir=runs_dir,
            patience=tracking.patience_seconds,
            parent=parent,
            system_seconds=tracking.system_seconds,
        )
        self.config, self.name = config, name
        self.runs_folder = runs_dir.absolute() / name
        self.folder = Folder(f"{storage.url.rstrip('/')}/{name}" if storage.url else str(self.runs_folder))
        self.away = self.folder.local is None or self.folder.local.resolve() != self.runs_folder.resolve()
        """Whether the store is not the folder of runs."""

    def clear(self) -> None:
        """Removes everything but the claims, and but another store's things in the folder of runs."""
        runs = Folder(str(self.runs_folder))
        stored = (_RUN, _BUNDLE, _CHECKPOINTS, _PREPARED)
        there = [(runs, name) for name in runs.names() if not (self.away and name.partition("/")[0] in stored)]
        if self.away:
            there += [(self.folder, name) for name in self.folder.names()]
        for folder, name in there:
            if not name.startswith(".claim"):
                folder.delete(name)

    def check(self, data: Data) -> None:
        """Raises ConfigError: the name belongs to a run of another configuration or other data."""
        content = self.folder.read(_RUN)
        if content is None:
            return
        there, here = _comparable(json.loads(content)), _comparable(self._asked(data))
        changed = [
            f"{key} was {there.get(key)!r} and is {here.get(key)!r}"
            for key in sorted(there.keys() | here.keys())
            if there.get(key) != here.get(key)
        ]
        if changed:
            more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise ConfigError(
                f"the run {self.name} was started with another configuration or other data: "
                f"{'; '.join(changed[:5])}{more}. Give another --name, or --fresh to start over"
            )

    def begin(self, data: Data, prepared: Prepared, say: Callable[[str], None]) -> None:
        """Writes down what was asked for, and what of it could not be read or cut."""
        for name, rejects in data.rejects.items():
            say(f"{len(rejects):,} records of {name} cannot be read: {self.runs_folder / _REJECTS}")
        for name, rejects in prepared.rejects.items():
            say(f"{len(rejects):,} texts of {name} cannot be cut into facts: {self.runs_folder / _REJECTS}")
        if every := [one for kind in (data.rejects, prepared.rejects) for rejects in kind.values() for one in rejects]:
            self.runs_folder.mkdir(parents=True, exist_ok=True)
            write_rejects(self.runs_folder / _REJECTS, every)
        self.folder.write(_RUN, (json.dumps(self._asked(data), indent=1, ensure_ascii=False) + "\n").encode())

    def _asked(self, data: Data) -> dict[str, Any]:
        return flatten(result_of(self.config)) | data.decisive

    def describe(self, data: Data) -> None:
        """Tells the run log what is trained on what."""
        config = self.config
        self.tracker.log_params(flatten(config) | {"config_hash": config_hash(result_of(config))})
        for name, fingerprint in data.fingerprints.items():
            corpus, _, split = name.rpartition("/")
            self.tracker.log_dataset(corpus, split, fingerprint, corpus)

    def tell(self, bundle: Bundle, path: Path, address: str, samples: Sequence[Record]) -> None:
        """Tells the run log how it ended."""
        self.tracker.log_artifact(path)
        self.draw(bundle, samples)
        self.tracker.set_tags({"bundle": address})

    def is_half_told(self) -> bool:
        """Whether the run log here lacks its end, because the job was killed after its bundle was there."""
        events = [event for event, _ in entries(self.tracker.path) if event is not None]
        told = [place for place, e in enumerate(events) if e["event"] == "tags" and "bundle" in e["values"]]
        return bool(events) and not (told and any(e["event"] == "end" for e in events[told[0] :]))

    def draw(self, bundle: Bundle, samples: Sequence[Record]) -> None:
        """Pictures for the run log."""
        tracker = self.tracker
        tracker.log_figure("learning-curves", lambda: plots.learning_curves(history(tracker.path)))
        tracker.log_figure("transitions", lambda: plots.transitions(bundle))
        if samples:
            tracker.log_figure("alignment", lambda: plots.alignment(bundle, samples[0]))

    def finished(self) -> Finished | None:
        """The bundle that an earlier call left.

        Raises:
            BundleError: it was changed after it was saved.
        """
        if self.folder.read(f"{_BUNDLE}/manifest.json") is None:
            return None
        address = self.folder.at(_BUNDLE)
        path = get_bundle(address)
        return Finished(load_bundle(path), path, False, 0.0, self.name, address, self.tracker.ui_command())

    def fit(
        self, prepared: Prepared, desk: _Desk, writer: Writer, stop: StopRequest, say: Callable[[str], None]
    ) -> tuple[JointModel, dict[str, float]]:
        """Trains in this process; after the workers of a cluster have, it only takes the weights that they kept."""
        config: RunConfig = result_of(self.config)
        store = CheckpointStore(Folder(self.folder.at(_CHECKPOINTS)), self.config.storage.keep, say)
        if self.config.cluster.workers:
            here = replace(config, training=replace(config.training, device="cpu"))
            with FinishedKeeper(store, Alone()) as keeper:
                return fit(here, prepared, keeper)
        with StoreKeeper(store, Alone(), desk.meter.checkpoint) as keeper:
            return fit(
                config,
                prepared,
                keeper,
                lambda stage: [Reporter(desk.hear, writer)],
                stop=stop,
                checkpoint_seconds=self.config.storage.checkpoint_seconds,
            )

    def publish(self, bundle: Bundle) -> tuple[Path, str]:
        """Where the bundle lies now: on this machine, and for others."""
        if self.folder.local is not None:
            path = self.folder.local / _BUNDLE
            if path.exists():  # without a manifest (`finished`): empty folders that `clear` left
                shutil.rmtree(path)
            save_bundle(path, bundle)
            return path, str(path)
        staged = self.runs_folder / ".upload"
        if staged.exists():  # of a job that was killed before it could copy it
            shutil.rmtree(staged)
        save_bundle(staged, bundle)
        address = put_bundle(staged, self.folder.at(_BUNDLE))
        shutil.rmtree(staged)
        return get_bundle(address), address


def _comparable(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the result, of the whole that a run was asked for.

    The bundle that training begins with counts by its fingerprint, wherever it lies; a setting that did not exist when
    the run began, by its default; one that is no more, only where it changed something; and settings of a stage without
    epochs count for nothing.
    """
    known = current(flatten(RunConfig()) | dict(asked), "inference.beam.")
    idle = tuple(f"training.{stage}." for stage in ("baseline", "joint") if not known[f"training.{stage}.epochs"])
    return {
        key: value
        for key, value in known.items()
        if key != "training.start" and (key.endswith(".epochs") or not key.startswith(idle))
    }
