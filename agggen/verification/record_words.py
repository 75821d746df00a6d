"""Properties of a record's words: names, normal forms, value types, and related words."""

from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise, zip_longest

from agggen.records import Record
from agggen.text.linearise import entity_words
from agggen.verification.lexicon import Lexicon
from agggen.verification.normal import MONTHS, Word, fold, words
from agggen.verification.values import COUNTRIES, MatchedText

_DERIVED_SUFFIXES = ("s", "n", "ese", "ish", "ic", "i")


@lru_cache(maxsize=1 << 10)
def names(record: Record) -> frozenset[str]:
    """The subjects and objects of a record, as plain text."""
    return frozenset(entity_words(part) for triple in record.triples for part in (triple.subject, triple.object))


@lru_cache(maxsize=1 << 14)
def repeated_word_pairs(name: str) -> frozenset[tuple[str, str]]:
    """Pairs of equal adjacent words in a name (``Duran Duran``)."""
    pairs = pairwise(word.form for word in words(entity_words(name)))
    return frozenset(pair for pair in pairs if pair[0] == pair[1])


@lru_cache(maxsize=1 << 14)
def small_number(value: str) -> str:
    """The normal form of a value that is a single number below 1000; empty for other values."""
    tokens = words(entity_words(value))
    is_small = len(tokens) == 1 and tokens[0].kind == "number" and abs(float(tokens[0].form)) < 1000
    return tokens[0].form if is_small else ""


@lru_cache(maxsize=1 << 14)
def value_type(value: str) -> str:
    """The type of a value: ``number`` (with or without a unit), ``date`` or ``words``."""
    kinds = {word.kind for word in words(entity_words(value))}
    if kinds <= {"number", "unit"}:
        return "number"
    return "date" if kinds == {"date"} else "words"


@lru_cache(maxsize=1 << 14)
def capitalised_forms(name: str) -> frozenset[str]:
    return frozenset(word.form for word in words(entity_words(name)) if word.kind == "word" and word.raw[:1].isupper())


@lru_cache(maxsize=1 << 14)
def forms(text: str) -> frozenset[str]:
    """The normal forms of a text's words, of the years and months of its dates, and of its acronyms (``MIT``)."""
    literal = entity_words(text)
    tokens = words(literal)
    forms = {word.form for word in tokens}
    forms |= {"science"} if "sc" in forms else set()  # Sc.D.
    for word in tokens:
        if word.kind == "date":
            year, month, _ = word.form.split("-")
            forms |= {year, MONTHS[int(month) - 1]}
    for part in literal.split(","):
        acronym = "".join(word.raw[0] for word in words(part) if word.raw[:1].isupper())
        forms |= {fold(acronym), *map(fold, acronym)} if len(acronym) > 1 else set()
    for country, other_names in COUNTRIES.items():
        if country in literal:
            forms |= {word.form for other_name in other_names for word in words(other_name)}
    return frozenset(forms | {_singular(form) for form in forms})


def is_related(word: Word, form: str) -> bool:
    """Whether a word may mean a normal form: ``Italian`` Italy, the typo ``Adofo`` Adolfo, a date its year."""
    if word.form == form or word.kind in ("number", "ordinal") or form[:1].isdigit():
        return word.form == form
    if word.kind == "date":
        return form in word.form.split("-")
    if min(len(word.form), len(form)) < 4:
        return False
    return is_derived(word.form, form) or SequenceMatcher(None, word.form, form).ratio() >= 0.75


def unsupported_words(text: MatchedText, lexicon: Lexicon, allowed: Collection[str]) -> tuple[str, ...]:
    """Words and word pairs that imply a predicate ("five star") or a word ("popular") that the record lacks, except
    words related to `allowed` forms. Empty if a predicate is unknown from training, since any word may express it.
    """
    predicates = {triple.predicate for triple in text.record.triples}
    if not predicates <= lexicon.contexts.keys() | lexicon.booleans.keys():
        return ()
    # Words in phrases for truth values may imply other predicates: "a friendly restaurant" implies an eatType.
    phrases = {span for spans in text.values for span, kind in spans.items() if kind == "phrase"}
    covered = text.indexed.covered(span for span in text.spans if span not in phrases)
    claims = (
        " ".join(word.raw for word in ngram)
        for ngram_form, ngram in uncovered_ngrams(text.words, covered)
        if lexicon.implies.get(ngram_form, "") not in {"", *predicates}
        and not all(any(is_related(word, form) for form in allowed) for word in ngram)
    )
    return tuple(dict.fromkeys(claims))


def uncovered_ngrams(tokens: Sequence[Word], covered: Sequence[bool]) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """Yields (normal form, words) of each uncovered word, and of pairs of such words in a sentence ("main dish")."""
    outside = [None if covered else word for word, covered in zip(tokens, covered, strict=True)]
    for word, following in zip_longest(outside, outside[1:]):
        if word:
            yield word.form, (word,)
        if word and following and not following.initial:
            yield f"{word.form} {following.form}", (word, following)


def is_derived(form: str, base: str) -> bool:
    """Whether a normal form looks like an adjective or plural of `base`: ``italian`` of ``italy``."""
    return len(base) > 3 and form[:4] == base[:4] and form.endswith(_DERIVED_SUFFIXES)


def _singular(form: str) -> str:
    return form[:-1] if len(form) > 3 and form.endswith("s") and not form.endswith("ss") else form
