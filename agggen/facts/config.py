"""Which segmenter cuts texts into facts, by name and settings: the same keys wherever texts are cut.

segmenter("clauses").segment(["Bolt is a comic character."])
segmenter(SegmenterConfig(source="allennlp", allennlp=AllenNLPConfig("srl.tar.gz", sha256="6f1c...")))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from agggen.errors import ConfigError
from agggen.facts import FactSegmenter
from agggen.facts.allennlp.config import AllenNLPConfig, absolute_path
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
            precomputed=self.precomputed and absolute_path(self.precomputed),
            allennlp=self.allennlp and self.allennlp.absolute,
        )


def segmenter(config: SegmenterConfig | str) -> FactSegmenter:
    """The segmenter of this configuration, or of this name (one of ``SEGMENTERS``).

    Raises:
        ConfigError: there is none of this name, or it lacks what it needs.
        AllenNLPError: the archive is remote, and neither pinned nor trusted.
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
        from agggen.facts.allennlp.source import AllenNLPFrames

        return AllenNLPFrames(config.allennlp)
    if config.source == "precomputed" and config.precomputed is not None:
        from agggen.facts.precomputed import PrecomputedFrames

        return PrecomputedFrames(config.precomputed)
    from agggen.facts.embedded import EmbeddedFrames

    return EmbeddedFrames()
