"""The training pipeline: `prepare` segments, aligns and encodes the records; `fit` trains the baseline, then the joint
model, on one or several workers; `bundle_of` makes a bundle of the trained model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from agggen.bundle import Bundle, device_of, load_bundle
from agggen.config import resolved
from agggen.corpora.rejects import Reject, check_reject_share
from agggen.encoding import Constraints, Encoder, segmented, training_examples
from agggen.errors import ConfigError, RecordError, StoppedError, TrainingError, check_below_one, check_minima
from agggen.facts import FactSegmenter
from agggen.facts.config import FactSource, FrameSettings, SegmenterConfig, segmenter
from agggen.generation.generator import InferenceConfig
from agggen.generation.planner import check_size
from agggen.model.batch import Example
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Record
from agggen.text import Vocabulary
from agggen.training.batches import epoch_examples
from agggen.training.callbacks import Callback, Checkpointer, CheckpointEvery
from agggen.training.distributed import SINGLE_WORKER, WorkerGroup
from agggen.training.growth import grown
from agggen.training.loop import Precision, Stage, StageConfig, Trainer, isolated_randomness
from agggen.training.substitution import substitution
from agggen.verification.learning import learn
from agggen.verification.lexicon import Lexicon

_SHARED_SIZES = ("width", "heads", "layers", "feed_forward", "copy", "copy_next", "coverage", "unseen_words")
"""The settings in `ModelConfig` on which the weights of encoder and decoder depend."""
_TRANSITION_SETTINGS = ("predicate_dim", "max_group_size", "transition")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class CorpusConfig:
    """The training corpus and its splits."""

    name: str = "elements"
    train: str = "train"
    dev: str = "dev"
    test: str = "test"
    limit: int = 0  # number of training records to use (0: all)

    def __post_init__(self) -> None:
        check_minima(self, {"limit": 0})


@dataclass(frozen=True, kw_only=True)
class FactsConfig(FrameSettings):
    """How texts are segmented into facts and aligned to triples (METHOD 3a and 4 of agggen/README.md)."""

    source: FactSource = "embedded"  # "corpus": the references of the corpus already have facts
    constraints: Constraints = "release"  # see `agggen.alignment.hard_constraints`

    def __post_init__(self) -> None:
        _ = self.for_new_texts  # validates the settings of the source

    @property
    def segmenter(self) -> SegmenterConfig | None:
        """The segmenter of the training texts; None if the corpus has facts."""
        return None if self.source == "corpus" else self.for_new_texts

    @property
    def for_new_texts(self) -> SegmenterConfig:
        """The segmenter of new texts: ``embedded`` if ``source`` is ``corpus``."""
        source = "embedded" if self.source == "corpus" else self.source
        return SegmenterConfig(source=source, level=self.level, allennlp=self.allennlp)


@dataclass(frozen=True)
class TextConfig:
    """The vocabulary. Words outside the vocabulary can only be copied from the record."""

    min_count: int = 2  # minimum number of occurrences of a word in the training records


@dataclass(frozen=True)
class TrainingConfig:
    """The two stages of training (`StageConfig`), and their common settings."""

    seed: int = 1
    device: str = "auto"  # cpu, cuda, cuda:1, ...; auto is a GPU if there is one
    precision: Precision = "auto"  # of matrix products; auto is bfloat16 on a GPU and float32 on a CPU
    threads: int = 0  # torch threads on CPU (0: torch's default)
    start: str | None = None  # a bundle with vocabulary, predicates and initial weights; null: random weights
    grow: bool = False  # add the training records' words and predicates to those of `start` (`training.growth`)
    replay: float = 0.0  # fraction of an epoch of `agggen adapt` that comes from the bundle's training corpora
    baseline: StageConfig = field(default_factory=StageConfig)
    joint: StageConfig = field(default_factory=StageConfig)

    def __post_init__(self) -> None:
        if self.seed < 0 or self.threads < 0:
            raise ConfigError(f"training.seed and threads must be 0 or more, not {self.seed} and {self.threads}")
        check_below_one(self, ("replay",), "training.")
        if self.grow and not self.start:
            raise ConfigError("training.grow needs training.start, the bundle to extend")


@dataclass(frozen=True)
class RunConfig:
    """The complete configuration of a training run."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    facts: FactsConfig = field(default_factory=FactsConfig)
    text: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)


def _with_threads(function: Callable[Concatenate[RunConfig, P], T]) -> Callable[Concatenate[RunConfig, P], T]:
    """Sets torch's number of threads from the configuration while `function` runs."""

    @wraps(function)
    def with_threads(config: RunConfig, *args: P.args, **kwargs: P.kwargs) -> T:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(config.training.threads or n_threads)
        try:
            return function(config, *args, **kwargs)
        finally:
            torch.set_num_threads(n_threads)

    return with_threads


