"""The lenient check: which triples a text mentions, by the words of their objects, without a model.

A triple is mentioned if the text contains at least 60 % of the words of its object, in any order; an incomplete value
may pass. ``agggen.verification.check`` is the strict check.

Words are normalised as by the aligner (accents, case, camelCase, underscores, thousands separators, dates, stems). In
addition, number words up to twenty become digits, numbers are split from units (``18g``), trailing zeros (75.30) are
removed, and initials, codes (``C-130``) and compounds match with and without dots or hyphens. Remarks in brackets, a
unit after a number, and generic heads (``English_language``) are optional; words after a comma have half weight. An
acronym (``MIT``) may replace a name of at least three words. Values of E2E's slots match by the phrases of ``e2e``.


On the development sets of WebNLG, E2E and cleaned E2E, the references mention 97.2, 90.9 and 99.2 % of the triples by
this check (E2E's references omit 7 % of the slots), and 1.3, 7.6 and 6.3 % of triples with another object.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from agggen.alignment import words
from agggen.records import Record, Triple
from agggen.verification.e2e import expresses, has_patterns, slot_of
from agggen.verification.normal import SMALL_NUMBERS, fold

THRESHOLD = 0.6  # the fraction of an object's words that a text must contain

_REMARK = re.compile(r"\s*\([^)]*\)")  # optional: "Bolt (comicsCharacter)", "75.3 (square kilometres)"
# number words that the aligner does not normalise
_NUMBER_WORDS = {word: str(number) for number, word in enumerate((*SMALL_NUMBERS[13:], "twenty"), start=13)}
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
class MentionCheck:
    """Whether a text mentions a triple, and the reason."""

    triple: Triple
    mentioned: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Mentions:
    """Which triples of its record a text mentions, in the record's order."""

    checks: tuple[MentionCheck, ...]

    @property
    def missing(self) -> tuple[Triple, ...]:
        """The triples that the text does not mention."""
        return tuple(check.triple for check in self.checks if not check.mentioned)


def find_mentions(record: Record, text: str) -> Mentions:
    """Checks for each triple of `record` whether `text` mentions it."""
    return Mentions(tuple(_check_triple(triple, text) for triple in record.triples))


def _check_triple(triple: Triple, text: str) -> MentionCheck:
    """For the values "yes" and "no", the words of the predicate must occur; negation is ignored."""
    slot = slot_of(triple.predicate)
    if slot is not None and has_patterns(slot, triple.object):
        mentioned = expresses(text, slot, triple.object)
        return MentionCheck(triple, mentioned, f"{'a' if mentioned else 'no'} phrase for {slot} {triple.object!r}")
    weights, literal, acronym, final_letter = _target(triple.object)
    if triple.object.lower() in ("yes", "no"):
        weights = dict.fromkeys(words(triple.predicate), 1.0)
    if not weights:  # function words or punctuation only
        mentioned = literal.casefold() in text.casefold()
        return MentionCheck(triple, mentioned, f"{literal!r} {'occurs' if mentioned else 'does not occur'}")
    text_words, acronyms = _text_words(text)
    if acronym in acronyms:
        return MentionCheck(triple, True, f"acronym {acronym}")
    if final_letter is not None and not final_letter.search(text):
        return MentionCheck(triple, False, f"{literal!r} does not occur with its last letter")
    absent = [word for word in weights if word not in text_words]
    share = 1 - sum(weights[word] for word in absent) / sum(weights.values())
    reason = f"{100 * share:.0f} % of its words" + (f"; missing: {', '.join(absent)}" if absent else "")
    return MentionCheck(triple, share >= THRESHOLD - 1e-9, reason)


def _normal(text: str) -> str:
    text = _NUMBER_WORD.sub(lambda match: _NUMBER_WORDS[fold(match[0])], text.replace("_", " "))
    text = _INITIALS.sub(lambda match: re.sub("[. ]", "", match[0]) + " ", text)
    text = _FIGURE_AND_UNIT.sub(r"\1 ", _CODE.sub(r"\1", text))
    return _FINAL_ZEROS.sub(lambda match: match[1].rstrip("."), _WORD_AND_FIGURE.sub(" ", text))


@lru_cache(maxsize=1 << 12)
def _text_words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a text in normal form, and its acronyms."""
    normal = _normal(text)
    forms = set(words(normal))
    for compound in _COMPOUND.finditer(normal):  # bi-monthly, bimonthly
        forms.update(words(compound[1] + compound[2]))
    for date in _AMERICAN_DATE.finditer(normal):  # the aligner assumes day before month
        forms.update(words(f"{date[3]}-{date[1]}-{date[2]}"))
    return frozenset(forms), frozenset(_CAPITALS.findall(normal))


@lru_cache(maxsize=1 << 14)
def _target(value: str) -> tuple[dict[str, float], str, str | None, re.Pattern[str] | None]:
    """(weights of an object's words, literal without remarks, acronym, expression for a last letter: Serie A)."""
    literal = _REMARK.sub("", value).strip().strip('"') or value
    normal = re.sub(r"(?<=\d),(?=\d{3}\b)", "", _UNIT.sub("", _normal(literal)))
    head, _, qualifier = normal.partition(",")
    head_words = words(head)
    weights = dict.fromkeys(head_words, 1.0)
    if len(weights) > 1 and head_words[-1] in _GENERIC_HEADS:
        del weights[head_words[-1]]
    for word in words(qualifier):
        weights.setdefault(word, 1.0 if word.isdigit() else 0.5)
    capitals = "".join(word[0] for word in re.findall(r"\w+", head) if word[0].isupper())
    letter = None
    if (last := _LAST_LETTER.search(head)) and not words(last[2]):
        letter = re.compile(rf"\b{re.escape(last[1])}[\s_-]+{last[2]}\b", re.IGNORECASE)
    return weights, literal, capitals if len(capitals) > 2 else None, letter
