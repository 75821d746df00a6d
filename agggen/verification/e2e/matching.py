"""What a text says about an E2E record: phrases found in it, and which value of which slot each means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from agggen.verification.e2e.family import FAMILY_FRIENDLY
from agggen.verification.e2e.patterns import AREA, EAT_TYPE, FOOD, NAMES, PLACES, Pattern, Reading
from agggen.verification.e2e.prices_and_ratings import CUSTOMER_RATING, LOOSE, PRICE_RANGE

Slots = Mapping[str, tuple[str, ...]]
"""The values of each slot of a record, by the slot's name in the corpus reader's spelling."""

_Span = tuple[int, int]
_SAME_SIGN = str.maketrans("\u2018\u2019\u00b4\u2010\u2011\u2012\u2013\u2014\u2212\u00a0", "'''------ ")


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in the text that says a value."""

    slot: str
    value: str
    start: int
    end: int


def fold(text: str) -> str:
    """`text` as the patterns see it, character for character, so that positions stay those of `text`."""
    if text.isascii():
        return text.lower()
    folded = []
    for char in text.translate(_SAME_SIGN):
        base = unicodedata.normalize("NFD", char)[0].lower()
        folded.append(base if len(base) == 1 else char)
    return "".join(folded)


@lru_cache(maxsize=1 << 12)
def value_key(value: str) -> str:
    """The form in which values are compared: folded, one spelling of centre, one way to write £20-25."""
    key = re.sub(r"\s+", " ", fold(unicodedata.normalize("NFC", value))).strip()
    return re.sub(r"(?<=\d) ?- ?£? ?(?=\d)", "-", key.replace("center", "centre"))


@lru_cache(maxsize=1 << 12)
def verbatim(slot: str, value: str) -> Pattern:
    """A pattern for the words of `value` as they stand; the article of a name of several words may be left out."""
    words = re.findall(r"\w+|[^\w\s-]+", fold(value)) or [fold(value)]
    article = r"(?:the[\s-]+)?" if words[0] == "the" and len(words) > 2 else ""
    rest = r"[\s-]*".join(re.escape(word) for word in words[bool(article) :])
    return Pattern(slot, (value,), re.compile(rf"(?<!\w){article}{rest}(?!\w)"), cue=max(words, key=len))


_PATTERNS = (
    *(*EAT_TYPE, *FOOD, *AREA, *CUSTOMER_RATING, *PRICE_RANGE, *FAMILY_FRIENDLY, *LOOSE),
    *(*(verbatim("name", name) for name in NAMES), *(verbatim("near", place) for place in PLACES)),
)
_READINGS: dict[Reading, tuple[Pattern, ...]] = {
    "published": tuple(pattern for pattern in _PATTERNS if pattern.reading != "plain"),
    "plain": tuple(pattern for pattern in _PATTERNS if pattern.reading != "published"),
}
_KNOWN = {(pattern.slot, value_key(value)): value for pattern in _PATTERNS for value in pattern.values}


def canonical(slot: str, value: str) -> str:
    """`value` in the spelling of the patterns, if they know it."""
    return _KNOWN.get((slot, value_key(value)), value)


def known(slot: str, value: str) -> bool:
    """Whether the patterns know ways to say `value`, beyond its own words."""
    return (slot, value_key(value)) in _KNOWN


def mentions(text: str, slots: Slots, reading: Reading) -> list[Mention]:
    """What `text` (in Unicode's NFC form) says, in text order.

    A phrase that can mean several values means the one that `slots` has. A phrase inside a longer one of its slot, or
    inside a name, counts for nothing ("family friendly" in "not family friendly", "Indian" in "Raja Indian Cuisine"),
    nor does a vague one beside a plain one of its slot.
    """
    folded = fold(text)
    own = tuple(verbatim(slot, value) for slot in slots for value in slots[slot] if not known(slot, value))
    found = [
        (span, pattern) for span, patterns in _places(folded, reading, own) for pattern in _fitting(patterns, slots)
    ]
    plain = {pattern.slot for _, pattern in found if not pattern.vague}
    said: list[Mention] = []
    for (start, end), pattern in found:
        if pattern.values and not (pattern.vague and pattern.slot in plain):
            said.append(Mention(pattern.slot, _meant(pattern, slots, said), start, end))
    return said


def says(text: str, slot: str, value: str) -> bool:
    """Whether `text` says `value` of `slot`, in the plain reading."""
    value = canonical(slot, value)
    said = mentions(unicodedata.normalize("NFC", text), {slot: (value,)}, "plain")
    return any(mention.slot == slot and mention.value == value for mention in said)


@lru_cache(maxsize=1 << 10)  # each triple of a record asks for the same text
def _places(folded: str, reading: Reading, own: tuple[Pattern, ...]) -> list[tuple[_Span, list[Pattern]]]:
    """Where patterns match, in text order, but for phrases inside a longer one of their slot, or inside a name."""
    spans: dict[_Span, list[Pattern]] = {}
    for pattern in (*_READINGS[reading], *own):
        if pattern.cue in folded:
            for match in pattern.regex.finditer(folded):
                spans.setdefault(match.span(), []).append(pattern)
    holds = [(start, end, {pattern.slot for pattern in patterns}) for (start, end), patterns in spans.items()]
    places = []
    for span in sorted(spans):
        hidden = {
            slot
            for start, end, slots in holds
            if start <= span[0] and span[1] <= end and (start, end) != span
            for slot in slots
        }
        if not hidden & {"name", "near"}:
            places.append((span, [pattern for pattern in spans[span] if pattern.slot not in hidden]))
    return places


def _fitting(patterns: list[Pattern], slots: Slots) -> list[Pattern]:
    """Of the patterns of one place those that fit the record, else the first."""
    fitting = [pattern for pattern in patterns if not set(pattern.values).isdisjoint(slots.get(pattern.slot, ()))]
    return fitting or patterns[:1]


def _meant(pattern: Pattern, slots: Slots, said: list[Mention]) -> str:
    """The value that the record has, else one that the text has said before, else the first."""
    given = slots.get(pattern.slot, ())
    earlier = [mention.value for mention in said if mention.slot == pattern.slot]
    for values in (given, earlier):
        for value in pattern.values:
            if value in values:
                return value
    return pattern.values[0]
