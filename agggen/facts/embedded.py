"""Frames from the role tagger that ships with agggen: no service, no download, a few hundred sentences a second.

The tagger (``agggen.facts.tagger``) was trained on PropBank EWT; its weights are CC BY-SA 4.0, see
``agggen/facts/tagger_model/README.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agggen.facts.frames import Frame, Words, frame_of_tags

if TYPE_CHECKING:
    from agggen.facts.tagger.store import RoleTagger

SHIPPED = Path(__file__).with_name("tagger_model")


class EmbeddedFrames:
    """A frame source that tags with the role tagger in `folder`, by default the shipped one.

    The folder is read, and checked against its manifest, when it is first needed; one process reads it once.
    Sentences are tagged together, those of like length in one batch, so one call with many is far faster than many
    calls. In a very long sentence nothing is cut off.
    """

    name = "embedded"

    def __init__(self, folder: Path | str = SHIPPED) -> None:
        self.folder = Path(folder)

    @cached_property
    def fingerprint(self) -> str:
        """Named after the tagger's files: other weights, another fingerprint.

        Raises:
            BundleError: a file of the tagger is missing or was changed.
        """
        from agggen.facts.tagger.store import tagger_fingerprint

        return f"{self.name}-{tagger_fingerprint(self.folder)[:16]}"

    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in the order of their predicates; a sentence without verb has none.

        Raises:
            BundleError: a file of the tagger is missing or was changed.
        """
        tagged = _tagger(self.folder).tag([sentence.words for sentence in sentences])
        found = ([frame_of_tags(role.tags) for role in roles] for roles in tagged)
        return [tuple(frame for frame in frames if frame is not None) for frames in found]

    def __reduce__(self) -> tuple[type[EmbeddedFrames], tuple[Path]]:
        """Workers are sent the place of the tagger, not its weights."""
        return type(self), (self.folder,)


@lru_cache(maxsize=2)
def _tagger(folder: Path) -> RoleTagger:
    from agggen.facts.tagger.store import load_tagger

    return load_tagger(folder)
