"""Semantic role frames of tokenised sentences.

A frame is a predicate with its arguments. An argument is a contiguous span of words with a PropBank role: ``ARG0`` ..
``ARG5``, ``ARGM-LOC`` etc., ``R-ARG0`` for a relative pronoun that refers to an argument, ``C-ARG0`` for the
continuation of a discontinuous argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agggen.errors import AggGenError


class Phrase(NamedTuple):
    """The words [start, end) of a sentence with their role in a frame; the role ``V`` is the predicate."""

    role: str
    start: int
    end: int

    @property
    def is_predicate(self) -> bool:
        """Whether this is the predicate, or the second part of a discontinuous predicate ("take ... off")."""
        return self.role in ("V", "C-V")


@dataclass(frozen=True, slots=True)
class Frame:
    """A predicate with its arguments."""

    predicate: int  # index of the predicate's first word
    # The predicate and the arguments in text order, without overlap; a discontinuous argument is several phrases.
    phrases: tuple[Phrase, ...]

    @property
    def start(self) -> int:
        return self.phrases[0].start

    @property
    def end(self) -> int:
        return self.phrases[-1].end


@dataclass(frozen=True, slots=True)
class Tokens:
    """The words of a sentence, in order and without overlap, and their character spans [start, end) in the text."""

    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its frames."""

    tokens: Tokens
    frames: tuple[Frame, ...]


class FrameSource(Protocol):
    """A tagger, parser or service that returns the frames of tokenised sentences.

    Frames depend on a sentence's words only; sources with the same fingerprint (of model and settings) return the same
    frames.
    """

    name: str

    @property
    def fingerprint(self) -> str: ...

    def frames(self, sentences: Sequence[Tokens]) -> list[tuple[Frame, ...]]:
        """The frames of each sentence, in any order; AggGenError if the source fails."""
        ...


def frame_of_tags(tags: Sequence[str]) -> Frame | None:
    """The frame of BIO tags, one per word (``B-ARG0 I-ARG0 B-V O``); None if no tag is ``B-V``.

    An ``I-`` tag that does not continue a phrase begins a new phrase. Raises AggGenError for other tags.
    """
    phrases: list[Phrase] = []
    for index, tag in enumerate(tags):
        bio, _, role = tag.partition("-")
        if tag == "O":
            continue
        if bio not in ("B", "I") or not role:
            raise AggGenError(f"tag {index + 1} is {tag!r}; a BIO tag is 'O', 'B-ARG0', 'I-ARG0', ...")
        last = phrases[-1] if phrases else None
        if bio == "I" and last and last.role == role and last.end == index:
            phrases[-1] = last._replace(end=index + 1)
        else:
            phrases.append(Phrase(role, index, index + 1))
    predicate = next((phrase.start for phrase in phrases if phrase.role == "V"), None)
    return None if predicate is None else Frame(predicate, tuple(phrases))
