"""Facts: contiguous pieces of a text that each say one event, "who did what to whom" (paper, section 3.1).

A segmenter cuts texts into facts that concatenate back to the text byte for byte; white space at a boundary belongs
to the fact before it. ``agggen.facts.config.segmenter`` gives one by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from agggen.errors import AggGenError


@runtime_checkable
class FactSegmenter(Protocol):
    """Cuts texts into facts. Two segmenters with one fingerprint cut every text alike."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Changes whenever the rules or the model behind the segmenter change."""
        ...

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The facts of each text, in order; a blank text has none."""
        ...


def check_facts(text: str, facts: Sequence[str]) -> tuple[str, ...]:
    """`facts` if they are a segmentation of `text`.

    Raises:
        AggGenError: they do not concatenate to the text, one of them is blank, or a text with words has none.
    """
    if not text.strip():
        if facts:
            raise AggGenError(f"a blank text has no facts, not {len(facts)}")
        return ()
    if not facts:
        raise AggGenError(f"no facts for the text {text!r:.80}; a text with words has at least one")
    if "".join(facts) != text:
        raise AggGenError(f"the facts do not concatenate to the text {text!r:.80}")
    for number, fact in enumerate(facts, start=1):
        if not fact.strip():
            raise AggGenError(f"fact {number} of the text {text!r:.80} holds nothing but white space")
    return tuple(facts)


def segment_each(segmenter: FactSegmenter, texts: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The facts of each different text that the segmenter can cut, and for each of the others why it cannot.

    Where it fails on texts, for whatever reason, it is asked for halves of them until it is known on which.
    """
    if not texts:
        return {}, {}
    try:
        found = segmenter.segment(texts)
        return {text: check_facts(text, facts) for text, facts in zip(texts, found, strict=True)}, {}
    except Exception as error:
        if len(texts) == 1:
            return {}, {texts[0]: f"{type(error).__name__}: {error}" if str(error) else type(error).__name__}
    half = len(texts) // 2
    facts, errors = segment_each(segmenter, texts[:half])
    more_facts, more_errors = segment_each(segmenter, texts[half:])
    return facts | more_facts, errors | more_errors


def cut(text: str, starts: Iterable[int]) -> tuple[str, ...]:
    """`text` cut before each of the offsets `starts`; white space before a cut stays with the piece before it.

    Offsets that would leave a blank piece are dropped; a blank text has no pieces.
    """
    if not text.strip():
        return ()
    pieces: list[str] = []
    begin = 0
    for start in sorted(set(starts)):
        while start < len(text) and text[start].isspace():
            start += 1
        if text[begin:start].strip() and text[start:].strip():
            pieces.append(text[begin:start])
            begin = start
    return check_facts(text, (*pieces, text[begin:]))


def rules_fingerprint(name: str, *rules: str) -> str:
    """A fingerprint of a segmenter that is nothing but its rules: ``clauses-1f0c...``."""
    return f"{name}-{hashlib.sha256(chr(0).join(rules).encode()).hexdigest()[:16]}"
