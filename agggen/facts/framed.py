"""Facts from semantic role frames: the paper's segmentation (section 3.1 and appendix B), whatever finds the frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agggen.errors import AggGenError, ConfigError
from agggen.facts import cut, grouping, rules_fingerprint, tree, words
from agggen.facts.frames import FrameSource, Sentence, SentenceSource
from agggen.facts.grouping import fact_starts
from agggen.facts.sentences import SentenceSegmenter
from agggen.facts.tree import LEVELS, Level
from agggen.facts.words import split_sentences

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class FrameSegmenter:
    """A segmenter with one fact a frame; a sentence without frames is one fact.

    A `FrameSource` is asked for the frames of the words that ``agggen.facts.words`` finds, all different sentences of a
    call at once; a `SentenceSource` brings words of its own.
    """

    def __init__(self, source: FrameSource | SentenceSource, level: Level = "full") -> None:
        """Levels are those of ``agggen.facts.tree`` and ``agggen.facts.grouping``.

        Raises:
            ConfigError: an unknown level.
        """
        if level not in LEVELS:
            raise ConfigError(f"unknown level {level!r} of segmentation by frames; there are {', '.join(LEVELS)}")
        self.source = source
        self.level = level
        self.name = source.name

    @property
    def fingerprint(self) -> str:
        rules = [self.source.fingerprint, self.level, tree.RULES, grouping.RULES]
        if not _brings_words(self.source):
            rules += [words.RULES, SentenceSegmenter().fingerprint]
        return rules_fingerprint(self.name, *rules)

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The facts of each text; the white space between two belongs to the first.

        Raises:
            AggGenError: the source has no frames for a text, or answers with other than one tuple a sentence.
        """
        found = zip(texts, self.sentences(texts), strict=True)
        return [cut(text, _offsets(sentences, self.level)) for text, sentences in found]

    def sentences(self, texts: Sequence[str]) -> list[tuple[Sentence, ...]]:
        """The sentences of each text with the source's frames.

        Raises:
            AggGenError: as `segment`.
        """
        if _brings_words(self.source):
            labelled = self.source.sentences(texts)
            if len(labelled) != len(texts):
                raise AggGenError(f"{self.source.name} labelled {len(labelled)} of {len(texts)} texts")
            return labelled
        split = [split_sentences(text) for text in texts]
        # Texts repeat each other's sentences, and frames follow from the words alone.
        different = {sentence.words: sentence for sentences in split for sentence in sentences}
        frames = self.source.frames(list(different.values())) if different else []
        if len(frames) != len(different):
            raise AggGenError(f"{self.source.name} labelled {len(frames)} of {len(different)} sentences")
        of = dict(zip(different, frames, strict=True))
        return [tuple(Sentence(sentence, of[sentence.words]) for sentence in sentences) for sentences in split]


def _brings_words(source: FrameSource | SentenceSource) -> TypeIs[SentenceSource]:
    """Whether a source has words of its own. (isinstance would ask for its fingerprint, which may take a download.)"""
    return hasattr(type(source), "sentences")


def _offsets(sentences: Sequence[Sentence], level: Level) -> Iterator[int]:
    """The characters of the text at which the facts of its sentences begin."""
    for sentence in sentences:
        for word in fact_starts(sentence, level):
            yield sentence.words.spans[word][0]
