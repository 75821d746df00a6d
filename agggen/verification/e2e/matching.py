"""Finds the phrases of E2E's slots in a text, and the value of each phrase."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from agggen.verification.e2e.patterns import AREA, EAT_TYPE, FAMILY_FRIENDLY, FOOD, NAMES, PLACES, Pattern, Reading
from agggen.verification.e2e.prices_and_ratings import CUSTOMER_RATING, NOUN_BEFORE_ADJECTIVE, PRICE_RANGE
from agggen.verification.normal import Span, containing

Slots = Mapping[str, tuple[str, ...]]
"""The values of a record by slot, in the corpus reader's spelling."""

_UNIFORM_QUOTES_AND_DASHES = str.maketrans("\u2018\u2019\u00b4\u2010\u2011\u2012\u2013\u2014\u2212\u00a0", "'''------ ")


@dataclass(frozen=True, slots=True)
class Mention:
    """A phrase that expresses a value."""

    slot: str
    value: str
    span: Span


def fold(text: str) -> str:
    """`text` in lower case, without accents, with one kind of quote and dash; character offsets do not change."""
    if text.isascii():
        return text.lower()
    folded = []
    for char in text.translate(_UNIFORM_QUOTES_AND_DASHES):
        base = unicodedata.normalize("NFD", char)[0].lower()
        folded.append(base if len(base) == 1 else char)
    return "".join(folded)


@lru_cache(maxsize=1 << 12)
def value_key(value: str) -> str:
    """The normal form of a value for comparison: folded, with one spelling of "centre" and of ranges such as £20-25."""
    key = re.sub(r"\s+", " ", fold(unicodedata.normalize("NFC", value))).strip()
    return re.sub(r"(?<=\d) ?- ?£? ?(?=\d)", "-", key.replace("center", "centre"))


@lru_cache(maxsize=1 << 12)
def literal_pattern(slot: str, value: str) -> Pattern:
    """A pattern for the words of `value`; an initial ``the`` is optional if several words follow."""
    words = re.findall(r"\w+|[^\w\s-]+", fold(value)) or [fold(value)]
    article = r"(?:the[\s-]+)?" if words[0] == "the" and len(words) > 2 else ""
    expression = r"[\s-]*".join(re.escape(word) for word in words[bool(article) :])
    return Pattern(slot, (value,), re.compile(rf"(?<!\w){article}{expression}(?!\w)"), cue=max(words, key=len))


_PATTERNS = (
    *(*EAT_TYPE, *FOOD, *AREA, *CUSTOMER_RATING, *PRICE_RANGE, *FAMILY_FRIENDLY, *NOUN_BEFORE_ADJECTIVE),
    *(*(literal_pattern("name", name) for name in NAMES), *(literal_pattern("near", place) for place in PLACES)),
)
_READINGS: dict[Reading, tuple[Pattern, ...]] = {
    "published": tuple(pattern for pattern in _PATTERNS if pattern.reading != "plain"),
    "plain": tuple(pattern for pattern in _PATTERNS if pattern.reading != "published"),
}
_CANONICAL_VALUES = {(pattern.slot, value_key(value)): value for pattern in _PATTERNS for value in pattern.values}


def canonical(slot: str, value: str) -> str:
    """`value` in the spelling of the patterns; unchanged if it has no patterns."""
    return _CANONICAL_VALUES.get((slot, value_key(value)), value)


def has_patterns(slot: str, value: str) -> bool:
    """Whether there are patterns for `value`; otherwise only its `literal_pattern` matches."""
    return (slot, value_key(value)) in _CANONICAL_VALUES


def mentions(text: str, slots: Slots, reading: Reading) -> list[Mention]:
    """The mentions of values in `text` (in Unicode form NFC), in text order.

    An ambiguous phrase means a value in `slots` if possible. Ignored are phrases inside a longer phrase of the same
    slot ("family friendly" in "not family friendly"), phrases inside a name ("Indian" in "Raja Indian Cuisine"), and
    vague phrases if the text has a clearer phrase for the slot.
    """
    values = ((slot, value) for slot in slots for value in slots[slot])
    record_patterns = tuple(literal_pattern(slot, value) for slot, value in values if not has_patterns(slot, value))
    matches = [
        (span, pattern)
        for span, patterns in _matches(fold(text), reading, record_patterns)
        for pattern in _compatible(patterns, slots)
    ]
    slots_with_clear_phrase = {pattern.slot for _, pattern in matches if not pattern.vague}
    value_mentions: list[Mention] = []
    for span, pattern in matches:
        if pattern.values and not (pattern.vague and pattern.slot in slots_with_clear_phrase):
            value_mentions.append(Mention(pattern.slot, _value_of(pattern, slots, value_mentions), span))
    return value_mentions


def expresses(text: str, slot: str, value: str) -> bool:
    """Whether `text` expresses `value` of `slot`, in the plain reading."""
    value = canonical(slot, value)
    value_mentions = mentions(unicodedata.normalize("NFC", text), {slot: (value,)}, "plain")
    return any(mention.slot == slot and mention.value == value for mention in value_mentions)


@lru_cache(maxsize=1 << 10)  # called once per triple with the same text
def _matches(folded: str, reading: Reading, record_patterns: tuple[Pattern, ...]) -> list[tuple[Span, list[Pattern]]]:
    """(span, matching patterns) in text order, without spans inside a name or inside a longer span of the same slot."""
    spans: dict[Span, list[Pattern]] = {}
    for pattern in (*_READINGS[reading], *record_patterns):
        if pattern.cue in folded:
            for match in pattern.regex.finditer(folded):
                spans.setdefault(match.span(), []).append(pattern)
    outermost = []
    for span in sorted(spans):
        outer_slots = {pattern.slot for longer in containing(span, spans) for pattern in spans[longer]}
        if not outer_slots & {"name", "near"}:
            outermost.append((span, [pattern for pattern in spans[span] if pattern.slot not in outer_slots]))
    return outermost


def _compatible(patterns: list[Pattern], slots: Slots) -> list[Pattern]:
    """The patterns that can mean a value of the record; if there are none, only the first pattern."""
    compatible = [pattern for pattern in patterns if not set(pattern.values).isdisjoint(slots.get(pattern.slot, ()))]
    return compatible or patterns[:1]


def _value_of(pattern: Pattern, slots: Slots, earlier: list[Mention]) -> str:
    """The value that a phrase means: the first in the record, else the first mentioned earlier, else the first."""
    mentioned = [mention.value for mention in earlier if mention.slot == pattern.slot]
    candidates = (
        value for values in (slots.get(pattern.slot, ()), mentioned) for value in pattern.values if value in values
    )
    return next(candidates, pattern.values[0])
