"""Segmentation by semantic role frames of any `FrameSource` (paper, section 3.1 and appendix B)."""

from collections.abc import Sequence

from agggen.errors import AggGenError
from agggen.facts import cut, grouping, rules_fingerprint, tree, words
from agggen.facts.frames import FrameSource, Sentence
from agggen.facts.grouping import fact_starts
from agggen.facts.sentences import SentenceSegmenter
from agggen.facts.tree import Level
from agggen.facts.words import split_sentences


class FrameSegmenter:
    """A segmenter with one fact per frame (`agggen.facts.grouping`); a sentence without frames is one fact.

    The source receives all distinct sentences, tokenised by ``agggen.facts.words``, in one call.
    """

    def __init__(self, source: FrameSource, level: Level = "full") -> None:
        self.source, self.level, self.name = source, level, source.name

    @property
    def fingerprint(self) -> str:
        rules = (tree.RULES, grouping.RULES, words.RULES, SentenceSegmenter().fingerprint)
        return rules_fingerprint(self.name, self.source.fingerprint, self.level, *rules)

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The facts of each text; AggGenError if the frame source fails, or returns a wrong number of results."""
        facts = []
        for text, sentences in zip(texts, self.sentences(texts), strict=True):
            spans = (sentence.tokens.spans[i] for sentence in sentences for i in fact_starts(sentence, self.level))
            facts.append(cut(text, (start for start, _ in spans)))
        return facts

    def sentences(self, texts: Sequence[str]) -> list[tuple[Sentence, ...]]:
        """The sentences of each text with their frames."""
        sentences_of_texts = [split_sentences(text) for text in texts]
        # Frames depend on the words only, so each distinct sentence is tagged once.
        distinct = {sentence.words: sentence for sentences in sentences_of_texts for sentence in sentences}
        frames = self.source.frames(list(distinct.values())) if distinct else []
        if len(frames) != len(distinct):
            raise AggGenError(f"{self.source.name} returned frames of {len(frames)} of {len(distinct)} sentences")
        frames_of = dict(zip(distinct, frames, strict=True))
        return [
            tuple(Sentence(sentence, frames_of[sentence.words]) for sentence in sentences)
            for sentences in sentences_of_texts
        ]
