"""Facts: contiguous segments of a text, one per event ("who did what to whom"; paper, section 3.1).

A segmenter splits each text into facts that concatenate exactly to the text; whitespace at a boundary belongs to the
fact before it. ``agggen.facts.config.segmenter`` returns a segmenter by name.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from agggen.errors import AggGenError


class FactSegmenter(Protocol):
    """Segments texts into facts. Segmenters with the same fingerprint (of rules and model) return the same facts."""

    name: str

    @property
    def fingerprint(self) -> str: ...

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The facts of each text; none for a blank text."""
        ...


def check_facts(text: str, facts: Sequence[str]) -> tuple[str, ...]:
    """`facts`; AggGenError if they do not concatenate to `text`, one is blank, or a non-blank text has none."""
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
            raise AggGenError(f"fact {number} of the text {text!r:.80} is blank")
    return tuple(facts)


def segment_each(segmenter: FactSegmenter, texts: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The facts of each distinct text, and the error message of each text on which the segmenter fails.

    After a failure, the texts are bisected to find the texts on which the segmenter fails.
    """
    if not texts:
        return {}, {}
    try:
        facts_of_texts = segmenter.segment(texts)
        return {text: check_facts(text, facts) for text, facts in zip(texts, facts_of_texts, strict=True)}, {}
    except Exception as error:
        if len(texts) == 1:
            return {}, {texts[0]: f"{type(error).__name__}: {error}" if str(error) else type(error).__name__}
    middle = len(texts) // 2
    facts, errors = segment_each(segmenter, texts[:middle])
    more_facts, more_errors = segment_each(segmenter, texts[middle:])
    return facts | more_facts, errors | more_errors


def cut(text: str, starts: Iterable[int]) -> tuple[str, ...]:
    """Splits `text` at the offsets `starts`; whitespace at a boundary belongs to the segment before it.

    Offsets that would make a blank segment are ignored; a blank text has no segments.
    """
    if not text.strip():
        return ()
    segments: list[str] = []
    begin = 0
    for start in sorted(set(starts)):
        while start < len(text) and text[start].isspace():
            start += 1
        if text[begin:start].strip() and text[start:].strip():
            segments.append(text[begin:start])
            begin = start
    return (*segments, text[begin:])


class RuleSegmenter:
    """A segmenter whose rules find the offsets at which the facts of a text begin."""

    name: str
    rules: Sequence[str]  # the definitions of the rules, which the fingerprint hashes

    @property
    def fingerprint(self) -> str:
        return rules_fingerprint(self.name, *self.rules)

    def starts(self, text: str) -> Iterable[int]:
        """The offsets at which the second and later facts begin."""
        raise NotImplementedError

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [cut(text, self.starts(text)) for text in texts]


def rules_fingerprint(name: str, *rules: str) -> str:
    """The fingerprint of a segmenter that is defined by rules: ``clauses-1f0c...``."""
    return f"{name}-{hashlib.sha256(chr(0).join(rules).encode()).hexdigest()[:16]}"
