"""Frames by the included role tagger, without a download, at several hundred sentences per second.

The tagger (``agggen.facts.tagger``) was trained on PropBank EWT; its weights are CC BY-SA 4.0, see
``agggen/facts/tagger_model/README.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agggen.facts.frames import Frame, Words, frame_of_tags

if TYPE_CHECKING:
    from agggen.facts.tagger.store import RoleTagger

SHIPPED = Path(__file__).with_name("tagger_model")


class EmbeddedFrames:
    """A frame source with the included tagger, which is loaded on first use, once per process.

    Raises:
        BundleError: a file of the tagger is missing or modified (raised on first use).
    """

    name = "embedded"

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the tagger's files."""
        from agggen.facts.tagger.store import tagger_fingerprint

        return f"{self.name}-{tagger_fingerprint(SHIPPED)[:16]}"

    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in the order of their predicates; faster with many sentences per call."""
        tagged = _tagger().tag([sentence.words for sentence in sentences])
        decoded = ([frame_of_tags(tags) for tags in frames] for frames in tagged)
        return [tuple(frame for frame in frames if frame is not None) for frames in decoded]


@cache
def _tagger() -> RoleTagger:
    from agggen.facts.tagger.store import load_tagger

    return load_tagger(SHIPPED)
