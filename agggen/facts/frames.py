"""Semantic role frames: who did what to whom, over words that know their place in the text.

A frame is a predicate with its arguments, each a run of words under a PropBank role: ``ARG0`` .. ``ARG5``, ``ARGM-LOC``
and its like, ``R-ARG0`` for a relative pronoun that stands for an argument, ``C-ARG0`` for the rest of an argument that
other words interrupt. A `FrameSource` finds the frames of words; `parse_allennlp` reads what AllenNLP's
``SemanticRoleLabelerPredictor`` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

from agggen.errors import AggGenError


class Phrase(NamedTuple):
    """The words [start, end) of a sentence and the role that they play in a frame; the role ``V`` is the predicate."""

    role: str
    start: int
    end: int

    @property
    def is_predicate(self) -> bool:
        """Whether this is the predicate, or the rest of one in two parts ("take ... off")."""
        return self.role in ("V", "C-V")

    @property
    def is_core(self) -> bool:
        """Whether the role is a numbered one, which the predicate itself asks for."""
        return self.role.startswith("ARG") and not self.role.startswith("ARGM")


@dataclass(frozen=True, slots=True)
class Frame:
    """A predicate with its arguments.

    Raises:
        AggGenError: phrases that are empty, overlap or are out of order, or none that is the predicate's.
    """

    predicate: int
    """The word that is the predicate; the first if it has several."""
    phrases: tuple[Phrase, ...]
    """In text order and without overlap, the predicate's own included; what one role says in pieces is several."""

    def __post_init__(self) -> None:
        reached = 0
        for phrase in self.phrases:
            if phrase.start < reached or phrase.end <= phrase.start:
                raise AggGenError(f"phrase {phrase} of a frame is empty, or begins before word {reached}")
            reached = phrase.end
        if not any(phrase.is_predicate and phrase.start <= self.predicate < phrase.end for phrase in self.phrases):
            raise AggGenError(f"no phrase V of the frame holds its predicate, word {self.predicate}")

    @property
    def start(self) -> int:
        return self.phrases[0].start

    @property
    def end(self) -> int:
        return self.phrases[-1].end

    @property
    def has_arguments(self) -> bool:
        """Whether it carries something besides the bare predicate (auxiliaries are labelled as that)."""
        return not all(phrase.is_predicate for phrase in self.phrases)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one sentence and the characters [start, end) of the text that each stands for.

    Raises:
        AggGenError: not one span a word, or spans that are empty, overlap or are out of order.
    """

    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if len(self.words) != len(self.spans):
            raise AggGenError(f"{len(self.words)} words have {len(self.spans)} places in the text; each needs one")
        reached = 0
        for word, (start, end) in zip(self.words, self.spans, strict=True):
            if start < reached or end <= start:
                raise AggGenError(
                    f"the word {word!r} has the characters {start} to {end}; the one before ends {reached}"
                )
            reached = end


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its frames.

    Raises:
        AggGenError: a frame that reaches beyond the words.
    """

    words: Words
    frames: tuple[Frame, ...]

    def __post_init__(self) -> None:
        for frame in self.frames:
            if frame.end > len(self.words.words):
                raise AggGenError(f"a frame reaches word {frame.end} of a sentence of {len(self.words.words)} words")


@runtime_checkable
class FrameSource(Protocol):
    """Finds the frames of sentences that are already words: a tagger, a parser, a service.

    Two sources with one fingerprint find the same frames in every sentence, and its frames follow from its words alone.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """Changes whenever the model behind the source, or how it is asked, changes."""
        ...

    def frames(self, sentences: Sequence[Words]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in any order; one call holds as many sentences as there are at hand.

        Raises:
            AggGenError: the source cannot answer.
        """
        ...


@runtime_checkable
class SentenceSource(Protocol):
    """Gives texts with their sentences, words and frames: frames found earlier, over words of their own."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Changes whenever the frames do."""
        ...

    def sentences(self, texts: Sequence[str]) -> list[tuple[Sentence, ...]]:
        """The sentences of each text in order; their spans are offsets into the text as it is given here.

        Raises:
            AggGenError: it has no frames for one of the texts, or its words are not those of the text.
        """
        ...


def frame_of_tags(tags: Sequence[str]) -> Frame | None:
    """The frame that BIO tags spell, one tag a word: ``B-ARG0 I-ARG0 B-V O``; None where no word is the predicate.

    An ``I-`` tag that continues nothing begins a phrase.

    Raises:
        AggGenError: a tag that is neither ``O`` nor ``B-`` or ``I-`` with a role.
    """
    phrases: list[Phrase] = []
    for index, tag in enumerate(tags):
        mark, _, role = tag.partition("-")
        if tag == "O":
            continue
        if mark not in ("B", "I") or not role:
            raise AggGenError(f"tag {index + 1} is {tag!r}; a BIO tag is 'O', 'B-ARG0', 'I-ARG0', ...")
        last = phrases[-1] if phrases else None
        if mark == "I" and last and last.role == role and last.end == index:
            phrases[-1] = last._replace(end=index + 1)
        else:
            phrases.append(Phrase(role, index, index + 1))
    predicate = next((phrase.start for phrase in phrases if phrase.role == "V"), None)
    return None if predicate is None else Frame(predicate, tuple(phrases))


def parse_allennlp(item: Any) -> tuple[tuple[str, ...], tuple[Frame, ...]]:
    """The words and frames of one sentence of AllenNLP's JSON: ``{"words": [...], "verbs": [{"tags": [...]}]}``.

    A verb whose tags name no predicate (AllenNLP prints those too) is left out.

    Raises:
        AggGenError: another structure, or tags that are not one a word.
    """
    words = item.get("words") if isinstance(item, Mapping) else None
    verbs = item.get("verbs") if isinstance(item, Mapping) else None
    if not _are_strings(words) or not isinstance(verbs, list):
        raise AggGenError('not a sentence of AllenNLP\'s output, {"words": [...], "verbs": [{"tags": [...]}, ...]}')
    frames: list[Frame] = []
    for number, verb in enumerate(verbs, start=1):
        tags = verb.get("tags") if isinstance(verb, Mapping) else None
        if not _are_strings(tags):
            raise AggGenError(f'verb {number} has no "tags", a list of strings')
        if len(tags) != len(words):
            raise AggGenError(f"verb {number} has {len(tags)} tags for {len(words)} words")
        if frame := frame_of_tags(tags):
            frames.append(frame)
    return tuple(words), tuple(frames)


def _are_strings(values: Any) -> TypeGuard[list[str]]:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
