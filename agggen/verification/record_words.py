"""What the words of a record say about a text: its names, their normal forms and shapes, and which words are akin."""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from agggen.records import Record
from agggen.text.linearise import entity_words
from agggen.verification.normal import MONTHS, Word, fold, words
from agggen.verification.values import COUNTRIES

_DERIVED = ("s", "n", "ese", "ish", "ic", "i")


@lru_cache(maxsize=1 << 10)
def names(record: Record) -> frozenset[str]:
    """The subjects and objects of a record, in words."""
    return frozenset(entity_words(part) for triple in record.triples for part in (triple.subject, triple.object))


@lru_cache(maxsize=1 << 14)
def doubled(name: str) -> frozenset[tuple[str, str]]:
    """Pairs of equal words that stand behind each other in a name."""
    forms = [word.form for word in words(entity_words(name))]
    return frozenset(pair for pair in pairwise(forms) if pair[0] == pair[1])


@lru_cache(maxsize=1 << 14)
def small_number(value: str) -> bool:
    found = words(entity_words(value))
    return len(found) == 1 and found[0].kind == "number" and abs(float(found[0].form)) < 1000


@lru_cache(maxsize=1 << 14)
def shape(value: str) -> str:
    found = words(entity_words(value))
    kinds = {word.kind for word in found}
    if kinds <= {"number", "unit"}:
        return "number"
    return "date" if kinds == {"date"} else "words"


@lru_cache(maxsize=1 << 14)
def capitals(name: str) -> frozenset[str]:
    """The normal forms of a name's words with a capital."""
    return frozenset(word.form for word in words(entity_words(name)) if word.kind == "word" and word.raw[:1].isupper())


@lru_cache(maxsize=1 << 14)
def forms(text: str) -> frozenset[str]:
    """The normal forms of a value's words, of its dates' years and months, and of its names in short (``MIT``)."""
    said = entity_words(text)
    whole = words(said)
    forms = {word.form for word in whole}
    for word in whole:
        if word.kind == "date":
            year, month, _ = word.form.split("-")
            forms |= {year, MONTHS[int(month) - 1]}
    for part in said.split(","):
        short = "".join(word.raw[0] for word in words(part) if word.raw[:1].isupper())
        forms |= {fold(short), *map(fold, short)} if len(short) > 1 else set()
    for country, shorts in COUNTRIES.items():
        if country in said:
            forms |= {word.form for short in shorts for word in words(short)}
    return frozenset(forms | {_singular(form) for form in forms})


def akin(word: Word, form: str) -> bool:
    """Whether a word is a form of a word of the record: ``Italian`` of Italy, ``Adofo`` for Adolfo, a date's part."""
    if word.form == form or word.kind in ("number", "ordinal") or form[:1].isdigit():
        return word.form == form
    if word.kind == "date":
        return form in word.form.split("-")
    if min(len(word.form), len(form)) < 4:
        return False
    return derived(word.form, form) or SequenceMatcher(None, word.form, form).ratio() >= 0.75


def derived(form: str, of: str) -> bool:
    """Whether a normal form looks like an adjective or plural of another: ``italian`` of ``italy``."""
    return len(of) > 3 and form[:4] == of[:4] and form.endswith(_DERIVED)


def _singular(form: str) -> str:
    return form[:-1] if len(form) > 3 and form.endswith("s") and not form.endswith("ss") else form
