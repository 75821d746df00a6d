"""Segmentation by semantic role frames of any `FrameSource` (paper, section 3.1 and appendix B).

Words are those of English treebanks: clitics (``'s``, ``n't``), punctuation and hyphens are separate words; numbers
with inner points and dotted initials (``U.S.``, ``A.F.C``) are one word.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from agggen.errors import AggGenError
from agggen.facts import cut, rules_fingerprint
from agggen.facts.clauses import SentenceSegmenter, sentence_starts
from agggen.facts.frames import FrameSource, Sentence, Tokens
from agggen.facts.tree import RULES, Level, fact_starts

_APOSTROPHE = "['\u2019]"
_WORD_RULES = rf"""
    \d+ (?:[.,:/]\d+)+ (?![\w])               # 3,800.5  10:30  18/36
  | (?:[^\W\d_]\.){{2,}} [^\W\d_]? (?!\w)     # U.S.  A.F.C
  | n{_APOSTROPHE}t (?!\w)
  | {_APOSTROPHE} (?:s|re|ve|ll|d|m) (?!\w)
  | \w+? (?= n{_APOSTROPHE}t (?!\w) )
  | [\w\u0300-\u036f]+ (?: {_APOSTROPHE} (?! (?:s|re|ve|ll|d|m) (?!\w) ) \w+ )?    # O'Brien
  | \.{{2,}} | -{{2,}}
  | \S
"""
_WORD = re.compile(_WORD_RULES, re.VERBOSE | re.IGNORECASE)
# Part of segmenters' fingerprints; increase the number when the code of `split_sentences` changes.
_WORDS_VERSION = f"1 {_WORD_RULES}"


class FrameSegmenter:
    """A segmenter with one fact per frame (`agggen.facts.tree`); a sentence without frames is one fact.

    The source receives all distinct sentences, tokenised by `split_sentences`, in one call.
    """

    def __init__(self, source: FrameSource, level: Level = "full") -> None:
        self.source, self.level, self.name = source, level, source.name

    @property
    def fingerprint(self) -> str:
        rules = (*RULES, _WORDS_VERSION, SentenceSegmenter().fingerprint)
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


def split_sentences(text: str) -> tuple[Tokens, ...]:
    """The words of each sentence (``agggen.facts.clauses``); each visible character is in exactly one word."""
    edges = pairwise((0, *sentence_starts(text), len(text)))
    sentences = (list(_WORD.finditer(text, start, end)) for start, end in edges)
    return tuple(
        Tokens(tuple(match.group() for match in matches), tuple(match.span() for match in matches))
        for matches in sentences
        if matches
    )
