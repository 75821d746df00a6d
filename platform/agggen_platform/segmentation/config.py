"""The configuration of a segmentation job."""

from dataclasses import dataclass, field
from typing import Literal

from agggen.errors import check_minima
from agggen.facts.config import RULE_BASED_SEGMENTERS, SegmenterConfig
from agggen_platform.cache import cache_folder
from agggen_platform.sharded.config import ShardedConfig


@dataclass(frozen=True)
class SegmentConfig(ShardedConfig):
    facts: SegmenterConfig = field(default_factory=SegmenterConfig)  # the segmenter
    alignment: Literal["normal", "none"] = "normal"
    """Whether triples are aligned to facts (``agggen.alignment.align``); none: do not align."""
    batch_size: int = 4096
    """Texts per call of the segmenter, which processes each distinct sentence once; larger is faster."""
    cache: Literal["auto", "on", "off"] = "auto"
    """Whether to cache facts; auto: only if the segmenter is not rule-based, as rules are as fast as the cache."""
    cache_dir: str | None = None  # on a local disk [default: AGGGEN_CACHE/facts, else ~/.cache/agggen/facts]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minima(self, {"batch_size": 1})

    @property
    def cache_folder(self) -> str | None:
        """The folder of the fact cache; None: no cache."""
        if self.cache == "off" or (self.cache == "auto" and self.facts.source in RULE_BASED_SEGMENTERS):
            return None
        return self.cache_dir or str(cache_folder() / "facts")
