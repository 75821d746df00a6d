"""Frames in AllenNLP's notation: ``[ARG1: Ann Roe] [V: wrote] [ARG2: Bolt] .``"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agggen.facts.frames import Frame, Sentence, Tokens, frame_of_tags

_PIECE = re.compile(r"\[(?P<role>[A-Z0-9-]+): (?P<inside>[^\]]+)\]|(?P<outside>[^\s\[\]]+)")


def tags_of(description: str) -> tuple[list[str], list[str]]:
    words: list[str] = []
    tags: list[str] = []
    for match in _PIECE.finditer(description):
        phrase = (match["inside"] or match["outside"]).split()
        words += phrase
        role = match["role"]
        tags += [f"{'I' if number else 'B'}-{role}" if role else "O" for number in range(len(phrase))]
    return words, tags


def parse_allennlp(item: Mapping[str, Any]) -> Sentence:
    """A sentence of AllenNLP's JSON output; verbs without a V tag are skipped."""
    frames = (frame_of_tags(verb["tags"]) for verb in item["verbs"])
    return Sentence(joined(item["words"]), tuple(frame for frame in frames if frame is not None))


def joined(words: Sequence[str]) -> Tokens:
    """Words with their offsets in the text that joins them by spaces."""
    spans: list[tuple[int, int]] = []
    for word in words:
        start = spans[-1][1] + 1 if spans else 0
        spans.append((start, start + len(word)))
    return Tokens(tuple(words), tuple(spans))


def sentence(text: str, *descriptions: str) -> Sentence:
    """The words of `text` and the frames of `descriptions`, which must have the same words."""
    frames: list[Frame] = []
    for description in descriptions:
        words, tags = tags_of(description)
        frame = frame_of_tags(tags)
        assert words == text.split() and frame is not None, f"{description} does not describe {text}"
        frames.append(frame)
    return Sentence(joined(text.split()), tuple(frames))


def check_bio(tags: Sequence[str]) -> None:
    """Asserts that `tags` is a valid BIO sequence."""
    previous = "O"
    for position, tag in enumerate(tags):
        assert tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2), f"{tag!r} at word {position} is not a BIO tag"
        assert not tag.startswith("I-") or previous[2:] == tag[2:], f"{tag!r} at word {position} follows {previous!r}"
        previous = tag
