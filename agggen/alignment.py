"""Aligns triples to facts by rules, and prunes the groups that may emit a fact.

``align`` is the paper's aligner RB (AggGen, ACL 2021, section "Study of Alignment"): a triple is aligned to the fact
with the largest token overlap with its predicate and object. ``hard_constraints`` prunes groups (section 3.3) by the
rules of the paper or the stricter rules of the authors' released code.

Tokens are compared in a normal form (``words``): without accents and case, ``camelCase`` and ``snake_case`` split,
numbers without thousands separators and trailing zeros, dates as year, month name and day, words truncated to a stem of
five letters (created/creator, publisher/published). Function words are omitted.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agggen.errors import AggGenError
from agggen.records import Record
from agggen.text.linearise import CAMEL_CASE
from agggen.verification.normal import MONTHS, SMALL_NUMBERS, word_set

_MIN_OVERLAP = 0.5  # minimum fraction of a triple's words that a fact must contain for a hard alignment

_SYNONYMS = {
    **{month[:3]: month for month in MONTHS},
    **{name: str(number) for number, name in enumerate(SMALL_NUMBERS[:13])},
    **dict.fromkeys(("child", "children", "kid", "kids", "families"), "family"),  # E2E's familyFriendly
    **{"sept": "september", "center": "centre"},
}
_FUNCTION_WORDS = word_set(
    "a an the of in on at by for from to with and or as is are was were be been has have had it its "
    "that this which who whose where s"
)
_UNITED_STATES = re.compile(r"\bU\. ?S\.(?:A\.)?|\bU\.S\b|\bUSA?\b")
_UNITED_KINGDOM = re.compile(r"\bU\. ?K\.|\bU\.K\b|\bUK\b")
_ISO_DATE = re.compile(r"\b(?P<year>\d{4}) ?[-/\u2013] ?(?P<month>\d{1,2}) ?[-/\u2013] ?(?P<day>\d{1,2})\b")
_DAY_FIRST_DATE = re.compile(r"\b(?P<day>\d{1,2}) ?[-/.] ?(?P<month>\d{1,2}) ?[-/.] ?(?P<year>\d{4})\b")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DECIMAL_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_INITIALS = re.compile(r"\b[A-Z]\.(?: ?[A-Z]\.)+")
_WORD = re.compile(r"\d+\.\d+|[^\W_]+")


def _year_month_day(match: re.Match[str]) -> str:
    year, month, day = (int(match[part]) for part in ("year", "month", "day"))
    if match.re is _DAY_FIRST_DATE and month > 12 >= day:  # American order: month first
        day, month = month, day
    return f" {year} {MONTHS[month - 1]} {day} " if 1 <= month <= 12 and 1 <= day <= 31 else match.group()


def _normal_form(word: str) -> str:
    if word.isdigit():
        return word.lstrip("0") or "0"
    if not word.isalpha():
        return word
    word = _SYNONYMS.get(word, word)
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:5]


@lru_cache(maxsize=1 << 16)
def words(text: str) -> tuple[str, ...]:
    """The words of `text` in normal form, in text order, with repetitions.

    ``words("leaderName")`` and ``words("the leader's names")`` are both ``("leade", "name")``.
    """
    text = _UNITED_KINGDOM.sub("United Kingdom", _UNITED_STATES.sub("United States", text.replace("_", " ")))
    text = _INITIALS.sub(lambda match: re.sub("[. ]", "", match.group()) + " ", text)
    text = CAMEL_CASE.sub(" ", text)
    text = _ISO_DATE.sub(_year_month_day, text)
    text = _DAY_FIRST_DATE.sub(_year_month_day, text)
    text = _ORDINAL.sub("", _DECIMAL_ZEROS.sub("", _THOUSANDS.sub("", text)))
    decomposed = unicodedata.normalize("NFKD", text)
    folded = "".join(char for char in decomposed if not unicodedata.combining(char)).lower()
    return tuple(_normal_form(word) for word in _WORD.findall(folded) if word not in _FUNCTION_WORDS)


@lru_cache(maxsize=1 << 14)
def triple_words(predicate: str, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The distinct words of the predicate, and the distinct words of the object that are not in the predicate.

    The objects "yes" and "no" have no words.
    """
    predicate_words = tuple(dict.fromkeys(words(predicate)))
    object_words = () if value.strip().lower() in ("yes", "no") else words(value)
    return predicate_words, tuple(word for word in dict.fromkeys(object_words) if word not in predicate_words)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The alignment of J triples, in the record's order, to T facts, in text order."""

    overlap: tuple[tuple[float, ...], ...]  # (J, T): the fraction of predicate and object words that the fact contains
    fact_of: tuple[int | None, ...]  # (J,): the fact that expresses the triple; None if no fact shares a word with it


