"""The wordings of a value by rule (literal, without its remark in brackets, other spellings), and their mentions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Literal, get_args

from agggen.records import Record, Triple
from agggen.text.linearise import CAMEL_CASE, entity_words
from agggen.verification.normal import MONTHS, OMITTED, LetterIndex, Span, Word, letters, word_set, words

MatchKind = Literal["literal", "rule", "lexicon", "phrase"]
MATCH_KINDS: tuple[MatchKind, ...] = get_args(MatchKind)
Matches = Mapping[Span, MatchKind]  # by span of a text that mentions a value: the kind of wording

FUNCTION_WORDS = word_set(  # values that consist of these words are compared case-sensitively
    "a along also an and are as at be been but by can did do for from had has have he her his i if in is it its may "
    "me my no not of on or our out she so than that the them then there these they this to up us was we were what "
    "when where which who whom whose will with yes you your one"
)
OPINIONS = word_set(  # subjective adjectives, which people add although the record does not support them
    "acclaimed beautiful charming delicious famous iconic impressive legendary lovely nice notable popular "
    "prestigious renowned tasty traditional typical"
)
OPENERS = word_set(  # words that often begin a sentence, and are then not names
    "accordingly additionally afterwards although another because besides consequently conversely currently despite "
    "due during each every finally formerly further furthermore hence here however incidentally indeed initially "
    "instead interestingly lastly later likewise meanwhile moreover nevertheless nobody nonetheless nothing now "
    "originally otherwise overall previously recently secondly similarly since some sometimes still such therefore "
    "though through throughout thus today together typically under unlike until usually while within yet"
)

REMARK = re.compile(r"\s*\([^()]{0,100}\)")  # a remark in brackets: ``75.3 (square kilometres)``
_BRACKETS = re.compile(r"[()]")
_NEGATIONS = frozenset(("not", "no", "non", "never", "without", "isn", "doesn", "don", "aren", "isnt", "doesnt", "t"))
_NEXT_SENTENCE = re.compile(r"[a-z0-9)][a-z0-9)][.!?][\"')\u201d]*\s+[\"'(\u201c]*[A-Z]")
_YEARS = re.compile(r"^(\d\d)(\d\d)([-\u2013])(\d\d)$")
_MAX_REWORDED_CHARACTERS = 200  # longer values have no variants, since the number of variants grows with the length
_CONNECTORS = ("in", "of", "at", "and", "on", "by", "with")
_GENERIC_HEADS = ("language", "languages", "people", "architecture", "cuisine", "area")
COUNTRIES = {
    "United States": ("US", "U.S.", "USA", "U.S.A.", "United States of America"),
    "United Kingdom": ("UK", "U.K."),
}
_DETERMINERS = frozenset(("the", "this", "that", "each", "every", "any", "another", "no", "some", "which"))
_LETTER_BEFORE = re.compile(r"\b[^\W\d_]\.$")
_LETTER_AFTER = re.compile(r"\.[^\W\d_]\b")
_CURRENCY_SIGN = re.compile(r"[$£€¥]")
_CURRENCIES = {"yen": "¥", "dollar": "$", "dollars": "$", "pound": "£", "pounds": "£", "euro": "€", "euros": "€"}
_ISO_DATE = re.compile(r"^(\d{4})-(0?[1-9]|1[0-2])-(0?[1-9]|[12]\d|3[01])$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wording:
    """A wording of a value, with conditions on its context in a text."""

    strings: tuple[str, ...]  # the wording's `letters`, for each set of ``normal.OMITTED``
    kind: MatchKind
    dates: bool  # whether a date is one word of the text
    exact: tuple[str, ...] = ()  # the words to compare case-sensitively; empty if case is ignored
    unit: str = ""  # the unit in the value's remark, ``(square metres)``; another unit must not follow the match
    remark: str = ""  # the letters of the value's remark if this wording omits it; no other remark may follow the match
    money: str = ""  # the value's currency signs; other currency signs must not be adjacent to the match
    negated: bool | None = None  # whether a negation must (True) or must not (False) precede the match

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for wordings of a value that match the same spans."""
        return self.strings, self.exact, self.dates, self.negated


