"""Slot errors of texts written from E2E records, and their rate over a corpus (Dusek, Howcroft and Rieser 2019).

For each slot, the values that the record has and the text lacks are set against those that the text has and the
record lacks: pairs of both are *wrong*, what remains is *missed* or *added*. A value counts once, however often the
text says it. The slot error rate is the sum of the three over the number of the records' values; names count too.

There are two readings. "published" counts what the published numbers count, as far as the annotation of the cleaned
development set shows it: it knows fewer phrases ("mid-priced" says nothing, "aren't child friendly" says yes) and takes
an adjective for a noun shortly before it ("a high price range and an average customer rating" says an average price,
too). "plain" reads as people do and is what a writer should be judged by.

Against that annotation, "published" finds exactly the same values in 96.4 % of the 4,299 development texts and in
94.9 % of the 33,525 training texts, which were never read while the phrases were written. Added, missed, wrong in
percent, ours and the annotation's: 1.57 7.06 .98 and 1.61 7.22 .95; on the training texts 4.89 7.65 1.25 and 4.93 7.85
1.27. On the AggGen paper's E2E outputs its printed values come out to the last digit. "plain" finds on the development
texts 1.30 5.52 .78: people do say a quarter of what the annotation misses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agggen.errors import AggGenError, RecordError
from agggen.records import NO_SUBJECT, Record
from agggen.scores import Score
from agggen.verification.e2e.matching import Mention, canonical, mentions
from agggen.verification.e2e.patterns import Reading

SLOTS = ("name", "eatType", "food", "priceRange", "customerRating", "area", "familyFriendly", "near")
"""The slots of E2E in its own order, in the corpus reader's spelling."""

VERSION = 1
"""Of the patterns, for the signature: raised when they change."""

_BY_KEY = {slot.lower(): slot for slot in SLOTS} | {"rating": "customerRating"}


@dataclass(frozen=True, slots=True)
class SlotError:
    """One value that a record and its text do not share."""

    slot: str
    value: str | None
    """The record's value; None if the text added it."""
    said: str | None
    """The text's value; None if it says nothing of the slot."""
    phrase: str | None
    """The words of the text that say so."""
    span: tuple[int, int] | None
    """Where they stand in the text (in Unicode's NFC form)."""

    def __str__(self) -> str:
        if self.said is None:
            return f"{self.slot}: the text does not say {self.value!r}"
        record = "nothing" if self.value is None else repr(self.value)
        return f"{self.slot}: {self.phrase!r} says {self.said!r}, the record {record}"


@dataclass(frozen=True, slots=True)
class SlotErrors:
    """What is wrong with one text."""

    added: tuple[SlotError, ...]
    missed: tuple[SlotError, ...]
    wrong: tuple[SlotError, ...]
    slots: int
    """How many slots the record has, its name among them if it has one."""

    @property
    def all(self) -> tuple[SlotError, ...]:
        return (*self.wrong, *self.missed, *self.added)


def slots_of(record: Record) -> dict[str, tuple[str, ...]]:
    """The values of each slot of an E2E record; the subject, if there is one, is its name.

    Predicates may be written as in the corpus (``customerRating``) or like ``customer rating``, ``customer_rating``.

    Raises:
        RecordError: a predicate that is no slot of E2E.
    """
    slots: dict[str, list[str]] = {}
    for triple in record.triples:
        slot = slot_of(triple.predicate)
        if slot is None:
            raise RecordError(
                f"record {record.id!r}: {triple.predicate!r} is no slot of E2E; its slots are {', '.join(SLOTS)}"
            )
        for key, value in (("name", triple.subject), (slot, triple.object))[triple.subject == NO_SUBJECT :]:
            values = slots.setdefault(key, [])
            if (value := canonical(key, value)) not in values:
                values.append(value)
    return {slot: tuple(slots[slot]) for slot in SLOTS if slot in slots}


def slot_of(predicate: str) -> str | None:
    """The slot a predicate names, in the corpus reader's spelling; None if it is none of E2E's."""
    return _BY_KEY.get(re.sub(r"_\d+$|[\W_]", "", predicate.strip().lower()))


def slot_errors(record: Record, text: str, reading: Reading = "published") -> SlotErrors:
    """Compares `text` with what `record` says.

    Raises:
        RecordError: the record has a predicate that is no slot of E2E.
    """
    slots = slots_of(record)
    text = unicodedata.normalize("NFC", text)
    said: dict[str, dict[str, Mention]] = {}
    for mention in mentions(text, slots, reading):
        said.setdefault(mention.slot, {}).setdefault(mention.value, mention)
    added: list[SlotError] = []
    missed: list[SlotError] = []
    wrong: list[SlotError] = []
    for slot in SLOTS:
        lacking = [value for value in slots.get(slot, ()) if value not in said.get(slot, {})]
        foreign = [mention for value, mention in said.get(slot, {}).items() if value not in slots.get(slot, ())]
        pairs = min(len(lacking), len(foreign))
        wrong += [_error(slot, text, value, mention) for value, mention in zip(lacking, foreign, strict=False)]
        missed += [_error(slot, text, value, None) for value in lacking[pairs:]]
        added += [_error(slot, text, None, mention) for mention in foreign[pairs:]]
    return SlotErrors(tuple(added), tuple(missed), tuple(wrong), sum(map(len, slots.values())))


def _error(slot: str, text: str, value: str | None, mention: Mention | None) -> SlotError:
    if mention is None:
        return SlotError(slot, value, None, None, None)
    return SlotError(slot, value, mention.value, text[mention.start : mention.end], (mention.start, mention.end))


def slot_error_rate(
    records: Sequence[Record], texts: Sequence[str], reading: Reading = "published"
) -> dict[str, Score]:
    """The slot error rate and its parts, in percent of the records' slots, one text a record.

    Returns:
        ``ser.add``, ``ser.miss``, ``ser.wrong`` and their sum ``ser.ser``.

    Raises:
        AggGenError: not one text a record, or no records.
        RecordError: a record has a predicate that is no slot of E2E.
    """
    if len(records) != len(texts):
        raise AggGenError(f"{len(records)} records but {len(texts)} texts; there must be one text a record")
    if not records:
        raise AggGenError("there are no records to count slot errors of")
    found = [slot_errors(record, text, reading) for record, text in zip(records, texts, strict=True)]
    total = sum(errors.slots for errors in found)
    counts = {
        "add": sum(len(errors.added) for errors in found),
        "miss": sum(len(errors.missed) for errors in found),
        "wrong": sum(len(errors.wrong) for errors in found),
    }
    counts["ser"] = sum(counts.values())
    signature = f"patterns:{VERSION}|reading:{reading}|slots:{total}|texts:{len(texts)}"
    return {f"ser.{part}": Score(100 * n / total, f"ser.{part}|{signature}") for part, n in counts.items()}
