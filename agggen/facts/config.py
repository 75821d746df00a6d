"""Configuration and construction of segmenters by name: ``segmenter("clauses").segment(["Bolt is a character."])``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, get_args

from agggen.errors import ConfigError, check_minima
from agggen.facts import FactSegmenter
from agggen.facts.clauses import ClauseSegmenter, SentenceSegmenter
from agggen.facts.framed import FrameSegmenter
from agggen.facts.tree import Level

SegmenterName = Literal["embedded", "allennlp", "clauses", "sentences"]
FactSource = Literal["corpus", SegmenterName]  # ``corpus``: the facts that the corpus already has

SEGMENTERS: tuple[SegmenterName, ...] = get_args(SegmenterName)
# Rule-based segmenters are always available, and too fast to need a cache.
RULE_BASED_SEGMENTERS: frozenset[SegmenterName] = frozenset(("clauses", "sentences"))
# The frame source for AllenNLP archives is in agggen_platform, since it starts processes and downloads files.
_ALLENNLP_FRAMES = "agggen_platform.srl.source:AllenNLPFrames"


@dataclass(frozen=True, slots=True)
class AllenNLPConfig:
    """An AllenNLP archive, and settings of the worker process that runs the archive."""

    archive: str  # the path of model.tar.gz or its unpacked folder on each machine; loading it runs its author's code
    sha256: str | None = None  # the archive's expected digest; None accepts any archive
    bert: str | None = None  # a folder with config.json and vocab.txt of the BERT model of a ``srl_bert`` archive
    online: bool = False  # whether the model may download missing files from the Hugging Face hub
    # A folder with a spaCy model, compatible with `environment`, to find predicates; by default the shipped tagger.
    spacy: str | None = None
    # The virtual environment with AllenNLP; by default AGGGEN_SRL_ENV, else ~/.cache/agggen/srl-env.
    environment: str | None = None
    device: str = "cpu"  # cpu, or cuda:0 etc. if torch 1.12, which AllenNLP uses, supports the GPU
    threads: int | None = None  # of the worker process; None: torch's default
    batch_size: int = 64  # sentences per request to the worker process
    timeout: float = 900.0  # seconds that the worker process may take to start, and to process a batch
    restarts: int = 3  # consecutive crashes of the worker process that are followed by a restart; one more is an error

    def __post_init__(self) -> None:
        if "://" in self.archive:
            raise ConfigError("the AllenNLP archive must be a local path, not a URL: copy it to every machine first")
        if self.device != "cpu" and not (self.device.startswith("cuda:") and self.device[5:].isdigit()):
            raise ConfigError(f"device must be cpu or cuda:N, where N is the number of a GPU, not {self.device!r}")
        if not self.timeout > 0:
            raise ConfigError(f"timeout must be more than 0, not {self.timeout}")
        check_minima(self, {"batch_size": 1, "restarts": 0} | ({} if self.threads is None else {"threads": 1}))

    @property
    def absolute(self) -> AllenNLPConfig:
        """This configuration with absolute paths, for processes with another working directory."""
        paths = ((name, getattr(self, name)) for name in ("archive", "bert", "spacy", "environment"))
        absolute_paths: dict[str, Any] = {name: str(Path(path).expanduser().absolute()) for name, path in paths if path}
        return replace(self, **absolute_paths)


@dataclass(frozen=True, kw_only=True)
class FrameSettings:
    """Settings of segmentation by semantic role frames."""

    level: Level = "full"  # of the rules that turn frames into facts (`agggen.facts.tree`); paper: exactly appendix B
    allennlp: AllenNLPConfig | None = None  # the archive of the source ``allennlp``


@dataclass(frozen=True, kw_only=True)
class SegmenterConfig(FrameSettings):
    """The settings of a segmenter. Raises ConfigError if the source is unknown or a required setting is missing."""

    source: SegmenterName = "embedded"

    def __post_init__(self) -> None:
        if self.source not in SEGMENTERS:
            raise ConfigError(f"unknown fact segmenter {self.source!r}; there are {', '.join(SEGMENTERS)}")
        if self.source == "allennlp" and self.allennlp is None:
            raise ConfigError(
                "facts.source=allennlp needs an archive: set facts.allennlp.archive=model.tar.gz and, to verify it, "
                "facts.allennlp.sha256=..."
            )

    @property
    def absolute(self) -> SegmenterConfig:
        """See `AllenNLPConfig.absolute`."""
        return replace(self, allennlp=self.allennlp and self.allennlp.absolute)


def segmenter(config: SegmenterConfig | str) -> FactSegmenter:
    """The segmenter of a configuration, or of a name (one of ``SEGMENTERS``); ConfigError if it is not usable."""
    if isinstance(config, str):
        config = SegmenterConfig(source=config)  # type: ignore[arg-type] # validates the name
    if config.source == "clauses":
        return ClauseSegmenter()
    if config.source == "sentences":
        return SentenceSegmenter()
    if config.source == "embedded":
        from agggen.facts.tagger.store import EmbeddedFrames

        return FrameSegmenter(EmbeddedFrames(), config.level)
    try:
        frame_source = resolve_name(_ALLENNLP_FRAMES)
    except ModuleNotFoundError as error:
        raise ConfigError(f"facts.source=allennlp needs the package agggen_platform: {error}") from error
    return FrameSegmenter(frame_source(config.allennlp), config.level)
