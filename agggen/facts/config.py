"""Which segmenter cuts texts into facts, by name and settings: the same keys wherever texts are cut.

segmenter("clauses").segment(["Bolt is a comic character."])
segmenter(SegmenterConfig(source="allennlp", allennlp=AllenNLPConfig("srl.tar.gz", sha256="6f1c...")))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args
from urllib.parse import urlsplit

from agggen.errors import ConfigError
from agggen.facts import FactSegmenter
from agggen.facts.tree import Level

if TYPE_CHECKING:
    from agggen.facts.frames import FrameSource, SentenceSource

SegmenterName = Literal["embedded", "allennlp", "precomputed", "clauses", "sentences"]
FactSource = Literal["corpus", SegmenterName]
"""``corpus``: the facts that a corpus carries."""

SEGMENTERS: tuple[SegmenterName, ...] = get_args(SegmenterName)
RULES: frozenset[SegmenterName] = frozenset(("clauses", "sentences"))
"""Those that know nothing but rules: always there, and as fast as looking up what they found before."""
FOR_NEW_TEXTS: Mapping[FactSource, SegmenterName] = MappingProxyType(
    {
        "corpus": "embedded",  # knows its own texts only
        "precomputed": "embedded",  # likewise
        "embedded": "embedded",
        "allennlp": "allennlp",
        "clauses": "clauses",
        "sentences": "sentences",
    }
)
"""What cuts the texts that a trained model is given, by what its training facts came from."""


_ALLENNLP = "agggen_platform.srl.source:AllenNLPFrames"
"""The frame source that runs AllenNLP's archives. It starts processes and downloads, so it is not the library's."""


@dataclass(frozen=True, slots=True)
class AllenNLPConfig:
    """Which archive, and how it is run."""

    archive: str
    """A path (``model.tar.gz`` or the folder it unpacks to), ``http(s)://`` or ``s3://``."""
    sha256: str | None = None
    """What the archive must have. A remote one needs it, or `trust`."""
    trust: bool = False
    """Load a remote archive whatever is in it. Loading an archive runs code of its author."""
    bert: str | None = None
    """A folder with the config.json and vocab.txt of the BERT model that a ``srl_bert`` archive names."""
    online: bool = False
    """Whether the model may fetch what it lacks from the Hugging Face hub."""
    spacy: str | None = None
    """A folder of a spaCy model, for spaCy of the environment, that finds the predicates; else a frame source does."""
    environment: str | None = None
    """AllenNLP's environment. [default: AGGGEN_SRL_ENV, else where `agggen srl setup` makes it]"""
    device: str = "cpu"
    """``cpu``, or ``cuda:0`` and so on if torch 1.12 knows the GPU."""
    threads: int | None = None
    """Of the worker. [default: torch's]"""
    batch_size: int = 64
    """Sentences that the worker gets at once."""
    timeout: float = 900.0
    """Seconds within which the worker must answer a batch, and be ready after its start."""
    restarts: int = 3
    """How many times in a row the worker may die before the source gives up."""

    def __post_init__(self) -> None:
        if self.device != "cpu" and not (self.device.startswith("cuda:") and self.device[5:].isdigit()):
            raise ConfigError(f"device is cpu, or cuda: with the number of a GPU, not {self.device!r}")
        for name in ("batch_size", "timeout"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.restarts < 0 or (self.threads is not None and self.threads < 1):
            raise ConfigError(f"restarts must be at least 0 and threads 1, not {self.restarts} and {self.threads}")

    @property
    def holds_secrets(self) -> bool:
        """Whether the archive's address may tell a secret: it has a user, a password or a query."""
        parts = urlsplit(self.archive)
        return bool(parts.scheme and ("@" in parts.netloc or parts.query))

    @property
    def absolute(self) -> AllenNLPConfig:
        """The same with absolute paths, for processes that work in another folder."""
        return replace(
            self,
            archive=self.archive if "://" in self.archive else _absolute(self.archive),
            bert=self.bert and _absolute(self.bert),
            spacy=self.spacy and _absolute(self.spacy),
            environment=self.environment and _absolute(self.environment),
        )


@dataclass(frozen=True, kw_only=True)
class FrameSettings:
    """What the sources that cut by semantic roles are told."""

    level: Level = "full"
    """How trees become facts (``agggen.facts.tree``); paper: as the paper's appendix B, without our additions."""
    precomputed: str | None = None
    """The file of frames that the source ``precomputed`` reads."""
    allennlp: AllenNLPConfig | None = None
    """What the source ``allennlp`` runs."""

    def with_source(self, source: SegmenterName) -> SegmenterConfig:
        """The segmenter `source` with these settings."""
        return SegmenterConfig(source=source, level=self.level, precomputed=self.precomputed, allennlp=self.allennlp)


@dataclass(frozen=True, kw_only=True)
class SegmenterConfig(FrameSettings):
    """A segmenter.

    Raises:
        ConfigError: an unknown source, or one without what it needs.
    """

    source: SegmenterName = "embedded"

    def __post_init__(self) -> None:
        if self.source not in SEGMENTERS:
            raise ConfigError(f"unknown fact segmenter {self.source!r}; there are {', '.join(SEGMENTERS)}")
        if self.source == "precomputed" and self.precomputed is None:
            raise ConfigError("the facts source precomputed needs its file of frames: facts.precomputed=FILE")
        if self.source == "allennlp" and self.allennlp is None:
            raise ConfigError(
                "the facts source allennlp needs an archive, a path, http(s):// or s3:// (remote with a sha256): "
                "facts.allennlp.archive=model.tar.gz facts.allennlp.sha256=..."
            )

        if self.allennlp is not None and self.allennlp.holds_secrets:
            raise ConfigError(
                "the archive's address holds a user, a password or a query, which may be secret; settings are kept in "
                "bundles and logs, so fetch it first (agggen srl check --archive ADDRESS) and give the file's path"
            )

    @property
    def absolute(self) -> SegmenterConfig:
        """The same with absolute paths, for processes that work in another folder."""
        return replace(
            self,
            precomputed=self.precomputed and _absolute(self.precomputed),
            allennlp=self.allennlp and self.allennlp.absolute,
        )


def segmenter(config: SegmenterConfig | str) -> FactSegmenter:
    """The segmenter of this configuration, or of this name (one of ``SEGMENTERS``).

    Raises:
        ConfigError: there is none of this name, or it lacks what it needs; AllenNLP without agggen's platform.
        AggGenError: the archive is remote, and neither pinned nor trusted.
        CorpusError: the precomputed frames cannot be read.
    """
    if isinstance(config, str):
        config = SegmenterConfig(source=config)  # type: ignore[arg-type] # refuses other names
    if config.source == "clauses":
        from agggen.facts.clauses import ClauseSegmenter

        return ClauseSegmenter()
    if config.source == "sentences":
        from agggen.facts.sentences import SentenceSegmenter

        return SentenceSegmenter()
    from agggen.facts.framed import FrameSegmenter

    return FrameSegmenter(_frames(config), config.level)


def _frames(config: SegmenterConfig) -> FrameSource | SentenceSource:
    if config.source == "allennlp" and config.allennlp is not None:
        try:
            source = resolve_name(_ALLENNLP)
        except ModuleNotFoundError as error:
            raise ConfigError(f"the facts source allennlp comes with agggen's platform: {error}") from error
        return source(config.allennlp)
    if config.source == "precomputed" and config.precomputed is not None:
        from agggen.facts.precomputed import PrecomputedFrames

        return PrecomputedFrames(config.precomputed)
    from agggen.facts.embedded import EmbeddedFrames

    return EmbeddedFrames()


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