class TextIndex:
    """Finds wordings in a text, which begins a sentence if `initial`."""

    def __init__(self, text: str, initial: bool = True) -> None:
        self.text = text
        self.dates_joined = LetterIndex(words(text, initial))  # each date is one word
        self._starts = [word.start for word in self.dates_joined.words]
        self._ends = [word.end for word in self.dates_joined.words]
        dated = any(word.kind == "date" for word in self.dates_joined.words)
        self.dates_split = LetterIndex(words(text, initial, dates=False)) if dated else self.dates_joined

    def find(self, *wordings: Wording) -> set[Span]:
        """The spans, in characters ``[start, end)``, that match any of `wordings`."""
        return {span for wording in wordings for span in self._find(wording)}

    def find_name(self, name: str) -> set[Span]:
        """The spans that match a subject or object by rule, with or without the part after its first comma."""
        return self.find(*value_wordings(name), *value_wordings(entity_words(name).partition(", ")[0]))

    def _find(self, wording: Wording) -> Iterator[Span]:
        index = self.dates_joined if wording.dates else self.dates_split
        for first, last in index.find(wording.strings):
            match, following = index.words[first:last], index.words[last : last + 1]
            unit = following[0].form if following and following[0].kind == "unit" else ""
            if not (
                (len(match) == 1 and _is_pronoun(index.words, first))
                or (wording.exact and not self._same_spelling(match, wording, following))
                or (match[-1].kind == "word" and following and following[0].raw in ("+", "#"))  # C in C++
                or (wording.money and not self._same_currency(wording, match, following))
                or (wording.unit and unit and unit != wording.unit)
                or (wording.remark and not self._same_remark(wording, match[-1].end))
                or (wording.negated is not None and is_negated(index.words, first) != wording.negated)
            ):
                yield match[0].start, match[-1].end

    def covered(self, spans: Iterable[Span]) -> list[bool]:
        """Whether each word of `dates_joined` is within one of `spans`."""
        covered = [False] * len(self.dates_joined.words)
        for span in spans:
            if bounds := self.words_in(span):
                covered[slice(*bounds)] = [True] * (bounds[1] - bounds[0])
        return covered

    def words_in(self, span: Span) -> Span | None:
        """The indices ``[first, last)`` of the words of `dates_joined` in a span of characters; None without words."""
        first = bisect_left(self._starts, span[0])
        last = bisect_right(self._ends, span[1], first)
        return (first, last) if first < last else None

    def _same_spelling(self, match: Sequence[Word], wording: Wording, following: Sequence[Word]) -> bool:
        """Whether words that match a wording have its spelling. A single word must not be a unit or part of ``U.S.``; a
        function word must neither begin a sentence nor govern the next word ("the symbol In the periodic table").
        """
        surface, exact, word = "".join(word.raw for word in match), "".join(wording.exact), match[0]
        if wording.kind == "rule" and surface == exact.lower() and self.text.islower():  # uk, u.s., the us
            return word.form not in FUNCTION_WORDS or self.text[: word.start].endswith("the ")
        if surface != exact or word.kind == "unit":
            return False
        if len(wording.exact) > 1:
            return True
        before = _LETTER_BEFORE.search(self.text, max(0, word.start - 3), word.start)
        abbreviation = before or _LETTER_AFTER.match(self.text, word.end)
        if abbreviation or word.form not in FUNCTION_WORDS:
            return not abbreviation
        adjacent = [neighbour for neighbour in following if self.text[word.end : neighbour.start].isspace()]
        governs = any(neighbour.optional == "article" or neighbour.form not in FUNCTION_WORDS for neighbour in adjacent)
        return not word.initial and ((word.raw.isupper() and len(word.raw) > 1) or not governs)

    def _same_currency(self, wording: Wording, match: Sequence[Word], following: Sequence[Word]) -> bool:
        """Whether the currency signs and names in or beside the match, if any, are the value's."""
        signs = set(_CURRENCY_SIGN.findall(self.text, max(0, match[0].start - 1), match[-1].end + 1))
        signs |= {_CURRENCIES[word.form] for word in following if word.form in _CURRENCIES}
        return not signs or signs == set(wording.money)

    def _same_remark(self, wording: Wording, end: int) -> bool:
        """Whether a remark that follows `end`, if any, is the value's: ``23rd Street (Queens)``."""
        remark = re.compile(r"\s*\(([^()]*)\)").match(self.text, end)
        return remark is None or letters(words(remark.group(1)), 0) in wording.remark

    def in_same_sentence(self, first: Span, second: Span) -> bool:
        start, end = min(first[1], second[1]), max(first[0], second[0])
        return _NEXT_SENTENCE.search(self.text, start, end + 1) is None


def _is_pronoun(tokens: Sequence[Word], index: int) -> bool:
    """Whether a word is the pronoun of ``one of`` or ``the one``."""
    if tokens[index].raw.lower() != "one":
        return False
    before = tokens[index - 1].form if index else ""
    return before in _DETERMINERS or any(word.form == "of" for word in tokens[index + 1 : index + 2])


def is_negated(tokens: Sequence[Word], first: int) -> bool:
    return any(word.form in _NEGATIONS for word in tokens[max(0, first - 3) : first])


def to_wording(text: str, kind: MatchKind, unit: str = "", remark: str = "") -> Wording | None:
    """`text` as a wording; None if it has no word. If a phrase begins with ``not``, matches must follow a negation."""
    negation = None
    if kind == "phrase":
        negation, text = text.startswith("not "), text.removeprefix("not ")
    tokens = words(text)
    if not tokens:
        return None
    required = [word for word in tokens if not word.optional]
    is_short = len(tokens) <= 2 and all(word.kind in ("word", "unit") and len(word.form) <= 2 for word in tokens)
    is_acronym = kind == "rule" and len(tokens) == 1 and tokens[0].raw.isupper()
    is_case_sensitive = (
        is_short or is_acronym or all(word.kind == "word" and word.form in FUNCTION_WORDS for word in required)
    )
    strings = tuple(letters(tokens, omission) for omission in range(len(OMITTED)))
    money = "".join(sorted(set(_CURRENCY_SIGN.findall(text))))
    # Dates of the text are only split for numbers above 99, so that a date mentions its year, but not its day.
    dates = any(word.kind == "date" or (word.kind == "number" and len(word.form) < 3) for word in tokens)
    spelling = tuple(word.raw for word in tokens) if is_case_sensitive else ()
    return Wording(strings, kind, dates, spelling, unit, remark, money, negation)


