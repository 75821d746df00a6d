"""Slot errors of texts generated from E2E records, and their rate over a corpus (Dušek, Howcroft and Rieser 2019).

For each slot, values that only the record has are paired with values that only the text has. A pair is a *wrong* value;
the remaining values are *missed* or *added*. Repeated mentions count once. The slot error rate is the number of errors
divided by the number of the records' values, names included.

The reading "published" imitates the scorer of the published numbers, as inferred from the annotated values of cleaned
E2E. It has fewer phrases ("mid-priced" has no meaning, "aren't child friendly" means yes) and attaches an adjective to
a noun shortly before it. It finds exactly the annotated values in 96.4 % of the 4,299 development texts and in 94.9 %
of the 33,525 training texts, from which no phrases were collected, and reproduces the AggGen paper's numbers for its
E2E outputs. The reading "plain" interprets phrases as people do; use it for generated texts.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest

from agggen.errors import RecordError
from agggen.records import NO_SUBJECT, Record
from agggen.verification.e2e_patterns import NAMES, PATTERNS, PLACES, Pattern
from agggen.verification.e2e_patterns import Reading as Reading
from agggen.verification.normal import Span, containing

SLOTS = ("name", "eatType", "food", "priceRange", "customerRating", "area", "familyFriendly", "near")  # in corpus order
VERSION = 1  # of the patterns, for signatures of scores; must be increased when a pattern changes

_SLOT_BY_KEY = {slot.lower(): slot for slot in SLOTS} | {"rating": "customerRating"}
Slots = Mapping[str, tuple[str, ...]]  # the values of a record by slot, in the corpus reader's spelling
_UNIFORM_QUOTES_AND_DASHES = str.maketrans("\u2018\u2019\u00b4\u2010\u2011\u2012\u2013\u2014\u2212\u00a0", "'''------ ")


def _fold(text: str) -> str:
    """`text` in lower case, without accents, with one kind of quote and dash; character offsets do not change."""
    if text.isascii():
        return text.lower()
    folded = []
    for char in text.translate(_UNIFORM_QUOTES_AND_DASHES):
        base = unicodedata.normalize("NFD", char)[0].lower()
        folded.append(base if len(base) == 1 else char)
    return "".join(folded)


@lru_cache(maxsize=1 << 12)
def _value_key(value: str) -> str:
    """The normal form of a value for comparison: folded, with one spelling of "centre" and of ranges such as £20-25."""
    key = re.sub(r"\s+", " ", _fold(unicodedata.normalize("NFC", value))).strip()
    return re.sub(r"(?<=\d) ?- ?£? ?(?=\d)", "-", key.replace("center", "centre"))


@lru_cache(maxsize=1 << 12)
def _literal_pattern(slot: str, value: str) -> Pattern:
    """A pattern for the words of `value`, of which an initial ``the`` is optional."""
    words = re.findall(r"\w+|[^\w\s-]+", _fold(value)) or [_fold(value)]
    article = r"(?:the[\s-]+)?" if words[0] == "the" and len(words) > 2 else ""
    expression = r"[\s-]*".join(re.escape(word) for word in words[bool(article) :])
    return Pattern(slot, (value,), re.compile(rf"(?<!\w){article}{expression}(?!\w)"), cue=max(words, key=len))


_PATTERNS = (
    *PATTERNS,
    *(_literal_pattern("name", name) for name in NAMES),
    *(_literal_pattern("near", place) for place in PLACES),
)
_READINGS: dict[Reading, tuple[Pattern, ...]] = {
    "published": tuple(pattern for pattern in _PATTERNS if pattern.reading != "plain"),
    "plain": tuple(pattern for pattern in _PATTERNS if pattern.reading != "published"),
}
_CANONICAL_VALUES = {(pattern.slot, _value_key(value)): value for pattern in _PATTERNS for value in pattern.values}


def canonical(slot: str, value: str) -> str:
    """`value` in the spelling of the patterns; unchanged if it has no patterns."""
    return _CANONICAL_VALUES.get((slot, _value_key(value)), value)


def has_patterns(slot: str, value: str) -> bool:
    """Whether there are patterns for `value`; otherwise only its `_literal_pattern` matches."""
    return (slot, _value_key(value)) in _CANONICAL_VALUES


def _mentions(text: str, slots: Slots, reading: Reading) -> dict[tuple[str, str], Span]:
    """By (slot, value) that `text` (in Unicode form NFC) mentions: the span of the first mention, in text order. Of
    several meanings, a phrase has the first one in `slots`, else the first one mentioned earlier, else the first.
    """
    values = ((slot, value) for slot in slots for value in slots[slot])
    record_patterns = tuple(_literal_pattern(slot, value) for slot, value in values if not has_patterns(slot, value))
    matches: list[tuple[Span, Pattern]] = []
    for span, patterns in _matches(_fold(text), reading, record_patterns):
        compatible = [pattern for pattern in patterns if set(pattern.values) & set(slots.get(pattern.slot, ()))]
        matches += ((span, pattern) for pattern in compatible or patterns[:1])
    slots_with_clear_phrase = {pattern.slot for _, pattern in matches if not pattern.vague}
    spans: dict[tuple[str, str], Span] = {}
    for span, pattern in matches:
        if pattern.values and not (pattern.vague and pattern.slot in slots_with_clear_phrase):
            in_record = (value for value in pattern.values if value in slots.get(pattern.slot, ()))
            mentioned = (value for value in pattern.values if (pattern.slot, value) in spans)
            value = next(chain(in_record, mentioned, pattern.values))
            spans.setdefault((pattern.slot, value), span)
    return spans


def expresses(text: str, slot: str, value: str) -> bool:
    """Whether `text` expresses `value` of `slot`, in the plain reading."""
    value = canonical(slot, value)
    return (slot, value) in _mentions(unicodedata.normalize("NFC", text), {slot: (value,)}, "plain")


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


@dataclass(frozen=True, slots=True)
class SlotError:
    """A difference between a record and its text."""

    slot: str
    value: str | None  # the record's value; None for an added value
    said: str | None  # the text's value; None for a missed value, as are phrase and span
    phrase: str | None  # the text's phrase for `said`
    span: tuple[int, int] | None  # the characters ``[start, end)`` of the phrase in the text (Unicode form NFC)

    def __str__(self) -> str:
        if self.said is None:
            return f"{self.slot}: {self.value!r} is missing"
        record = "nothing" if self.value is None else repr(self.value)
        return f"{self.slot}: {self.phrase!r} means {self.said!r}, the record has {record}"


@dataclass(frozen=True, slots=True)
class SlotErrors:
    """The slot errors of one text."""

    added: tuple[SlotError, ...]
    missed: tuple[SlotError, ...]
    wrong: tuple[SlotError, ...]
    slots: int  # the number of the record's values, its name included

    @property
    def all(self) -> tuple[SlotError, ...]:
        """The wrong, then the missed, then the added values."""
        return (*self.wrong, *self.missed, *self.added)


def _slots_of(record: Record) -> dict[str, tuple[str, ...]]:
    """The values of an E2E record by slot; its subject, if any, is the name."""
    slots: dict[str, dict[str, None]] = defaultdict(dict)  # ordered sets
    for triple in record.triples:
        slot = slot_of(triple.predicate)
        if slot is None:
            raise RecordError(
                f"record {record.id!r}: {triple.predicate!r} is not a slot of E2E; its slots are {', '.join(SLOTS)}"
            )
        if triple.subject != NO_SUBJECT:
            slots["name"][canonical("name", triple.subject)] = None
        slots[slot][canonical(slot, triple.object)] = None
    return {slot: tuple(slots[slot]) for slot in SLOTS if slot in slots}


def slot_of(predicate: str) -> str | None:
    """The slot of a predicate such as ``customerRating`` or ``customer rating``; None if it is not a slot of E2E."""
    return _SLOT_BY_KEY.get(re.sub(r"_\d+$|[\W_]", "", predicate.strip().lower()))


def slot_errors(record: Record, text: str, reading: Reading = "published") -> SlotErrors:
    """The slot errors of a text about `record`; raises RecordError for predicates that are not slots of E2E."""
    slots = _slots_of(record)
    text = unicodedata.normalize("NFC", text)
    mentions = _mentions(text, slots, reading)
    added: list[SlotError] = []
    missed: list[SlotError] = []
    wrong: list[SlotError] = []
    for slot in SLOTS:
        values = slots.get(slot, ())
        unmentioned = [value for value in values if (slot, value) not in mentions]
        unsupported = [(said, span) for (name, said), span in mentions.items() if name == slot and said not in values]
        for value, mention in zip_longest(unmentioned, unsupported):
            if mention is None:
                missed.append(SlotError(slot, value, None, None, None))
            else:
                said, span = mention
                error = SlotError(slot, value, said, text[slice(*span)], span)
                (added if value is None else wrong).append(error)
    return SlotErrors(tuple(added), tuple(missed), tuple(wrong), sum(map(len, slots.values())))
