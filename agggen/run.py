"""From records to a bundle: segment, align, train the baseline, train the joint model, save.

This is the one pipeline behind `agggen.train`, the demo and the cluster jobs; it runs on any bare machine. `prepare`
makes numbers of records, `fit` trains on them, alone or as one worker of several, `train` is the whole of it:

    checkpoints/{baseline,joint}.safetensors    the loop's whole state; a run with the same configuration continues
    bundle/                                     the model
    rejects.jsonl                               records and texts that are left out
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor

from agggen.bundle import Bundle, load_bundle, save_bundle
from agggen.corpora.rejects import Reject, check_reject_share, write_rejects
from agggen.encoding import Constraints, Encoder, segmented, training_examples
from agggen.errors import ConfigError, RecordError, StoppedError, TrainingError
from agggen.facts import FactSegmenter
from agggen.facts.config import FOR_NEW_TEXTS, FactSource, FrameSettings, SegmenterConfig, segmenter
from agggen.generation.generator import InferenceConfig
from agggen.generation.planner import check_size
from agggen.model.batch import Example
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Record
from agggen.text import Vocabulary
from agggen.training.callbacks import Callback, CheckpointEvery, Keeper
from agggen.training.checkpoints import FileKeeper
from agggen.training.distributed import Alone, Group
from agggen.training.loop import StageConfig, Trainer, isolated_randomness
from agggen.training.objectives import ObjectiveName
from agggen.training.substitution import substitution
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon

Listen = Callable[[ObjectiveName], Sequence[Callback]]
_SHARED_SIZES = ("width", "heads", "layers", "feed_forward", "copy", "unseen_words")  # of encoder and decoder

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class CorpusConfig:
    """Which records to train on."""

    name: str = "elements"
    train: str = "train"
    dev: str = "dev"
    test: str = "test"
    limit: int = 0  # use only so many training records (0: all), for trials

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ConfigError(f"limit must be at least 0, not {self.limit}")


@dataclass(frozen=True, kw_only=True)
class FactsConfig(FrameSettings):
    """How texts are cut into facts, and which states the hard alignment rules out (METHOD 3a, 4)."""

    source: FactSource = "embedded"  # corpus: the facts that its references carry
    constraints: Constraints = "release"

    def __post_init__(self) -> None:
        _ = self.segmenter, self.for_new_texts  # refuses a source that lacks what it needs, and secrets in an address

    @property
    def segmenter(self) -> SegmenterConfig | None:
        """What cuts the training texts; None where the corpus has their facts."""
        return None if self.source == "corpus" else self.with_source(self.source)

    @property
    def for_new_texts(self) -> SegmenterConfig:
        """What cuts the texts that the trained model is given."""
        return self.with_source(FOR_NEW_TEXTS[self.source])


@dataclass(frozen=True)
class TextConfig:
    """The words that the model knows; others reach its texts by being copied from the record."""

    min_count: int = 2  # times that a word must occur in training


@dataclass(frozen=True)
class TrainingConfig:
    """The two stages; see StageConfig."""

    seed: int = 1
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    threads: int = 0  # torch threads on CPU (0: torch's own choice)
    start: str | None = None  # a bundle whose words, predicates and weights training begins with; null: none
    baseline: StageConfig = field(default_factory=StageConfig)
    joint: StageConfig = field(default_factory=StageConfig)

    def __post_init__(self) -> None:
        if self.seed < 0 or self.threads < 0:
            raise ConfigError(f"training.seed and threads must be 0 or more, not {self.seed} and {self.threads}")


@dataclass(frozen=True)
class RunConfig:
    """All that decides a run's result."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    facts: FactsConfig = field(default_factory=FactsConfig)
    text: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)


def _with_threads(
    function: Callable[Concatenate[RunConfig, P], T],
) -> Callable[Concatenate[RunConfig, P], T]:
    """While `function` runs, torch uses the threads that its configuration names; afterwards as many as before."""

    @wraps(function)
    def with_threads(config: RunConfig, *args: P.args, **kwargs: P.kwargs) -> T:
        before = torch.get_num_threads()
        torch.set_num_threads(config.training.threads or before)
        try:
            return function(config, *args, **kwargs)
        finally:
            torch.set_num_threads(before)

    return with_threads


def device_of(config: TrainingConfig) -> torch.device:
    """The device that `config` asks for; auto is a GPU if there is one.

    Raises:
        ConfigError: the device does not exist here.
    """
    name = ("cuda" if torch.cuda.is_available() else "cpu") if config.device == "auto" else config.device
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"training.device {name!r} is not usable here: {error}") from error