def align(record: Record, facts: Sequence[str], complete: bool = True) -> Alignment:
    """Aligns each triple of `record` to the fact with the largest overlap with its predicate and object.

    Predicate and object have equal weights. Of tied facts, the one with the largest overlap with the subject is chosen,
    then the first. With `complete`, triples without overlap are aligned as in the paper: to the first fact without
    triples or, if every fact has triples, to the fact with the largest overlap with the subject. Raises AggGenError if
    without facts.
    """
    if not facts:
        raise AggGenError(f"record {record.id!r}: no facts to align its triples to")
    fact_words = [frozenset(words(fact)) for fact in facts]
    overlap: list[tuple[float, ...]] = []
    fact_of: list[int | None] = []
    for triple in record.triples:
        predicate_words, object_words = triple_words(triple.predicate, triple.object)
        predicate_overlap, object_overlap = _overlaps(predicate_words, fact_words), _overlaps(object_words, fact_words)
        scores = [a + b for a, b in zip(predicate_overlap, object_overlap, strict=True)]
        overlap.append(_overlaps(predicate_words + object_words, fact_words))
        best = max(scores)
        ties = [fact for fact, score in enumerate(scores) if score == best] if best else []
        if len(ties) > 1:
            subject_overlap = _overlaps(words(triple.subject), fact_words)
            ties.sort(key=lambda fact: -subject_overlap[fact])  # stable: of equal facts, the first is chosen
        fact_of.append(ties[0] if ties else None)
    for index, triple in enumerate(record.triples if complete else ()):
        if fact_of[index] is None:
            unused_facts = [fact for fact in range(len(facts)) if fact not in fact_of]
            subject_overlap = _overlaps(words(triple.subject), fact_words)
            fact_of[index] = unused_facts[0] if unused_facts else subject_overlap.index(max(subject_overlap))
    return Alignment(tuple(overlap), tuple(fact_of))


def _overlaps(tokens: Sequence[str], fact_words: Sequence[frozenset[str]]) -> tuple[float, ...]:
    """(T,): the fraction of `tokens` that each fact contains; 0 without tokens."""
    return tuple(sum(token in fact for token in tokens) / max(1, len(tokens)) for fact in fact_words)


@dataclass(frozen=True, slots=True)
class HardAlignment:
    """A group of triple indices is allowed for fact t if it contains all of ``required[t]``, none of ``forbidden[t]``
    and at most `max_size` triples; at least one group per fact is allowed."""

    required: tuple[frozenset[int], ...]
    forbidden: tuple[frozenset[int], ...]
    max_size: int


def hard_constraints(
    record: Record, facts: Sequence[str], mode: Literal["paper", "release"] = "release", max_size: int = 3
) -> HardAlignment:
    """Prunes the groups of each fact by hard alignment.

    "paper" (section 3.3): a triple is required in its best fact if this fact contains at least half of the triple's
    words. No triple is forbidden.

    "release" (the authors' code): each fact votes for the triple with the most predicate words in the fact (no vote if
    tied), and for the triple with the most object words in the fact (if these are at least half of the object). A
    triple with votes from exactly one fact is required in that fact and forbidden in all other facts. Groups have at
    most 1 triple if the record has no more triples than facts, 2 if it has one triple more, else `max_size`.

    Each fact keeps at least one group: if all triples would be forbidden in a fact, none is forbidden. If a fact
    requires more triples than the size limit, the limit is raised up to `max_size`; of more than `max_size` required
    triples, those with the largest overlap stay required and the others become optional.
    """
    alignment = align(record, facts, complete=False)
    if mode == "paper":
        size_limit = max_size
        aligned_facts = zip(alignment.fact_of, alignment.overlap, strict=True)
        fact_of = tuple(fact if fact is not None and row[fact] >= _MIN_OVERLAP else None for fact, row in aligned_facts)
    else:
        surplus = len(record.triples) - len(facts)
        size_limit = min(max_size, 1 if surplus <= 0 else 2 if surplus == 1 else max_size)
        fact_of = _votes(record, facts)
    required: list[frozenset[int]] = []
    forbidden: list[frozenset[int]] = []
    for fact in range(len(facts)):
        aligned_triples = [index for index, aligned in enumerate(fact_of) if aligned == fact]
        best_covered = sorted(aligned_triples, key=lambda index: (-alignment.overlap[index][fact], index))
        required.append(frozenset(best_covered[:max_size]))
        aligned_elsewhere = frozenset(i for i, aligned in enumerate(fact_of) if aligned is not None and aligned != fact)
        is_forbidden = mode == "release" and len(aligned_elsewhere) < len(fact_of)
        forbidden.append(aligned_elsewhere if is_forbidden else frozenset())
    return HardAlignment(tuple(required), tuple(forbidden), max(size_limit, *map(len, required)))


def _votes(record: Record, facts: Sequence[str]) -> tuple[int | None, ...]:
    """(J,): the only fact that voted for the triple (`hard_constraints`); None if no fact or several voted for it."""
    triple_word_lists = [triple_words(triple.predicate, triple.object) for triple in record.triples]
    votes: list[set[int]] = [set() for _ in triple_word_lists]
    for fact, text in enumerate(facts):
        fact_words = frozenset(words(text))
        predicate_counts = [sum(word in fact_words for word in predicate) for predicate, _ in triple_word_lists]
        if max(predicate_counts) and predicate_counts.count(max(predicate_counts)) == 1:
            votes[predicate_counts.index(max(predicate_counts))].add(fact)
        matches = [(sum(word in fact_words for word in value), len(value)) for _, value in triple_word_lists]
        object_counts = [count if count >= _MIN_OVERLAP * size else 0 for count, size in matches]
        if max(object_counts):
            votes[object_counts.index(max(object_counts))].add(fact)
    return tuple(next(iter(voters)) if len(voters) == 1 else None for voters in votes)
