"""Runs on this machine: corpus to bundle, with the run log beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agggen.bundle import Bundle, load_bundle
from agggen.corpora.catalogue import list_corpora, load
from agggen.corpora.rejects import split_rejects
from agggen.errors import ConfigError, CorpusError
from agggen.records import Record
from agggen.run import RunConfig, train
from agggen.training.callbacks import Callback, Metrics, Silent
from agggen.training.loop import Trainer
from agggen.training.objectives import ObjectiveName
from agggen_platform.config import config_hash, flatten, resolved
from agggen_platform.tracking import Tracker


@dataclass(frozen=True)
class Finished:
    """A trained bundle, where it lies, and whether this call trained it or found it there."""

    bundle: Bundle
    path: Path
    trained: bool
    seconds: float


def records_of(corpus: str, split: str) -> list[Record]:
    """The readable records of a corpus of the catalogue, or of a folder that `agggen corpora prepare` wrote.

    Raises:
        CorpusError: there is no such corpus, folder or split.
    """
    prepared = Path(corpus) / f"{split}.parquet"
    if prepared.is_file():
        from agggen.corpora.prepared import read_records

        return read_records(prepared)
    if corpus not in {known.name for known in list_corpora()}:
        folder = Path(corpus)
        if splits := sorted(file.stem for file in folder.glob("*.parquet")):
            raise CorpusError(f"the folder {corpus} has no split {split!r}; it has {', '.join(splits)}")
        if folder.is_dir():
            raise CorpusError(
                f"the folder {corpus} holds no prepared corpus ({prepared} is missing); "
                "make one with: agggen corpora prepare NAME --out DIR"
            )
    records, _ = split_rejects(load(corpus, split))
    return records


def fingerprint_of(records: Sequence[Record]) -> str:
    """SHA-256 over the records' JSON, in their order."""
    import hashlib
    import json

    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True).encode())
    return digest.hexdigest()


def run_folder(config: RunConfig, name: str, root: Path) -> Path:
    """Where a run of this configuration lives: the same configuration finds the same folder and continues there.

    Raises:
        ConfigError: `name` is no file name.
    """
    if Path(name).name != name:
        raise ConfigError(f"the run's name {name!r} must be a name without folders; --runs says where runs live")
    return root / f"{name}-{config_hash(config)}"


class _ToTracker(Silent):
    """Sends the loop's metrics to the run log, each stage under its own name."""

    def __init__(self, tracker: Tracker, stage: ObjectiveName) -> None:
        self.tracker, self.stage = tracker, stage

    def on_log(self, trainer: Trainer, metrics: Metrics) -> None:
        self._log(trainer, metrics)

    def on_evaluation(self, trainer: Trainer, metrics: Metrics) -> None:
        self._log(trainer, metrics)

    def _log(self, trainer: Trainer, metrics: Metrics) -> None:
        named = {f"{self.stage}/{name}": value for name, value in metrics.items()}
        self.tracker.log_metrics(named, step=trainer.progress.step)


def finished(folder: Path) -> Finished | None:
    """The bundle that a finished run left in `folder`, if there is one.

    Raises:
        BundleError: the bundle was changed after it was saved.
    """
    path = folder / "bundle"
    return Finished(load_bundle(path), path, False, 0.0) if path.exists() else None


def train_here(
    config: RunConfig,
    folder: Path,
    tracker: Tracker,
    show: Callable[[ObjectiveName], Sequence[Callback]] = lambda stage: (),
) -> Finished:
    """Trains in `folder`, or loads the bundle that a finished run left there.

    Raises:
        CorpusError: the corpus is not there.
        TrainingError: training cannot go on.
    """
    if found := finished(folder):
        return found
    corpus = config.corpus
    train_records, dev_records = records_of(corpus.name, corpus.train), records_of(corpus.name, corpus.dev)
    sources = {
        f"{corpus.name}/{corpus.train}": fingerprint_of(train_records),
        f"{corpus.name}/{corpus.dev}": fingerprint_of(dev_records),
    }
    tracker.log_params(flatten(config) | {"config_hash": config_hash(config), **sources})
    begin = time.monotonic()
    bundle = train(
        config,
        train_records,
        dev_records,
        folder,
        lambda stage: [*show(stage), _ToTracker(tracker, stage)],
        sources,
        resolved(config),
    )
    seconds = time.monotonic() - begin
    tracker.log_metrics({"train_seconds": seconds})
    tracker.log_artifact(folder / "bundle")
    return Finished(bundle, folder / "bundle", True, seconds)
