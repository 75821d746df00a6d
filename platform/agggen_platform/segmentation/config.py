"""The configuration of a segmentation job, and the fingerprint of what its result follows from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agggen.errors import ConfigError
from agggen.facts.config import RULES, SegmenterConfig
from agggen_platform.cache import cache_folder
from agggen_platform.sharded.config import ShardedConfig

if TYPE_CHECKING:
    from agggen_platform.segmentation.shards import Source

FORMAT = 4  # of the output and of the rules behind it

AlignmentRule = Literal["normal", "surface", "none"]


@dataclass(frozen=True)
class SegmentConfig(ShardedConfig):
    """How texts become facts, and how the work is cut and spread."""

    facts: SegmenterConfig = field(default_factory=SegmenterConfig)
    """The segmenter."""
    alignment: AlignmentRule = "normal"
    """The rule by which facts name the triples they say (``agggen.alignment.align``); none leaves that open."""
    batch_size: int = 4096
    """Texts that the segmenter gets at once. It makes its own batches of their different sentences: many are fast."""
    cache: Literal["auto", "on", "off"] = "auto"
    """Whether known texts are looked up; auto: for all segmenters but the rules, which are as fast as the cache."""
    cache_dir: str | None = None
    """A folder on a local disk. [default: AGGGEN_CACHE/facts, else ~/.cache/agggen/facts]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {self.batch_size}")

    @property
    def cache_folder(self) -> str | None:
        """The cache's folder, None where there is to be none."""
        if self.cache == "off" or (self.cache == "auto" and self.facts.source in RULES):
            return None
        return self.cache_dir or str(cache_folder() / "facts")


def fingerprint(config: SegmentConfig, sources: Sequence[Source], segmenter: str) -> str:
    """Of a job: inputs, the segmenter's fingerprint, alignment. What changes only the speed is no part of it."""
    inputs = {source.split: [source.corpus, source.fingerprint] for source in sources}
    content = {"format": FORMAT, "inputs": inputs, "segmenter": segmenter, "alignment": config.alignment}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
