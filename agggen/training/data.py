"""The records of a run, and their fingerprints, so that a run resumes only with the same data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from agggen.bundle import Bundle, check_bundle, fingerprint, load_bundle, resolve_shipped
from agggen.config import flatten
from agggen.corpora.catalogue import list_corpora
from agggen.corpora.rejects import Reject, check_reject_share
from agggen.datasets import Dataset, fingerprint_of, load_dataset
from agggen.errors import ConfigError
from agggen.facts.config import segmenter
from agggen.generation.planner import MAX_TRIPLES
from agggen.records import Record
from agggen.run import RunConfig

_REMOTE_FETCHER = "agggen_platform.storage.bundles:get_bundle"


@dataclass(frozen=True)
class StartBundle:
    """The bundle at ``training.start``."""

    bundle: Bundle
    fingerprint: str


@dataclass(frozen=True)
class Data:
    """Training and development records."""

    train: list[Record]
    dev: list[Record]
    fingerprints: dict[str, str]  # SHA-256 by ``CORPUS/SPLIT``
    segmenter: str  # the fingerprint of the segmenter, or ``corpus`` if the corpus has facts
    # Invalid records by ``CORPUS/SPLIT``, or by ``CORPUS`` if the source had no splits:
    rejects: dict[str, list[Reject]] = field(default_factory=dict)
    replay: list[Record] = field(default_factory=list)  # records whose texts are replayed (`training.batches`)
    start: StartBundle | None = None  # the bundle of the initial weights; None: random weights

    @property
    def sources(self) -> dict[str, str]:
        """The fingerprints of the splits and of the initial bundle, for `Bundle.sources`."""
        return self.fingerprints | ({"start": self.start.fingerprint} if self.start else {})

    @property
    def input_fingerprints(self) -> dict[str, str]:
        """The fingerprints of all inputs other than the configuration that determine the result."""
        inputs = {f"data {name}": value for name, value in self.fingerprints.items()} | {"segmenter": self.segmenter}
        return inputs | ({"start": self.start.fingerprint} if self.start else {})

    def samples(self, count: int) -> list[Record]:
        """Up to `count` development records with texts, evenly spaced in the split."""
        with_texts = [record for record in self.dev if record.references and len(record.triples) <= MAX_TRIPLES]
        return with_texts[:: max(len(with_texts) // max(count, 1), 1)][:count]


def training_dataset(source: Any, **options: Any) -> Dataset:
    """`load_dataset` with `options`, without the test set if `source` is a corpus of the catalogue."""
    in_catalogue = isinstance(source, str) and source in {corpus.name for corpus in list_corpora()}
    return load_dataset(source, splits=("train", "dev") if in_catalogue else None, **options)


def training_data(config: RunConfig, max_reject_share: float = 0.05, dataset: Dataset | None = None) -> Data:
    """The configuration's corpus (or `dataset`, if it is already loaded) and the segmenter of its texts.

    Raises CorpusError if the corpus is missing, or more than `max_reject_share` of a split is rejected.
    """
    corpus, facts = config.corpus, config.facts.segmenter
    names = dict.fromkeys((corpus.train, corpus.dev))
    data = dataset or load_dataset(corpus.name, splits=tuple(names))
    rejects: dict[str, list[Reject]] = {}
    for split_or_name, rejected in data.rejects.items():
        if split_or_name in names or split_or_name not in data.splits:
            label = f"{corpus.name}/{split_or_name}" if split_or_name in names else corpus.name
            splits = [data.splits[split_or_name]] if split_or_name in names else data.splits.values()
            check_reject_share(sum(map(len, splits)), rejected, max_reject_share, label)
            rejects[label] = list(rejected)
    fingerprints = {f"{corpus.name}/{name}": fingerprint_of(data.split(name)) for name in names}
    segmenter_fingerprint = segmenter(facts).fingerprint if facts else "corpus"
    start: StartBundle | None = None
    if config.training.start:
        path = bundle_folder(config.training.start)
        start = StartBundle(load_bundle(path), fingerprint(path))
    train, dev = data.split(corpus.train), data.split(corpus.dev)
    return Data(train, dev, fingerprints, segmenter_fingerprint, rejects, start=start)


def bundle_folder(address: Path | str) -> Path:
    """The folder of the bundle at `address`: the folder of a bundle or a run, ``elements`` (the shipped bundle), or a
    remote address, from which a copy is fetched. Raises BundleError, or RegistryError or StorageError of a remote one.
    """
    if "://" in str(address) or str(address).startswith("models:"):
        return resolve_name(_REMOTE_FETCHER)(address)
    path = Path(resolve_shipped(str(address)))
    if (path / "bundle" / "manifest.json").is_file():
        path = path / "bundle"
    check_bundle(path)
    return path


def check_unchanged(stored: Mapping[str, Any], current: Mapping[str, Any], run: str, remedy: str) -> None:
    """Raises ConfigError if the inputs of a run (its flattened configuration and `Data.input_fingerprints`) changed.

    The initial bundle is compared by its fingerprint, not its path. Settings that `stored` lacks, from an older version
    of agggen, have their defaults; those of a stage without epochs are ignored. The message names `run` and `remedy`.
    """
    before, now = _comparable(stored), _comparable(current)
    changed = [
        f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
    if changed:
        and_more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise ConfigError(
            f"{run} was started with another configuration or other data: {'; '.join(changed[:5])}{and_more}. "
            f"Give {remedy} to start over"
        )


def _comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, including defaults, that determine the result of a run."""
    complete = flatten(RunConfig()) | dict(settings)
    removed = [key for key in complete if key.endswith(".accumulate") and complete[key] == 1]  # 1 was the default
    skipped = tuple(f"training.{stage}." for stage in ("baseline", "joint") if not complete[f"training.{stage}.epochs"])
    return {
        key: value
        for key, value in complete.items()
        if key not in ("training.start", *removed) and (key.endswith(".epochs") or not key.startswith(skipped))
    }