@dataclass(frozen=True)
class Prepared:
    """Training and development examples, with the encoder that encoded them."""

    encoder: Encoder
    train: Sequence[Example]
    dev: Sequence[Example]
    segmenter: str  # the segmenter's fingerprint, or "corpus"
    n_replayed: int = 0  # number of old texts, the last examples of `train` (`training.batches`)
    rejects: dict[str, list[Reject]] = field(default_factory=dict)  # rejected references by CORPUS/SPLIT
    lexicon: Lexicon = field(default_factory=Lexicon)  # learned from the training texts, or the lexicon of `start`
    start: dict[str, Tensor] = field(default_factory=dict)  # initial weights by name; weights not listed are random


@_with_threads
def prepare(
    config: RunConfig,
    train: Sequence[Record],
    dev: Sequence[Record],
    max_reject_share: float = 0.05,
    start: Bundle | None = None,
    replay: Sequence[Record] = (),
) -> Prepared:
    """Segments the texts, builds vocabulary and predicate table from the training records, aligns and encodes.

    References are rejected if they cannot be segmented, contain no words, or their record has too many triples to be
    planned. With ``training.start``, vocabulary, predicate table, lexicon and weights are the bundle's (transition
    weights only if the transition settings are equal); ``training.grow`` adds the words and predicates of the training
    records (`agggen.training.growth`). `start` is this bundle, if it is already loaded. Texts of `replay` are replayed.

    Raises:
        ConfigError: the bundle's sizes differ from ``model``, or its vocabulary setting from ``text``.
        CorpusError: more than the share `max_reject_share` of a split's references is rejected.
        TrainingError: no training or no development record has a reference text, or all are rejected.
        RecordError: ``facts.source`` is corpus and a reference has no facts.
    """
    start = start or (load_bundle(config.training.start) if config.training.start else None)
    weights = initial_weights(start, config) if start else {}
    train = [record for record in train if record.references][: config.corpus.limit or None]
    dev = [record for record in dev if record.references]
    if not train or not dev:
        counts = f"{len(train)} training and {len(dev)} development records"
        raise TrainingError(f"{counts} have reference texts; both need at least one")
    fact_segmenter = segmenter(config.facts.segmenter) if config.facts.segmenter else None
    corpus = config.corpus
    splits = [f"{corpus.name}/{split}" for split in (corpus.train, corpus.train, corpus.dev)]
    rejects: list[list[Reject]] = [[], [], []]
    parts = [
        _with_facts(records, fact_segmenter, split, split_rejects, max_reject_share)
        for records, split, split_rejects in zip((train, replay, dev), splits, rejects, strict=True)
    ]
    train = [*parts[0], *parts[1]]
    if start and not config.training.grow:
        encoder, lexicon = replace(start.encoder, max_group_size=config.model.max_group_size), start.lexicon
    elif start:
        encoder, weights = grown(start, train, config.text.min_count)
        lexicon = start.lexicon.merged(learn(train))
    else:
        vocabulary, predicates = Vocabulary.build(train, config.text.min_count), Encoder.predicate_table(train)
        encoder, lexicon = Encoder(vocabulary, predicates, config.model.max_group_size), learn(train)
    examples: list[list[Example]] = []
    rejects_by_split: dict[str, list[Reject]] = {}
    for records, split, split_rejects in zip(parts, splits, rejects, strict=True):
        examples.append(list(training_examples(records, encoder, config.facts.constraints, split_rejects, split)))
        _check_share(len(examples[-1]), split_rejects, split, max_reject_share)
        if split_rejects:
            rejects_by_split.setdefault(split, []).extend(split_rejects)
    segmenter_name = fact_segmenter.fingerprint if fact_segmenter else "corpus"
    new, replayed, dev_examples = examples
    return Prepared(
        encoder, [*new, *replayed], dev_examples, segmenter_name, len(replayed), rejects_by_split, lexicon, weights
    )