def spellings(value: str) -> Iterator[str]:
    """The surface forms of `value` by rule, the literal one first."""
    literal = entity_words(value)
    if date := _ISO_DATE.match(literal):
        year, month, day = date[1], MONTHS[int(date[2]) - 1].capitalize(), int(date[3])
        yield from (literal, f"{month} {day}, {year}", f"{day} {month} {year}", f"{month} {day} {year}")
        return
    without_remark = REMARK.sub("", literal).strip()
    for spelling in dict.fromkeys((literal, without_remark)):
        if spelling:
            yield spelling
            yield from _reworded(spelling)


@lru_cache(maxsize=1 << 15)
def value_wordings(value: str) -> tuple[Wording, ...]:
    """The wordings of `value` by rule, the literal one first; empty if the value contains no word or number."""
    literal = entity_words(value)
    wordings: dict[object, Wording] = {}
    units = [word.form for word in words(CAMEL_CASE.sub(" ", _BRACKETS.sub(" ", literal))) if word.kind == "unit"]
    remark = "".join(letters(words(part), 0) for part in REMARK.findall(literal))
    texts = [literal, *spellings(value)]
    if date := _ISO_DATE.match(literal):
        year, month, day = date.groups()
        texts += [f"{int(day)} {int(month)} {year}", f"{int(month)} {int(day)} {year}"]
    for number, text in enumerate(texts):
        kind: MatchKind = "rule" if number else "literal"
        if wording := to_wording(text, kind, units[-1] if units else "", "" if "(" in text else remark):
            wordings.setdefault(wording.key, wording)
    return tuple(wordings.values())


def _reworded(value: str) -> Iterator[str]:
    if len(value) > _MAX_REWORDED_CHARACTERS:
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
    initials = [word[0] for word in re.findall(r"[^\W_]+", value) if word[0].isupper()]
    if len(initials) > 2 and "," not in value:
        yield "".join(initials)
    for country, other_names in COUNTRIES.items():
        if country in value:
            yield from (value.replace(country, other_name) for other_name in other_names)
    for preposition in re.finditer(r" (in|of|at) ", value):
        before, after = value[: preposition.start()], value[preposition.end() :]
        yield from (f"{before} {replacement} {after}" for replacement in ("in", "of", "at"))
    parts = [part.strip() for part in value.split(",")]
    if 2 <= len(parts) <= 4 and all(parts):
        for split in range(1, len(parts)):
            for connector in _CONNECTORS:
                yield ", ".join(parts[:split]) + f" {connector} " + ", ".join(parts[split:])
    elif len(parts) > 4 and all(parts):
        yield ", ".join(parts[:-1]) + f" and {parts[-1]}"
    alternatives = re.split(r"\s*/\s*", value)
    if len(alternatives) == 2 and all(alternatives):
        yield from (f" {connector} ".join(alternatives) for connector in ("and", "or"))
    if value.startswith("-") and value[1:2].isdigit():
        number, _, unit = value[1:].partition(" ")
        yield f"{number} {unit} below"


@dataclass(frozen=True)
class MatchedText:
    """A text with the matches of its record's values and names."""

    record: Record
    triples: Sequence[Triple]  # the triples of `record` that the text must express
    indexed: TextIndex
    values: Sequence[Matches]  # the matches of the value of each of `triples`
    subjects: Mapping[str, Collection[Span]]  # the spans that name each subject of `triples`

    @classmethod
    def by_rule(cls, record: Record, text: str) -> MatchedText:
        """All values and subjects of `record`, matched by rule."""
        indexed = TextIndex(text)

        def find(name: str) -> Matches:
            return dict.fromkeys(indexed.find(*value_wordings(name)), "rule")

        values = [find(triple.object) for triple in record.triples]
        subjects = {triple.subject: find(triple.subject) for triple in record.triples}
        return cls(record, record.triples, indexed, values, subjects)

    @property
    def words(self) -> tuple[Word, ...]:
        return self.indexed.dates_joined.words

    @cached_property
    def spans(self) -> list[Span]:
        """The spans of all values and subjects, in no particular order."""
        return [*chain(*self.values), *chain(*self.subjects.values())]

    @cached_property
    def covered(self) -> list[bool]:
        """Whether each word is part of a value or subject."""
        return self.indexed.covered(self.spans)

    @cached_property
    def uncovered(self) -> list[Word]:
        return [word for word, covered in zip(self.words, self.covered, strict=True) if not covered]

    def matches(self) -> Iterator[tuple[Triple, Matches]]:
        """Yields (triple, matches of its value)."""
        return zip(self.triples, self.values, strict=True)