@dataclass(frozen=True)
class Prepared:
    """Examples for training, and what turned records into them."""

    encoder: Encoder
    train: list[Example]
    dev: list[Example]
    segmenter: str  # the fingerprint of what cut the texts, or corpus
    rejects: dict[str, list[Reject]] = field(default_factory=dict)  # references that were left out, by CORPUS/SPLIT
    lexicon: Lexicon = field(default_factory=Lexicon)  # what the training texts teach of wordings
    start: dict[str, Tensor] = field(default_factory=dict)  # weights to begin with, by name; the rest begins at random


@_with_threads
def prepare(
    config: RunConfig,
    train: Sequence[Record],
    dev: Sequence[Record],
    max_reject_share: float = 0.05,
    start: Bundle | None = None,
) -> Prepared:
    """Segments, builds vocabulary and predicate table from the training records, aligns and encodes.

    References that cannot be cut into facts, that hold no words, or whose record has more triples than can be planned
    are left out and listed. Vocabulary and predicate table are those of ``training.start`` where it is set; its
    transitions are taken too, unless the configuration wants other ones.

    Args:
        config: the whole configuration.
        train: with references; dev likewise.
        max_reject_share: of a split's references that may be left out.
        start: the bundle at ``training.start``, where it was loaded already.

    Raises:
        ConfigError: ``training.start`` has other sizes than ``model`` asks for, or other words than ``text``.
        BundleError: there is no bundle at ``training.start``.
        CorpusError: more than `max_reject_share` of a split's references are left out.
        TrainingError: no training or development record has a reference text, or all are left out.
        RecordError: a record has no facts where the corpus should give them.
    """
    start = start or (load_bundle(config.training.start) if config.training.start else None)
    weights = _weights_of(start, config) if start else {}
    train = [record for record in train if record.references][: config.corpus.limit or None]
    dev = [record for record in dev if record.references]
    if not train or not dev:
        raise TrainingError(
            f"{len(train)} training and {len(dev)} development records have reference texts; both need at least one"
        )
    cut = segmenter(config.facts.segmenter) if config.facts.segmenter else None
    splits = [f"{config.corpus.name}/{split}" for split in (config.corpus.train, config.corpus.dev)]
    rejects: list[list[Reject]] = [[], []]
    train, dev = (
        _cut(records, cut, split, some, max_reject_share)
        for records, split, some in zip((train, dev), splits, rejects, strict=True)
    )
    if start:
        encoder = replace(start.encoder, max_group_size=config.model.max_group_size)
    else:
        vocabulary = Vocabulary.build(train, config.text.min_count)
        encoder = Encoder(vocabulary, Encoder.predicate_table(train), config.model.max_group_size)
    examples: list[list[Example]] = []
    for records, split, some in zip((train, dev), splits, rejects, strict=True):
        examples.append(list(training_examples(records, encoder, config.facts.constraints, some, split)))
        _check_share(len(examples[-1]), some, split, max_reject_share)
    listed: dict[str, list[Reject]] = {}
    for split, some in zip(splits, rejects, strict=True):
        if some:
            listed.setdefault(split, []).extend(some)
    return Prepared(
        encoder,
        examples[0],
        examples[1],
        cut.fingerprint if cut else "corpus",
        listed,
        learn(train),
        weights,
    )


def _weights_of(start: Bundle, config: RunConfig) -> dict[str, Tensor]:
    """The weights of `start` that a model of `config` can begin with."""
    wanted, there = asdict(config.model), asdict(start.model.config)
    differing = [f"model.{name}" for name in _SHARED_SIZES if wanted[name] != there[name]]
    text = start.config.get("text")
    if isinstance(text, Mapping):
        differing += [f"text.{name}" for name, value in asdict(config.text).items() if text.get(name, value) != value]
    if differing:
        raise ConfigError(
            f"training.start {config.training.start} was trained with another {', '.join(differing)}; "
            "what begins with its weights needs the same"
        )
    keeps_transitions = all(wanted[name] == there[name] for name in ("predicate_dim", "max_group_size", "transition"))
    return {
        name: tensor
        for name, tensor in start.model.state_dict().items()
        if keeps_transitions or not name.startswith("transitions.")
    }


def _cut(
    records: Sequence[Record], cut: FactSegmenter | None, split: str, rejects: list[Reject], limit: float
) -> list[Record]:
    """The records that can be planned, with facts."""
    small: list[Record] = []
    for record in records:
        try:
            check_size(record)
        except RecordError as error:
            reason = str(error).removeprefix(f"record {record.id!r} has ")
            rejects += [Reject(split, None, record.id, f"has {reason}") for _ in record.references]
        else:
            small.append(record)
    found = segmented(small, cut, rejects, split)
    _check_share(sum(len(record.references) for record in found), rejects, split, limit)
    return found


def _check_share(texts: int, rejects: list[Reject], split: str, limit: float) -> None:
    check_reject_share(texts, rejects, limit, split, "texts")
    if texts == 0:
        raise TrainingError(f"no text of {split} can be used; the first: {rejects[0]}")


