"""The wordings that say a value whole, by rule: as it stands, without its remark, in other numbers and spellings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agggen.text.linearise import entity_words
from agggen.verification.normal import MONTHS, READINGS, Reading, Word, letters, words

How = Literal["literal", "rule", "lexicon", "phrase"]

FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a along also an and are as at be been but by can did do for from had has have he her his i if in is it its "
        "may me my no not of on or our out she so than that the them then there these they this to up us was we were "
        "what when where which who whom whose will with yes you your one",
    )
)
"""Words that stand in any text; a value made of them alone is compared with its capitals."""

OPENERS = frozenset(
    re.findall(
        r"\w+",
        "accordingly additionally afterwards although another because besides consequently conversely currently "
        "despite due during each every finally formerly further furthermore hence here however incidentally indeed "
        "initially instead interestingly lastly later likewise meanwhile moreover nevertheless nobody nonetheless "
        "nothing now originally otherwise overall previously recently secondly similarly since some sometimes "
        "still such therefore though through throughout thus today together typically under unlike until usually "
        "while within yet",
    )
)
"""Words that open a sentence with a capital and are no names."""

_REMARK = re.compile(r"\s*\([^()]{0,100}\)")
_REMARK_MARKS = re.compile(r"[()]")
_NEGATIONS = frozenset(("not", "no", "non", "never", "without", "isn", "doesn", "don", "aren", "isnt", "doesnt", "t"))
_NEXT_SENTENCE = re.compile(r"[a-z0-9)][a-z0-9)][.!?][\"')\u201d]*\s+[\"'(\u201c]*[A-Z]")
_SEASON = re.compile(r"(\d{4}(?:[-\u2013]\d{2,4})?) (.+)")
_YEARS = re.compile(r"^(\d\d)(\d\d)([-\u2013])(\d\d)$")
_LONGEST_REWORDED = 200
_CONNECTORS = ("in", "of", "at", "and", "on", "by", "with")
_GENERIC_HEADS = ("language", "languages", "people", "architecture", "cuisine", "area")
COUNTRIES = {
    "United States": ("US", "U.S.", "USA", "U.S.A.", "United States of America"),
    "United Kingdom": ("UK", "U.K."),
}
_DETERMINERS = frozenset(("the", "this", "that", "each", "every", "any", "another", "no", "some", "which"))
_LETTER_BEFORE = re.compile(r"\b[^\W\d_]\.$")
_LETTER_BEHIND = re.compile(r"\.[^\W\d_]\b")
_MONEY = re.compile(r"[$\u00a3\u20ac\u00a5]")
_ISO_DATE = re.compile(r"^(\d{4})-(0?[1-9]|1[0-2])-(0?[1-9]|[12]\d|3[01])$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Way:
    """A wording of a value."""

    strings: tuple[str, ...]
    """Its `letters`, one for each reading."""
    how: How
    dates: bool
    """Whether dates are read as one word."""
    exact: tuple[str, ...] = ()
    """The words as they must be written, where capitals decide; else empty."""
    unit: str = ""
    """What a unit behind it must be, if one stands there: the one in the value's remark (``(square metres)``)."""
    remark: str = ""
    """The letters of the value's remark where this wording leaves it out; no other remark may follow."""
    money: str = ""
    """Its currency signs; no other may stand there."""
    negated: bool | None = None
    """Whether a negation must stand before it, or must not; None: that does not matter."""

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two ways the same."""
        return self.strings, self.exact, self.dates, self.negated


class Sides:
    """A text read with whole dates and with dates taken apart."""

    def __init__(self, text: str, initial: bool = True) -> None:
        self.text = text
        self.whole = Reading(words(text, initial, dates=True))
        dated = any(word.kind == "date" for word in self.whole.words)
        self.apart = Reading(words(text, initial, dates=False)) if dated else self.whole

    def places(self, way: Way) -> set[tuple[int, int]]:
        """The characters ``[start, end)`` of the text at which `way` stands."""
        reading = self.whole if way.dates else self.apart
        found: set[tuple[int, int]] = set()
        for number, string in enumerate(way.strings):
            for first, last in reading.places(string, number):
                said, behind = reading.words[first:last], reading.words[last : last + 1]
                if len(said) == 1 and _pronoun(reading.words, first):
                    continue
                if way.exact and not self._exactly(said, way.exact):
                    continue
                if way.money and not self._money_fits(way, said):
                    continue
                if way.unit and behind and behind[0].kind == "unit" and behind[0].form != way.unit:
                    continue
                if way.remark and not self._remark_fits(way, said[-1].end):
                    continue
                if way.negated is not None and negated(reading.words, first) != way.negated:
                    continue
                found.add((said[0].start, said[-1].end))
        return found

    def _exactly(self, said: Sequence[Word], exact: tuple[str, ...]) -> bool:
        """Whether the words are written so: neither a unit, nor of a sentence's opening, nor a letter of ``U.S.``"""
        if "".join(word.raw for word in said) != "".join(exact) or said[0].kind == "unit":
            return False
        if len(exact) > 1:
            return True
        one = said[0]
        short = _LETTER_BEFORE.search(self.text, max(0, one.start - 3), one.start) or _LETTER_BEHIND.match(
            self.text, one.end
        )
        return not short and not (one.initial and one.form in FUNCTION_WORDS)

    def _money_fits(self, way: Way, said: Sequence[Word]) -> bool:
        found = set(_MONEY.findall(self.text, max(0, said[0].start - 1), said[-1].end + 1))
        return not found or found == set(way.money)

    def _remark_fits(self, way: Way, end: int) -> bool:
        """Whether no other remark follows than the value's own: ``23rd Street (Queens)``."""
        remark = re.compile(r"\s*\(([^()]*)\)").match(self.text, end)
        return remark is None or letters(words(remark.group(1)), 0) in way.remark

    def one_sentence(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether two places stand in the same sentence."""
        start, end = min(one[1], other[1]), max(one[0], other[0])
        return _NEXT_SENTENCE.search(self.text, start, end + 1) is None


def _pronoun(said: Sequence[Word], index: int) -> bool:
    """Whether a word is no number: ``one of``, ``the one``."""
    if said[index].raw.lower() != "one":
        return False
    before = said[index - 1].form if index else ""
    return before in _DETERMINERS or any(word.form == "of" for word in said[index + 1 : index + 2])


def negated(said: Sequence[Word], first: int) -> bool:
    """Whether a negation is one of the three words before `first`."""
    return any(word.form in _NEGATIONS for word in said[max(0, first - 3) : first])


def way_of(text: str, how: How, unit: str = "", remark: str = "") -> Way | None:
    """The wording `text` of a value; None where no word is in it. ``not`` before a phrase is a negation."""
    negation = None
    if how == "phrase":
        negation, text = text.startswith("not "), text.removeprefix("not ")
    found = words(text)
    if not found:
        return None
    bare = [word for word in found if not word.optional]
    short = len(found) <= 2 and all(word.kind in ("word", "unit") and len(word.form) <= 2 for word in found)
    initials = how == "rule" and len(found) == 1 and found[0].raw.isupper()
    exact = short or initials or all(word.kind == "word" and word.form in FUNCTION_WORDS for word in bare)
    strings = tuple(letters(found, reading) for reading in range(READINGS))
    money = "".join(sorted(set(_MONEY.findall(text))))
    # a year is said by a date, a day is not
    dates = any(word.kind == "date" or (word.kind == "number" and len(word.form) < 3) for word in found)
    return Way(strings, how, dates, tuple(word.raw for word in found) if exact else (), unit, remark, money, negation)


def spellings(value: str) -> Iterator[str]:
    """The wordings of `value` as they are written, the literal one first."""
    literal = entity_words(value)
    yield literal
    if date := _ISO_DATE.match(literal):
        year, month, day = date.group(1), MONTHS[int(date.group(2)) - 1].capitalize(), int(date.group(3))
        yield from (f"{month} {day}, {year}", f"{day} {month} {year}", f"{month} {day} {year}")
        return
    shorter = _REMARK.sub("", literal).strip()
    for stem in dict.fromkeys((literal, shorter)):
        if stem:
            yield stem
            yield from _reworded(stem)


@lru_cache(maxsize=1 << 15)
def ways(value: str) -> tuple[Way, ...]:
    """The wordings of `value` by rule, the literal one first; empty where the value holds no word or number."""
    literal = entity_words(value)
    found: dict[object, Way] = {}
    units = [word.form for word in words(_REMARK_MARKS.sub(" ", literal)) if word.kind == "unit"]
    remark = "".join(letters(words(found), 0) for found in _REMARK.findall(literal))

    def add(text: str, how: How) -> None:
        if way := way_of(text, how, units[-1] if units else "", "" if "(" in text else remark):
            found.setdefault(way.key, way)

    add(literal, "literal")
    if date := _ISO_DATE.match(literal):
        year, month, day = date.groups()
        add(f"{int(day)} {int(month)} {year}", "rule")
        add(f"{int(month)} {int(day)} {year}", "rule")
        return tuple(found.values())
    for said in spellings(value):
        add(said, "rule")
    return tuple(found.values())


def _reworded(value: str) -> Iterator[str]:
    """Spellings of a value that say all of it: another number, a name in short, other words at a comma.

    Long values are said as they stand: each of their words would make more spellings.
    """
    if len(value) > _LONGEST_REWORDED:
        return
    if years := _YEARS.match(value):
        century, first, dash, second = years.groups()
        yield f"{century}{first}{dash}{century}{second}"
    head, _, last = value.rpartition(" ")
    if head and last in _GENERIC_HEADS:
        yield head
        yield f"{head}s"
    if len(last) > 2 and last.isalpha():
        yield f"{head} {last}s"
        yield f"{head} {last}es"
        if len(last) > 3 and last.endswith("s") and not last.endswith("ss"):
            yield f"{head} {last[:-1]}"
        if last.endswith("ia"):
            yield f"{head} {last}n"  # Indonesian
        if last.endswith("y"):
            yield f"{head} {last[:-1]}ies"
    capitals = [word[0] for word in re.findall(r"[^\W_]+", value) if word[0].isupper()]
    if len(capitals) > 2 and "," not in value:
        yield "".join(capitals)
    for full, shorts in COUNTRIES.items():
        if full in value:
            yield from (value.replace(full, short) for short in shorts)
    for said in re.finditer(r" (in|of|at) ", value):
        yield from (value[: said.start()] + f" {other} " + value[said.end() :] for other in ("in", "of", "at"))
    parts = [part.strip() for part in value.split(",")]
    if 2 <= len(parts) <= 4 and all(parts):
        for at in range(1, len(parts)):
            for connector in _CONNECTORS:
                yield ", ".join(parts[:at]) + f" {connector} " + ", ".join(parts[at:])
    elif len(parts) > 4 and all(parts):
        yield ", ".join(parts[:-1]) + f" and {parts[-1]}"
    slash = re.split(r"\s*/\s*", value)
    if len(slash) == 2 and all(slash):
        yield from (f" {connector} ".join(slash) for connector in ("and", "or"))
    if value.startswith("-") and value[1:2].isdigit():
        number, _, unit = value[1:].partition(" ")
        yield f"{number} {unit} below"


def parts(value: str, said: Collection[str] = ()) -> tuple[str, ...]:
    """A value taken apart where people say its parts in whatever order; empty where it is one.

    That is at commas (``Austin``, ``Texas``), at the number of a degree (``MIT``, ``Sc.D.``, ``1963``), behind a season
    (``2014-15``, ``Serie A``), and before the place in a name (``Prime Minister of Romania``) where `said`, what a
    record's other triples name, has it.
    """
    literal = _REMARK.sub("", entity_words(value)).strip()
    if "," in literal or re.search(r" (?:and|or) ", literal):
        listed = re.split(r",\s+(?:and |or )?| (?:and|or) ", literal)
        pieces = [piece for part in listed for piece in re.split(r"\s+(?=\d+$)", part)]
        return tuple(pieces) if len(pieces) > 1 and all(pieces) else ()
    if season := _SEASON.match(literal):
        return season.groups()
    for split in re.finditer(r" (?:in|of|at)(?: the)? ", literal):
        head, tail = literal[: split.start()], literal[split.end() :]
        if tail in said:
            return head, tail
    return ()
