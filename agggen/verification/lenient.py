"""The lenient check: which triples a text mentions, by the words of their objects; no model is needed.

A triple is mentioned if at least 60 % of its value's words are there, in any order: a lenient reading, which a value
said in part may pass. ``check`` is the strict one.

Text and object are brought to one form first: the aligner's words (accents, case, camelCase, underscores, thousands
marks, dates, stems) and, on top of them, number words up to twenty, figures apart from their units (``18g``), final
zeros (75.30), initials with and without dots, codes (``C-130``) and compounds with and without a hyphen. What people
leave out need not be said: remarks in brackets (``75.3 (square kilometres)``), a unit behind a figure, and generic
heads (``English_language``); what stands behind a comma (``Glen_Ridge,_New_Jersey``) counts half. Capitals may stand
for a name of three words or more (``MIT``).

The values of E2E have other words in texts ("kid friendly"), so a triple of its slots is looked for with the phrases
of ``agggen.verification.e2e``, in the plain reading, where these know the value.

Measured on the references of the development sets, in percent: triples found, and triples found after their object was
replaced by another one that the predicate has in the corpus (never one of the same words, or of the same record).

=================  =====  ========  =====================================
corpus             found  replaced  by the aligner's words alone
=================  =====  ========  =====================================
WebNLG 2017        97.2   1.3       95.5 and 1.4
E2E                90.9   7.6       85.3 and 17.6
E2E cleaned        99.2   6.3       93.8 and 15.9
=================  =====  ========  =====================================

On WebNLG's training texts, which no rule was made from, 97.2 and 1.4 (by the aligner's words 95.9 and 1.5).

People leave things out, and err: by the annotation that made E2E cleaned, 7 % of E2E's slots are missing from its own
references. Most of what is found of E2E's replaced objects are other names of the same thing (low, 1 out of 5), which
people interchange; without these it is 1.7 % (E2E) and 1.0 % (cleaned).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from agggen.alignment import words
from agggen.records import Record, Triple
from agggen.scores import Score
from agggen.verification.e2e import known, says, slot_of
from agggen.verification.results import check_paired

THRESHOLD = 0.6
"""The share of an object's words that a text must hold. At 0.67 WebNLG's shares above are 96.5 and 0.7 %."""

_REMARK = re.compile(r"\s*\([^)]*\)")  # "Bolt (comicsCharacter)", "75.3 (square kilometres)": not said in the text
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"), start=13
    )  # the aligner's words know those up to twelve
}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.IGNORECASE)
_INITIALS = re.compile(r"(?<![\w.])[A-Z](?:\.? ?[A-Z]\b)+\.?")
_CODE = re.compile(r"\b([A-Za-z]{1,3})-(?=\d)")
_FIGURE_AND_UNIT = re.compile(r"(?<![\w.])(\d+(?:[.,]\d+)*)(?!(?:st|nd|rd|th)\b)(?=[A-Za-z]{1,3}\b)")
_WORD_AND_FIGURE = re.compile(r"(?<=[a-z])(?=\d{3})")
_FINAL_ZEROS = re.compile(r"(?<=\d)(\.\d*?)0+(?!\d)")
_COMPOUND = re.compile(r"\b([^\W\d_]+)-([^\W\d_]+)\b")
_AMERICAN_DATE = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.](\d{4})\b")
_CAPITALS = re.compile(r"\b[A-Z]{3,}\b")
_UNIT = re.compile(r"(?<=\d) (?:g|kg|mg|m|km|cm|mm|ft|mi|ha|s|min|h|kJ|kcal)$")
_LAST_LETTER = re.compile(r"(\w+) ([A-Za-z])$")
_GENERIC_HEADS = frozenset(words("language people"))


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a text mentions a triple, and by what."""

    triple: Triple
    mentioned: bool
    why: str


@dataclass(frozen=True, slots=True)
class Mentions:
    """What a text mentions of its record, triple by triple in the record's order."""

    checks: tuple[Check, ...]

    @property
    def missing(self) -> tuple[Triple, ...]:
        """The triples that the text does not mention."""
        return tuple(check.triple for check in self.checks if not check.mentioned)

    @property
    def complete(self) -> bool:
        """Whether the text mentions all triples."""
        return all(check.mentioned for check in self.checks)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a text must say to mention an object."""

    weights: dict[str, float]
    """Words in the aligner's normal form; empty if the object has none."""
    literal: str
    """The object as it stands, without remarks."""
    capitals: str | None
    """What may stand for it: MIT."""
    letter: re.Pattern[str] | None
    """Its last words, where the last is a single letter that is no word: Serie A."""


