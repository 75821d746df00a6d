"""Slot errors of texts generated from E2E records, and their rate over a corpus (Dušek, Howcroft and Rieser 2019).

For each slot, values that only the record has are paired with values that only the text has. A pair is a *wrong* value;
the remaining values are *missed* or *added*. Repeated mentions count once. The slot error rate is the number of errors
divided by the number of the records' values, names included.

The reading "published" imitates the scorer of the published numbers, as inferred from the annotated values of cleaned
E2E. It has fewer phrases ("mid-priced" has no meaning, "aren't child friendly" means yes) and attaches an adjective to
a noun shortly before it ("a high price range and an average customer rating" also means an average price). It finds
exactly the annotated values in 96.4 % of the 4,299 development texts and in 94.9 % of the 33,525 training texts, from
which no phrases were collected, and reproduces the AggGen paper's numbers for its E2E outputs. The reading "plain"
interprets phrases as people do; use it for generated texts. It finds a quarter of the values annotated as missed.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import zip_longest

from agggen.errors import RecordError
from agggen.records import NO_SUBJECT, Record
from agggen.verification.e2e.matching import Mention, canonical, mentions
from agggen.verification.e2e.patterns import Reading

SLOTS = ("name", "eatType", "food", "priceRange", "customerRating", "area", "familyFriendly", "near")
"""The slots of E2E in the corpus's order and the corpus reader's spelling."""

VERSION = 1
"""Version of the patterns, for signatures of scores; must be increased when a pattern changes."""

_SLOT_BY_KEY = {slot.lower(): slot for slot in SLOTS} | {"rating": "customerRating"}


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


def slots_of(record: Record) -> dict[str, tuple[str, ...]]:
    """The values of an E2E record by slot; its subject, if any, is the name.
    Predicates may be spelled as in the corpus (``customerRating``) or ``customer rating``, ``customer_rating``.
    """
    slots: dict[str, list[str]] = {}
    for triple in record.triples:
        slot = slot_of(triple.predicate)
        if slot is None:
            raise RecordError(
                f"record {record.id!r}: {triple.predicate!r} is not a slot of E2E; its slots are {', '.join(SLOTS)}"
            )
        name = [] if triple.subject == NO_SUBJECT else [("name", triple.subject)]
        for key, value in (*name, (slot, triple.object)):
            values = slots.setdefault(key, [])
            if (value := canonical(key, value)) not in values:
                values.append(value)
    return {slot: tuple(slots[slot]) for slot in SLOTS if slot in slots}


def slot_of(predicate: str) -> str | None:
    """The slot of a predicate, in the corpus reader's spelling; None if the predicate is not a slot of E2E."""
    return _SLOT_BY_KEY.get(re.sub(r"_\d+$|[\W_]", "", predicate.strip().lower()))


def slot_errors(record: Record, text: str, reading: Reading = "published") -> SlotErrors:
    """The slot errors of a text about `record`.

    Raises:
        RecordError: the record has a predicate that is not a slot of E2E.
    """
    slots = slots_of(record)
    text = unicodedata.normalize("NFC", text)
    mentioned: dict[str, dict[str, Mention]] = {}
    for mention in mentions(text, slots, reading):
        mentioned.setdefault(mention.slot, {}).setdefault(mention.value, mention)
    added: list[SlotError] = []
    missed: list[SlotError] = []
    wrong: list[SlotError] = []
    for slot in SLOTS:
        unmentioned = [value for value in slots.get(slot, ()) if value not in mentioned.get(slot, {})]
        unsupported = [
            mention for value, mention in mentioned.get(slot, {}).items() if value not in slots.get(slot, ())
        ]
        for value, mention in zip_longest(unmentioned, unsupported):
            if mention is None:
                missed.append(SlotError(slot, value, None, None, None))
            else:
                error = SlotError(slot, value, mention.value, text[slice(*mention.span)], mention.span)
                (added if value is None else wrong).append(error)
    return SlotErrors(tuple(added), tuple(missed), tuple(wrong), sum(map(len, slots.values())))
