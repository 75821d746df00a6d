"""Frames by the shipped role tagger, without a download, at several hundred sentences per second.

The tagger (``agggen.facts.tagger``) was trained on PropBank EWT; its weights are CC BY-SA 4.0, see
``agggen/facts/tagger_model/README.md``.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from agggen.facts.frames import Frame, Tokens, frame_of_tags
from agggen.facts.tagger.store import RoleTagger, load_tagger, tagger_fingerprint

TAGGER_FOLDER = Path(__file__).with_name("tagger_model")


class EmbeddedFrames:
    """A frame source with the shipped tagger, which is loaded on first use, once per process."""

    name = "embedded"

    @cached_property
    def fingerprint(self) -> str:
        return f"{self.name}-{tagger_fingerprint(TAGGER_FOLDER)[:16]}"

    def frames(self, sentences: Sequence[Tokens]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in the order of their predicates; faster with many sentences per call."""
        tags_of_sentences = _tagger().tag([sentence.words for sentence in sentences])
        return [tuple(filter(None, map(frame_of_tags, tags_of_frames))) for tags_of_frames in tags_of_sentences]


@cache
def _tagger() -> RoleTagger:
    return load_tagger(TAGGER_FOLDER)
