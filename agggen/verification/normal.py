"""Tokenisation and normalisation of texts and values: words, numbers, dates and units with their character offsets.

Normal forms have no accents and no case; hyphens and punctuation separate words. Numbers are compared by signed value
(``1,234.50`` and ``1234.5``, ``minus five`` and ``-5``) and split from units (``18g``), which have one form (``kelvin``
and ``K``), as do dates. Sequences of words are compared as strings of letters that begin and end at word boundaries, so
that ``A.C. Milan`` equals ``AC Milan``. Articles and the possessive ``'s`` are optional in value and text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["word", "number", "ordinal", "date", "unit"]
Span = tuple[int, int]  # offsets ``[start, end)`` of characters or words


def word_list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


MONTHS = word_list("january february march april may june july august september october november december")
_MONTH_NUMBER = {form: number for number, name in enumerate(MONTHS, start=1) for form in (name, name[:3])} | {"sept": 9}
SMALL_NUMBERS = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
_NUMBER_WORDS = {
    **{name: value for value, name in enumerate(SMALL_NUMBERS)},
    **{name: 10 * value for value, name in enumerate(_TENS, start=2)},
    **{
        f"{ten}-{unit}": 10 * tens + units
        for tens, ten in enumerate(_TENS, start=2)
        for units, unit in enumerate(SMALL_NUMBERS[1:10], start=1)
    },
}
_ORDINALS = word_list(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ORDINAL_WORDS = {name: value for value, name in enumerate(_ORDINALS, start=1)}
_ARTICLES = frozenset(("the", "an", "a"))
_MULTIPLES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_UNIT_WORDS = {
    word: words.split()[0]
    for words in (
        *("K kelvin kelvins", "C celsius centigrade", "F fahrenheit", "% percent", "ha hectare hectares"),
        *("m metre metres meter meters", "km kilometre kilometres kilometer kilometers", "ac acre acres"),
        *("cm centimetre centimetres centimeter centimeters", "mm millimetre millimetres millimeter millimeters"),
        *("g gram grams gramme grammes", "kg kilogram kilograms kilogrammes", "mg milligram milligrams"),
        *("t tonne tonnes", "ton ton tons", "ft foot feet", '" inch inches', "yd yard yards", "mi mile miles"),
        *("min minute minutes", "h hour hours", "s seconds", "d day days"),
    )
    for word in words.split()[1:]
}
_UNITS = word_set("K C m km cm mm g mg kg ft mi ha min s kJ kcal %")
_SPECIAL_LETTERS = str.maketrans(
    dict(zip("øØłŁđĐðı", "oOlLdDdi", strict=True)) | {"æ": "ae", "Æ": "Ae", "œ": "oe", "þ": "th"}
)
_SUBSCRIPTS = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")

_MONTH = "|".join(sorted(_MONTH_NUMBER, key=len, reverse=True))
_SPELLED = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True)).replace("-", r"[-\s]")
_MINUS_WORD = r"\b(?i:minus|negative)\s+"
_SIGN = rf"(?:(?<![\w)\]])[-\u2212\u2013](?=\.?\d)|{_MINUS_WORD}(?=\.?\d))"
_ORDINAL_SUFFIX, _COMMA = r"(?:\s?(?:st|nd|rd|th))?", r"(?:\s?,)?"  # after a space in tokenised texts
_TOKEN = re.compile(
    rf"""
    (?P<iso> \b(\d{{4}})[-./](\d{{1,2}})[-./](\d{{1,2}})\b )
  | (?P<dotted> \b(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}})\b )
  | (?P<day> \b(\d{{1,2}}){_ORDINAL_SUFFIX}\s+(?:of\s+)?(?i:({_MONTH}))\b\.?{_COMMA}\s+(?:(?:in|of)\s+)?(\d{{4}})\b )
  | (?P<month> \b(?i:({_MONTH}))\b\.?\s+(?:the\s+)?(\d{{1,2}}){_ORDINAL_SUFFIX}{_COMMA}\s+(?:(?:in|of)\s+)?(\d{{4}})\b )
  | (?P<ordinal> \b(\d+)(?i:st|nd|rd|th)\b )
  | (?P<number> {_SIGN}?(?: \d{{1,3}}(?:,\d{{3}})+(?!,?\d)(?:\.\d+)?
                         | \d+(?:\.\d+)?(?:[eE][+-]?\d{{1,3}}\b)? | (?<![\w.])\.\d+ ) )
  | (?P<spelled> (?:{_MINUS_WORD})?\b(?i:{_SPELLED})\b(?![\u0300-\u036f]) )
  | (?P<possessive> (?<=\w)['\u2019](?i:s)\b )
  | (?P<word> (?:[^\W\d_][\u0300-\u036f]*)+ )
  | (?P<and> & ) | (?P<percent> % ) | (?P<sign> (?<=\w)[+#](?!\w) )
    """,
    re.VERBOSE,
)
_PLAIN = re.compile(r"\s*(?P<word>[^\W\d_]+)(?=[\s.,;:!?)]|$)")  # a fast path for ordinary words not in `_NOT_PLAIN`
_NOT_PLAIN = frozenset(
    ("minus", "negative", *_MONTH_NUMBER, *(part for name in _NUMBER_WORDS for part in name.split("-")))
)
_SENTENCE_END = re.compile(r"[.!?][\"')\]\u201d]*\s+[\"'(\[\u201c]*$")
_OPENING = re.compile(r"^[\s\"'(\[\u201c\u2018]*$")


def containing(span: Span, spans: Iterable[Span]) -> list[Span]:
    """The members of `spans` that contain `span` and are longer."""
    return [outer for outer in spans if outer[0] <= span[0] and span[1] <= outer[1] and outer != span]


def overlap(left: Span, right: Span) -> bool:
    return left[0] < right[1] and right[0] < left[1]


class Word(NamedTuple):
    """A word, number, date or unit in the characters ``[start, end)`` of a text."""

    form: str  # the normal form, which is compared
    start: int
    end: int
    raw: str  # the surface form
    kind: Kind
    initial: bool  # whether the word begins a sentence
    optional: Literal["", "article", "possessive"] = ""  # why comparisons may omit the word; empty if they may not


@lru_cache(maxsize=1 << 15)
def fold(text: str) -> str:
    """`text` in Unicode form NFKD without combining marks, case-folded."""
    decomposed = unicodedata.normalize("NFKD", text).translate(_SPECIAL_LETTERS)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()


def _number_form(text: str) -> str:
    negative = text[0] in "-\u2212\u2013" or not (text[0].isdigit() or text[0] == ".")
    value = Decimal(re.sub(r"^[^\d.]+", "", text).replace(",", ""))
    return _decimal(value.copy_negate() if negative else value)


def _spelled_number_form(text: str) -> str:
    sign, name = re.fullmatch(r"(?:(minus|negative)\s+)?(.+)", fold(text)).groups()  # type: ignore[union-attr]
    value = _NUMBER_WORDS[re.sub(r"\s", "-", name)]
    return str(-value if sign else value)


def _decimal(value: Decimal) -> str:
    """A number in decimal notation, without exponent and trailing zeros of the fraction."""
    plain = f"{value:f}" if value else "0"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _date_form(year: str, month: str, day: str) -> str | None:
    """The normal form of a date; None if its month or day does not exist."""
    number = _MONTH_NUMBER.get(fold(month)) or int(month)
    return f"{int(year)}-{number}-{int(day)}" if 1 <= number <= 12 and 1 <= int(day) <= 31 else None


_DATE_PARTS = {  # the order of the groups in the date expressions of `_TOKEN`
    "iso": ("year", "month", "day"),
    "dotted": ("day", "month", "year"),
    "day": ("day", "month", "year"),
    "month": ("month", "day", "year"),
}
_FORMS: dict[str, tuple[Kind, Callable[[str], str]]] = {  # the kinds and normal forms of other groups of `_TOKEN`
    "ordinal": ("ordinal", lambda raw: f"{_number_form(raw[:-2])}th"),
    "number": ("number", _number_form),
    "spelled": ("number", _spelled_number_form),
    "and": ("word", lambda _: "and"),
    "percent": ("unit", str),
    "sign": ("word", {"+": "plus", "#": "sharp"}.__getitem__),
}


def _single_words(text: str, initial: bool, dates: bool) -> Iterator[Word]:
    """As `words`, but a multiplier (``million``) is a separate word."""
    text = text.translate(_SUBSCRIPTS)
    position = 0
    while True:
        match = _PLAIN.match(text, position)
        if match is None or match["word"].lower() in _NOT_PLAIN:
            match = _TOKEN.search(text, position)
        if match is None:
            return
        group = match.lastgroup or ""
        (start, end), raw = match.span(group), match[group]
        begins_sentence = initial and start < 4 and bool(_OPENING.match(text[:start]))
        follows_word = text[start - 1 : start] == " " and text[start - 2 : start - 1].isalnum()  # fast path
        if start > 1 and not follows_word and _SENTENCE_END.search(text[max(0, start - 8) : start]):
            begins_sentence = True
        position = end
        if group in _DATE_PARTS:
            parts = (part for part in match.groups() if part is not None and part != raw)
            form = _date_form(**dict(zip(_DATE_PARTS[group], parts, strict=True)))
            if dates and form:
                yield Word(form, start, end, raw, "date", begins_sentence)
                continue
            if group == "dotted":
                for part in re.compile(r"\d+").finditer(text, start, end):
                    yield Word(_number_form(part[0]), *part.span(), part[0], "number", begins_sentence)
                    begins_sentence = False
                continue
            # Split the date: yield its first number or word, and continue after that.
            first = re.compile(r"(\d+)(?:st|nd|rd|th)?|[^\W\d_]+").match(text, start)
            assert first is not None
            position, raw = first.end(), first[0]
            form = _number_form(first[1]) if first[1] else fold(raw)
            yield Word(form, start, position, raw, "number" if first[1] else "word", begins_sentence)
        elif group == "possessive":
            yield Word("s", start, end, raw, "word", False, "possessive")
        elif group in _FORMS:
            kind, normal_form = _FORMS[group]
            yield Word(normal_form(raw), start, end, raw, kind, begins_sentence)
        else:
            form = fold(raw) or raw  # a half-width katakana sound mark is a letter that folds to nothing
            if form in _ORDINAL_WORDS:
                yield Word(f"{_ORDINAL_WORDS[form]}th", start, end, raw, "ordinal", begins_sentence)
            else:
                may_be_article = form != "a" or raw == "a" or begins_sentence
                is_article = may_be_article and form in _ARTICLES and text[end : end + 1].isspace()
                yield Word(form, start, end, raw, "word", begins_sentence, "article" if is_article else "")


def _with_multipliers_and_units(words: list[Word]) -> Iterator[Word]:
    """Joins numbers with their multipliers (``5.3 million``) and normalises the units after numbers."""
    index = 0
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else None
        if word.kind == "number" and following is not None and following.form in _MULTIPLES:
            value = _decimal(Decimal(f"{word.form}e{_MULTIPLES[following.form]}"))
            raw = f"{word.raw} {following.raw}"
            word = Word(value, word.start, following.end, raw, "number", word.initial)
            index += 1
        yield word
        index += 1
        if word.kind != "number" or index == len(words):
            continue
        following = words[index]
        if following.form in ("square", "sq", "cubic") and index + 1 < len(words):
            unit = words[index + 1]
            if unit_form := unit.raw if unit.raw in _UNITS else _UNIT_WORDS.get(unit.form):
                form = f"{unit_form}{3 if following.form == 'cubic' else 2}"
                yield Word(form, following.start, unit.end, f"{following.raw} {unit.raw}", "unit", False)
                index += 2
        elif following.form == "per" and index + 1 < len(words) and words[index + 1].form == "cent":
            yield Word("%", following.start, words[index + 1].end, "per cent", "unit", False)
            index += 2
        else:
            degrees = following.form in ("degree", "degrees") and index + 1 < len(words)
            unit = words[index + degrees]
            raw, power = unit.raw.rstrip("\u00b2\u00b3"), unit.raw[-1]
            unit_form = raw if raw in _UNITS else _UNIT_WORDS.get(unit.form)
            if unit_form and power in "\u00b2\u00b3":
                unit_form += "2" if power == "\u00b2" else "3"
            if unit_form and unit.kind in ("word", "unit"):
                yield Word(unit_form, unit.start, unit.end, unit.raw, "unit", False)
                index += 1 + degrees


@lru_cache(maxsize=1 << 14)
def words(text: str, initial: bool = True, dates: bool = True) -> tuple[Word, ...]:
    """The words of `text`, which begins a sentence if `initial`; without `dates`, a date is several words."""
    return tuple(_with_multipliers_and_units(list(_single_words(text, initial, dates))))


OMITTED: tuple[frozenset[str], ...] = (frozenset(), frozenset(("article",)), frozenset(("article", "possessive")))
"""The kinds of optional words that successive comparisons omit from both value and text."""


def letters(tokens: tuple[Word, ...], omission: int) -> str:
    """The forms of the words as one string, without the optional words in ``OMITTED[omission]``."""
    return "".join(_letters(word) for word in tokens if word.optional not in OMITTED[omission])


def _letters(word: Word) -> str:
    """The form of a word; other kinds are in angle brackets, so that the numbers 1 2 do not equal 12."""
    return word.form if word.kind == "word" else f"<{word.form}>"


class LetterIndex:
    """Finds strings of `letters` in the words of a text."""

    def __init__(self, tokens: tuple[Word, ...]) -> None:
        self.words = tokens
        # For each set of ``OMITTED``: the letters, and word indices by start and by end offset in these letters
        self._indices: list[tuple[str, dict[int, int], dict[int, int]]] = []
        optional = {word.optional for word in tokens}
        for omission, omitted in enumerate(OMITTED):
            if omission and optional.isdisjoint(omitted - OMITTED[omission - 1]):
                self._indices.append(self._indices[-1])
                continue
            text = ""
            starts: dict[int, int] = {}
            ends: dict[int, int] = {}
            for index, word in enumerate(tokens):
                if word.optional not in omitted:
                    starts[len(text)] = index
                    text += _letters(word)
                    ends[len(text)] = index + 1
            self._indices.append((text, starts, ends))

    def find(self, strings: Sequence[str]) -> Iterator[Span]:
        """The word spans ``[first, last)`` whose letters without ``OMITTED[k]`` are ``strings[k]``, for any k."""
        searched: tuple[int, str] | None = None
        for index, string in zip(self._indices, strings, strict=True):
            text, starts, ends = index
            if not string or string not in text or searched == (id(index), string):
                continue
            searched = id(index), string
            offset = text.find(string)
            while offset >= 0:
                first, last = starts.get(offset), ends.get(offset + len(string))
                if first is not None and last is not None:
                    yield first, last
                offset = text.find(string, offset + 1)