@_with_threads
def fit(
    config: RunConfig,
    data: Prepared,
    keeper: Keeper,
    listen: Listen = lambda stage: (),
    group: Group | None = None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 120.0,
) -> tuple[JointModel, dict[str, float]]:
    """Trains both stages, from the checkpoints that `keeper` has of them, and returns the model with its dev losses.

    Every worker of `group` calls it with the same configuration, data and checkpoints, and gets the same model.

    Args:
        config: the whole configuration.
        data: from `prepare`.
        keeper: keeps a checkpoint every `checkpoint_seconds`, after each epoch, and when training stops.
        listen: makes the callbacks of a stage, of this worker.
        group: the workers that divide each batch (None: this process alone).
        stop: asked before each update.

    Raises:
        StoppedError: `stop` or a callback asked for it; the same call continues there.
        TrainingError: see `Trainer.run` and `load_checkpoint`.
    """
    group = group or Alone()
    vocabulary = data.encoder.vocabulary
    with isolated_randomness(torch.device("cpu")):
        torch.manual_seed(config.training.seed)
        model = JointModel(config.model, len(vocabulary), vocabulary.n_output, len(data.encoder.predicates))
    model.load_state_dict(model.state_dict() | data.start)
    model = model.to(device_of(config.training))
    metrics: dict[str, float] = {}
    training = config.training
    stages: list[tuple[ObjectiveName, StageConfig]] = [("baseline", training.baseline), ("joint", training.joint)]
    for stage, settings in stages:
        if not settings.epochs:
            continue
        trainer = Trainer(
            model,
            data.train,
            data.dev,
            stage,
            settings,
            config.training.seed,
            [*listen(stage), CheckpointEvery(keeper, checkpoint_seconds)],
            config.training.precision,
            group,
            stop,
            substitution(data.train, vocabulary, settings.substitute) if settings.substitute else None,
        )
        keeper.restore(trainer)
        progress = trainer.run()
        if not progress.done:
            if group.rank == 0:
                keeper.save(trainer)
            raise StoppedError(f"{stage} was stopped after update {progress.step}; the same call continues there")
        metrics |= {f"{stage}.dev_loss": progress.best_dev_loss, f"{stage}.updates": float(progress.step)}
    return model, metrics


def bundle_of(
    config: RunConfig,
    data: Prepared,
    model: JointModel,
    metrics: Mapping[str, float],
    sources: Mapping[str, str],
    resolved: Mapping[str, Any],
) -> Bundle:
    """The bundle of a trained model; `sources` are fingerprints, `resolved` is the configuration as plain data."""
    own = {"vocabulary": data.encoder.vocabulary.fingerprint, "segmenter": data.segmenter}
    return Bundle(
        model.cpu(),
        data.encoder,
        config.inference,
        dict(resolved),
        metrics,
        {**sources, **own},
        config.facts.source,
        config.facts.for_new_texts,
        data.lexicon,
    )


def train(
    config: RunConfig,
    train_records: Sequence[Record],
    dev_records: Sequence[Record],
    folder: Path,
    listen: Listen = lambda stage: (),
    sources: Mapping[str, str] | None = None,
    resolved: Mapping[str, Any] | None = None,
    group: Group | None = None,
    keeper: Keeper | None = None,
    stop: Callable[[], bool] = lambda: False,
    max_reject_share: float = 0.05,
    start: Bundle | None = None,
    rejects: Sequence[Reject] = (),
) -> Bundle:
    """Trains both stages and writes ``folder/bundle``; continues where an earlier call of the same config was cut off.

    Args:
        sources, resolved: see `bundle_of` (None: no fingerprints, and the `config` itself).
        keeper: where checkpoints are kept (None: in the run's folder).
        listen, group, stop, max_reject_share, start: see `prepare` and `fit`; worker 0 writes the bundle.
        rejects: records that could not be read.

    Raises:
        TrainingError: the run is finished already; see `prepare` and `fit` too.
    """
    if (folder / "bundle").exists():
        raise TrainingError(f"{folder / 'bundle'} exists already: this run is finished; remove {folder} to train anew")
    data = prepare(config, train_records, dev_records, max_reject_share, start)
    if left_out := [*rejects, *chain(*data.rejects.values())]:
        write_rejects(folder / "rejects.jsonl", left_out)
    model, metrics = fit(config, data, keeper or FileKeeper(folder / "checkpoints"), listen, group, stop)
    bundle = bundle_of(config, data, model, metrics, sources or {}, resolved or json.loads(json.dumps(asdict(config))))
    if group is None or group.rank == 0:
        save_bundle(folder / "bundle", bundle)
    return bundle