def initial_weights(start: Bundle, config: RunConfig) -> dict[str, Tensor]:
    """The weights of `start` that initialise a model of `config`; ConfigError if its settings do not fit `config`."""
    requested, existing, grow = asdict(config.model), asdict(start.model.config), config.training.grow
    keys = (*_SHARED_SIZES, *_TRANSITION_SETTINGS) if grow else _SHARED_SIZES
    different_keys = [name for name in keys if requested[name] != existing[name]]
    differences = [f"model.{name} ({existing[name]}, not {requested[name]})" for name in different_keys]
    text = start.config.get("text")
    if isinstance(text, Mapping) and not grow:
        differences += [f"text.{name}" for name, value in asdict(config.text).items() if text.get(name, value) != value]
    if differences:
        raise ConfigError(
            f"training.start {config.training.start} was trained with another {', '.join(differences)}; "
            "set the same values to start from its weights"
        )
    keeps_transitions = all(requested[name] == existing[name] for name in _TRANSITION_SETTINGS)
    weights = start.model.state_dict()
    return {name: weights[name] for name in weights if keeps_transitions or not name.startswith("transitions.")}


def _with_facts(
    records: Sequence[Record],
    fact_segmenter: FactSegmenter | None,
    split: str,
    rejects: list[Reject],
    max_reject_share: float,
) -> list[Record]:
    """The records with few enough triples for planning, with facts in all references; other references are rejected."""
    plannable: list[Record] = []
    for record in records:
        try:
            check_size(record)
        except RecordError as error:
            reason = str(error).removeprefix(f"record {record.id!r} has ")
            rejects += [Reject(split, None, record.id, f"has {reason}") for _ in record.references]
        else:
            plannable.append(record)
    with_facts = segmented(plannable, fact_segmenter, rejects, split)
    _check_share(sum(len(record.references) for record in with_facts), rejects, split, max_reject_share)
    return with_facts


def _check_share(n_texts: int, rejects: list[Reject], split: str, max_reject_share: float) -> None:
    check_reject_share(n_texts, rejects, max_reject_share, split, "texts")
    if n_texts == 0 and rejects:
        raise TrainingError(f"no text of {split} can be used; the first reject: {rejects[0]}")


@_with_threads
def fit(
    config: RunConfig,
    data: Prepared,
    checkpointer: Checkpointer,
    callbacks: Sequence[Callback] = (),
    group: WorkerGroup = SINGLE_WORKER,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 120.0,
) -> tuple[JointModel, dict[str, float]]:
    """Trains both stages, resuming from `checkpointer`; returns the model, and dev loss and number of updates by stage.

    All workers of `group` pass the same configuration, data and checkpoints, and get the same model. A checkpoint is
    saved every `checkpoint_seconds`, after each epoch, and when `stop`, called before each update, returns True: then
    StoppedError is raised, and the same call resumes training. For TrainingError, see `Trainer.run`.
    """
    training = config.training
    model = new_model(config, data).to(device_of(training.device, "training.device"))
    metrics: dict[str, float] = {}
    stages: list[tuple[Stage, StageConfig]] = [("baseline", training.baseline), ("joint", training.joint)]
    for stage, settings in stages:
        if not settings.epochs:
            continue
        trainer = Trainer(
            model,
            data.train,
            data.dev,
            stage,
            settings,
            training.seed,
            [*callbacks, CheckpointEvery(checkpointer, checkpoint_seconds)],
            training.precision,
            group,
            stop,
            substitution(data.train, data.encoder.vocabulary, settings.substitute) if settings.substitute else None,
            partial(epoch_examples, len(data.train), data.n_replayed, training.replay),
        )
        checkpointer.restore(trainer)
        progress = trainer.run()
        if not progress.done:
            if group.rank == 0:
                checkpointer.save(trainer)
            raise StoppedError(f"{stage} was stopped after update {progress.step}; the same call resumes it")
        metrics |= {f"{stage}.dev_loss": progress.best_dev_loss, f"{stage}.updates": float(progress.step)}
    return model, metrics


def new_model(config: RunConfig, data: Prepared) -> JointModel:
    """The model before training: `data.start`, and random weights by the seed for all other parameters."""
    vocabulary = data.encoder.vocabulary
    with isolated_randomness(torch.device("cpu")):
        torch.manual_seed(config.training.seed)
        model = JointModel(config.model, len(vocabulary), vocabulary.n_output, len(data.encoder.predicates))
    model.load_state_dict(model.state_dict() | data.start)
    return model


def bundle_of(
    config: RunConfig, data: Prepared, model: JointModel, metrics: Mapping[str, float], sources: Mapping[str, str]
) -> Bundle:
    """The bundle of a trained model; `sources` are the fingerprints of its data (`Data.sources`)."""
    run_sources = {"vocabulary": data.encoder.vocabulary.fingerprint, "segmenter": data.segmenter}
    provenance = resolved(config), metrics, {**sources, **run_sources}
    facts = config.facts.source, config.facts.for_new_texts
    return Bundle(model.cpu(), data.encoder, config.inference, *provenance, *facts, data.lexicon)
