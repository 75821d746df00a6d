"""Configuration and data for adaptation: fine-tuning of a bundle on texts of a new domain.

To prevent catastrophic forgetting, texts of the bundle's training corpora ("old texts") are mixed in ("replay").
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from agggen.bundle import Bundle, load_bundle
from agggen.config import as_overrides, load_config
from agggen.datasets import Dataset, fingerprint_of, load_dataset
from agggen.errors import AggGenError, ConfigError, TrainingError
from agggen.records import Record
from agggen.run import RunConfig, initial_weights
from agggen.training.batches import replayed_per_epoch
from agggen.training.choice import corpus_overrides
from agggen.training.data import Data, bundle_folder, training_data, training_dataset

C = TypeVar("C", bound=RunConfig)
Note = Callable[[str], None]
PRESET = "adapt"
_REPLAY = "replay "
_RATES_AT_WIDTH_128 = {"learning_rate": 1e-3, "transition_learning_rate": 1e-2}


def adaptation(
    cls: type[C],
    address: Path | str,
    data: Dataset,
    replay: Any = None,
    overrides: Sequence[str] = (),
    max_reject_share: float = 0.05,
    note: Note = lambda message: None,
    preset: str = PRESET,
) -> tuple[C, Data]:
    """The configuration, of class `cls`, and the records to adapt the bundle at `address` (`bundle_folder`) to `data`.

    Args:
        data: the texts of the new domain, with splits train and dev; TrainingError if one of them has no text.
        replay: the corpus of the old texts, any source of `load_dataset`. [default: the bundle's training corpora, if
            available and unchanged]
        overrides: as in `configuration`; ConfigError if a setting is incompatible with the bundle's model.
        note: called with messages about new predicates and replay.
    """
    bundle = load_bundle(bundle_folder(address))
    for split, records in (("train", data.train), ("dev", data.dev)):
        if not any(record.references for record in records):
            raise TrainingError(
                f"{data.name}: none of the {len(records):,} records of {split} has a text; adapting needs texts in "
                "train and dev, so name their column (text) or give records with references"
            )
    replay_corpora: list[Dataset] = []
    if configuration(cls, address, bundle, preset, overrides).training.replay:
        if replay is None:
            replay_corpora = _corpora_of_bundle(bundle, note)
        else:
            replayed = training_dataset(replay)
            replay_corpora = [Dataset(replayed.name, {"train": replayed.train, "dev": replayed.dev})]
    corpus = corpus_overrides(data, data, *replay_corpora)
    config = configuration(cls, address, bundle, preset, [*corpus, *overrides])
    new_data = training_data(config, max_reject_share, data)
    if config.training.grow:
        known_predicates = set(bundle.encoder.predicates)
        used_predicates = {name for record in new_data.train if record.references for name in record.predicates}
        n_new, n_known = len(used_predicates - known_predicates), len(known_predicates) - 1
        note(f"{n_new} predicates are new to the model, which knows {n_known}")
    return config, _with_replay(new_data, replay_corpora, config, note)


def configuration(cls: type[C], address: Path | str, bundle: Bundle, preset: str, overrides: Sequence[str] = ()) -> C:
    """The configuration of an adaptation: settings of the bundle, overridden by the preset, then by `overrides`.

    If neither sets the learning rates, they decrease with the square of the model's width from 128 on, since wider
    models forget more.
    """
    settings: dict[str, Any] = {"model": asdict(bundle.model.config), "inference": asdict(bundle.inference)}
    scale = min(128 / bundle.model.config.width, 1.0) ** 2
    settings["training"] = {"joint": {name: rate * scale for name, rate in _RATES_AT_WIDTH_128.items()}}
    settings["facts"] = asdict(bundle.segmenter)
    settings["facts"]["constraints"] = bundle.config.get("facts", {}).get("constraints", "release")
    defaults, start = as_overrides(settings), f"training.start={json.dumps(str(address))}"
    config = load_config(cls, preset, [start, *overrides], defaults=defaults)
    if not config.training.grow:
        defaults += as_overrides({"text": bundle.config.get("text", {})})
        config = load_config(cls, preset, [start, *overrides], defaults=defaults)
    initial_weights(bundle, config)  # raises ConfigError if the bundle does not fit
    return config


def _corpora_of_bundle(bundle: Bundle, note: Note) -> list[Dataset]:
    """The corpora on which the bundle was trained, including replayed ones, if they are available and unchanged."""
    corpus = bundle.config.get("corpus", {})
    replayed = {key.removeprefix(_REPLAY).rpartition("/")[0] for key in bundle.sources if key.startswith(_REPLAY)}
    splits_of = {name: {"train": "train", "dev": "dev"} for name in sorted(replayed)}
    if "name" in corpus:
        splits_of[corpus["name"]] = {"train": corpus.get("train", "train"), "dev": corpus.get("dev", "dev")}
    if not splits_of:
        note("No old texts are mixed in, so the model may forget: the bundle names no corpus. Give one with replay")
    corpora: list[Dataset] = []
    for name, splits in splits_of.items():
        prefix = _REPLAY if name in replayed else ""
        try:
            dataset = load_dataset(name, splits=tuple(dict.fromkeys(splits.values())))
            for split in splits.values():
                if fingerprint_of(dataset.split(split)) != bundle.sources.get(f"{prefix}{name}/{split}"):
                    raise ConfigError(f"its split {split} differs from the one that the bundle was trained on")
        except AggGenError as error:
            note(f"No old texts of {name} are mixed in, so the model may forget: {error}. Give a corpus with replay")
            continue
        corpora.append(Dataset(name, {standard: dataset.split(split) for standard, split in splits.items()}))
    return corpora


def _with_replay(data: Data, replay_corpora: Sequence[Dataset], config: RunConfig, note: Note) -> Data:
    """Adds old texts: the fraction ``training.replay`` of each epoch, different ones each, and of development texts."""
    training, rng, n_new = config.training, random.Random(config.training.seed), _n_texts(data.train)
    per_epoch = replayed_per_epoch(n_new, training.replay)
    n_texts = {
        "train": per_epoch * max(training.baseline.epochs, training.joint.epochs),
        "dev": round(_n_texts(data.dev) * training.replay / (1 - training.replay)),
    }
    chosen: dict[str, list[Record]] = {"train": [], "dev": []}
    for split, records in chosen.items():
        pool = [record for corpus in replay_corpora for record in corpus.split(split) if record.references]
        for record in rng.sample(pool, len(pool)):
            if n_texts[split] <= 0:
                break
            records.append(record)
            n_texts[split] -= len(record.references)
    if replay_corpora:
        n_old, names = _n_texts(chosen["train"]), " and ".join(corpus.name for corpus in replay_corpora)
        note(f"Each epoch mixes {min(per_epoch, n_old):,} of {n_old:,} old texts of {names} into {n_new:,} new texts")
    fingerprints = dict(data.fingerprints)
    for corpus in replay_corpora:
        fingerprints |= {f"{_REPLAY}{name}": value for name, value in corpus.fingerprints.items()}
    return replace(data, dev=[*data.dev, *chosen["dev"]], replay=chosen["train"], fingerprints=fingerprints)


def _n_texts(records: Sequence[Record]) -> int:
    return sum(len(record.references) for record in records)
