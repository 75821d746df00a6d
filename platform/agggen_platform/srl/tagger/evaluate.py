"""How well frames agree with others: predicates, argument spans with and without labels, and where facts begin.

A span counts with its predicate's position, so the arguments of a predicate that was not found are all missed. The
verb itself (V) is no argument. Facts are those of `agggen.facts.grouping` at level ``full``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import AggGenError, CorpusError
from agggen.facts.frames import Frame, FrameSource, Sentence, Words, frame_of_tags, parse_allennlp
from agggen.facts.grouping import fact_starts
from agggen.facts.tagger.store import RoleTagger
from agggen_platform.srl.tagger.data import Sentence as Annotated

Frames = tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of what was found, what should have been, and both; precision, recall and F1 are shares (0..1)."""

    both: int = 0
    found: int = 0
    wanted: int = 0

    @property
    def precision(self) -> float:
        return self.both / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.both / self.wanted if self.wanted else 0.0

    @property
    def f1(self) -> float:
        total = self.found + self.wanted
        return 2 * self.both / total if total else 0.0

    def plus(self, found: set[object], wanted: set[object]) -> Agreement:
        return Agreement(self.both + len(found & wanted), self.found + len(found), self.wanted + len(wanted))


def evaluate_annotated(tagger: RoleTagger, sentences: Sequence[Annotated]) -> dict[str, Agreement]:
    """Agreement with the annotators of PropBank EWT: ``predicates``, ``labelled``, ``unlabelled``.

    Arguments are counted for the predicates that have a frame: the annotators passed over some verbs.
    """
    tagged = tagger.tag([sentence.words for sentence in sentences])
    counts = {name: Agreement() for name in ("predicates", "labelled", "unlabelled")}
    for found, sentence in zip(tagged, sentences, strict=True):
        verbs = {place for place, is_predicate in enumerate(sentence.predicates) if is_predicate}
        counts["predicates"] = counts["predicates"].plus({role.predicate for role in found}, set(verbs))
        annotated = {role.predicate for role in sentence.roles}
        ours = _frames([role.tags for role in found if role.predicate in annotated])
        _count_arguments(counts, ours, _frames([role.tags for role in sentence.roles]))
    return counts


def evaluate_source(source: FrameSource, texts: Sequence[Sequence[Sentence]]) -> dict[str, Agreement]:
    """Agreement of a source's frames with those that the sentences of texts carry, over the same words.

    Returns ``predicates``, ``labelled`` and ``unlabelled`` argument spans; ``boundaries`` between the facts of a text,
    of which those between its sentences come for nothing; and ``boundaries inside``, without those.
    """
    sentences = [sentence for text in texts for sentence in text]
    tagged = source.frames([sentence.words for sentence in sentences])
    counts = {name: Agreement() for name in ("predicates", "labelled", "unlabelled", "boundaries inside")}
    for frames, sentence in zip(tagged, sentences, strict=True):
        counts["predicates"] = counts["predicates"].plus(
            {frame.predicate for frame in frames}, {frame.predicate for frame in sentence.frames}
        )
        _count_arguments(counts, frames, sentence.frames)
        ours, theirs = fact_starts(replace(sentence, frames=frames)), fact_starts(sentence)
        counts["boundaries inside"] = counts["boundaries inside"].plus(set(ours[1:]), set(theirs[1:]))
    inside, between = counts["boundaries inside"], sum(len(text) - 1 for text in texts if text)
    total = (number + between for number in (inside.both, inside.found, inside.wanted))
    return counts | {"boundaries": Agreement(*total)}


def read_allennlp(path: Path | str) -> list[list[Sentence]]:
    """The sentences of each text in a file of AllenNLP's output, one JSON list of sentences a line.

    The words' places are those in the words joined by single spaces.

    Raises:
        CorpusError: the file is missing or empty, or a line is not of this form (names it).
    """
    texts = []
    with open_source(path) as (stream, name):
        for item in read_lines(stream, name):
            if isinstance(item, Reject):
                raise CorpusError(str(item))
            number, line = item
            try:
                sentences = [parse_allennlp(sentence) for sentence in json.loads(line)]
                texts.append([Sentence(joined_words(words), frames) for words, frames in sentences])
            except (json.JSONDecodeError, TypeError, AggGenError) as error:
                raise CorpusError(f"{name}, line {number}: not a list of AllenNLP's sentences: {error}") from error
    return texts


def joined_words(words: Sequence[str]) -> Words:
    """Words with their places in the text that they make when joined by single spaces."""
    spans, reached = [], 0
    for word in words:
        spans.append((reached, reached + len(word)))
        reached += len(word) + 1
    return Words(tuple(words), tuple(spans))


def _frames(tags: Sequence[Sequence[str]]) -> Frames:
    return tuple(frame for frame in map(frame_of_tags, tags) if frame is not None)


def _count_arguments(counts: dict[str, Agreement], found: Frames, wanted: Frames) -> None:
    ours, theirs = set(_arguments(found)), set(_arguments(wanted))
    counts["labelled"] = counts["labelled"].plus(set(ours), set(theirs))
    counts["unlabelled"] = counts["unlabelled"].plus({span[:3] for span in ours}, {span[:3] for span in theirs})


def _arguments(frames: Frames) -> Iterator[tuple[int, int, int, str]]:
    for frame in frames:
        for role, start, end in frame.phrases:
            if role != "V":
                yield frame.predicate, start, end, role