def verify(record: Record, text: str, threshold: float = THRESHOLD) -> Mentions:
    """Looks for each triple of `record` in `text`."""
    return Mentions(tuple(_check(triple, text, threshold) for triple in record.triples))


def mentioned(triple: Triple, text: str, threshold: float = THRESHOLD) -> bool:
    """Whether `text` says the object of `triple`: at least `threshold` of its words, or one of E2E's phrases for it.

    "yes" and "no" are never said, so for them the words of the predicate must be there; whether the text affirms or
    denies them is looked at for E2E's familyFriendly alone.
    """
    return _check(triple, text, threshold).mentioned


def mentioned_values(
    records: Sequence[Record], texts: Sequence[str], threshold: float = THRESHOLD
) -> tuple[Score, list[Mentions]]:
    """The share of all triples, in percent, that the text of their record mentions; and what each text mentions.

    Raises:
        AggGenError: not one text a record, or no records.
    """
    check_paired(records, texts)
    found = [verify(record, text, threshold) for record, text in zip(records, texts, strict=True)]
    triples = sum(len(one.checks) for one in found)
    share = 1 - sum(len(one.missing) for one in found) / triples
    label = f"values mentioned (lenient: {threshold:.0%} of the words)".replace("%", " %")
    return Score(100 * share, f"{label}|words:normal,e2e:phrases|threshold:{threshold}|triples:{triples}"), found


def _check(triple: Triple, text: str, threshold: float) -> Check:
    slot = slot_of(triple.predicate)
    if slot is not None and known(slot, triple.object):
        said = says(text, slot, triple.object)
        return Check(triple, said, f"{'a' if said else 'no'} phrase for {slot} {triple.object!r}")
    wanted = _wanted(triple.object)
    weights = wanted.weights
    if triple.object.lower() in ("yes", "no"):
        weights = dict.fromkeys(words(triple.predicate), 1.0)
    if not weights:  # nothing but function words or signs
        said = wanted.literal.casefold() in text.casefold()
        return Check(triple, said, f"{wanted.literal!r} is {'' if said else 'not '}there")
    held, capitals = _held(text)
    if wanted.capitals in capitals:
        return Check(triple, True, f"{wanted.capitals} stands for it")
    absent = [word for word in weights if word not in held]
    share = 1 - sum(weights[word] for word in absent) / sum(weights.values())
    if wanted.letter is not None and not wanted.letter.search(text):
        return Check(triple, False, f"{wanted.literal!r} is not there with its last letter")
    why = f"{100 * share:.0f} % of its words" + (f"; not there: {', '.join(absent)}" if absent else "")
    return Check(triple, share >= threshold - 1e-9, why)


def _normal(text: str) -> str:
    text = _NUMBER_WORD.sub(lambda match: _NUMBER_WORDS[match.group().lower()], text.replace("_", " "))
    text = _INITIALS.sub(lambda match: re.sub("[. ]", "", match.group()) + " ", text)
    text = _FIGURE_AND_UNIT.sub(r"\1 ", _CODE.sub(r"\1", text))
    return _FINAL_ZEROS.sub(lambda match: match.group(1).rstrip("."), _WORD_AND_FIGURE.sub(" ", text))


@lru_cache(maxsize=1 << 12)
def _held(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a text in normal form, and its words in capitals."""
    normal = _normal(text)
    held = set(words(normal))
    for compound in _COMPOUND.finditer(normal):  # bi-monthly, bimonthly
        held.update(words(compound.group(1) + compound.group(2)))
    for date in _AMERICAN_DATE.finditer(normal):  # the aligner reads these the European way
        held.update(words(f"{date.group(3)}-{date.group(1)}-{date.group(2)}"))
    return frozenset(held), frozenset(_CAPITALS.findall(normal))


@lru_cache(maxsize=1 << 14)
def _wanted(value: str) -> _Wanted:
    literal = _REMARK.sub("", value).strip().strip('"') or value
    normal = re.sub(r"(?<=\d),(?=\d{3}\b)", "", _UNIT.sub("", _normal(literal)))
    head, _, qualifier = normal.partition(",")
    names = words(head)
    weights = dict.fromkeys(names, 1.0)
    if len(weights) > 1 and names[-1] in _GENERIC_HEADS:
        del weights[names[-1]]
    for word in words(qualifier):
        weights.setdefault(word, 1.0 if word.isdigit() else 0.5)
    capitals = "".join(word[0] for word in re.findall(r"\w+", head) if word[0].isupper())
    last = _LAST_LETTER.search(head)
    letter = None
    if last and not words(last.group(2)):
        letter = re.compile(rf"\b{re.escape(last.group(1))}[\s_-]+{last.group(2)}\b", re.IGNORECASE)
    return _Wanted(weights, literal, capitals if len(capitals) > 2 else None, letter)
