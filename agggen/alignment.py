"""The rule-based aligner: which fact of a text says which triple, and what that forbids the joint model to consider.

``align`` is the aligner RB of the paper (AggGen, ACL 2021, section "Study of Alignment"): a triple belongs to the fact
with the greatest token overlap with its predicate and object. ``hard_constraints`` turns overlaps into the pruning of
section 3.3, in the paper's form or in the stricter one that the released system ran with.

Tokens are compared in a normal form (``words``): accents folded, lower case, ``camelCase`` and ``snake_case`` split,
numbers without thousands marks or trailing zeros, dates by year, month name and day, words cut to a stem of five
letters (created/creator, publisher/published), and words that carry no content left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agggen.errors import AggGenError
from agggen.records import Record

STEM_LENGTH = 5

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_SAME_WORD = {
    **{month[:3]: month for month in _MONTHS},
    **{name: str(number) for number, name in enumerate(_NUMBERS)},
    **dict.fromkeys(("child", "children", "kid", "kids", "families"), "family"),  # E2E's familyFriendly
    **{"sept": "september", "center": "centre"},
}
_EMPTY = (
    "a an the of in on at by for from to with and or as is are was were be been has have had it its "
    "that this which who whose where s"
)
_EMPTY_WORDS = frozenset(_EMPTY.split())
_UNITED_STATES = re.compile(r"\bU\. ?S\.(?:A\.)?|\bU\.S\b|\bUSA?\b")
_UNITED_KINGDOM = re.compile(r"\bU\. ?K\.|\bU\.K\b|\bUK\b")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ISO_DATE = re.compile(r"\b(\d{4}) ?[-/\u2013] ?(\d{1,2}) ?[-/\u2013] ?(\d{1,2})\b")
_DAY_FIRST_DATE = re.compile(r"\b(\d{1,2}) ?[-/.] ?(\d{1,2}) ?[-/.] ?(\d{4})\b")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DECIMAL_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_INITIALS = re.compile(r"\b[A-Z]\.(?: ?[A-Z]\.)+")
_WORD = re.compile(r"\d+\.\d+|[^\W_]+")


def _year_month_day(match: re.Match[str]) -> str:
    year, month, day = (int(part) for part in match.groups())
    return f" {year} {_MONTHS[month - 1]} {day} " if 1 <= month <= 12 and 1 <= day <= 31 else match.group()


def _day_month_year(match: re.Match[str]) -> str:
    day, month, year = (int(part) for part in match.groups())
    if month > 12 >= day:  # the American order
        day, month = month, day
    return f" {year} {_MONTHS[month - 1]} {day} " if 1 <= month <= 12 and 1 <= day <= 31 else match.group()


def _normal(word: str) -> str:
    if word.isdigit():
        return word.lstrip("0") or "0"
    if not word.isalpha():
        return word
    word = _SAME_WORD.get(word, word)
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:STEM_LENGTH]


@lru_cache(maxsize=1 << 16)
def words(text: str) -> tuple[str, ...]:
    """The words of `text` in the normal form that overlaps are counted in, in text order, repeated words kept.

    ``words("leaderName")`` and ``words("the leader's names")`` are both ``("leade", "name")``.
    """
    text = _UNITED_KINGDOM.sub("United Kingdom", _UNITED_STATES.sub("United States", text.replace("_", " ")))
    text = _INITIALS.sub(lambda match: re.sub("[. ]", "", match.group()) + " ", text)
    text = _CAMEL.sub(" ", text)
    text = _ISO_DATE.sub(_year_month_day, text)
    text = _DAY_FIRST_DATE.sub(_day_month_year, text)
    text = _ORDINAL.sub("", _DECIMAL_ZEROS.sub("", _THOUSANDS.sub("", text)))
    folded = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    return tuple(_normal(word) for word in _WORD.findall(folded) if word not in _EMPTY_WORDS)


@lru_cache(maxsize=1 << 14)
def triple_words(predicate: str, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The distinct words of a predicate, and those that its object adds; "yes" and "no" add none."""
    name = tuple(dict.fromkeys(words(predicate)))
    said = () if value.strip().lower() in ("yes", "no") else words(value)
    return name, tuple(word for word in dict.fromkeys(said) if word not in name)


@dataclass(frozen=True, slots=True)
class Alignment:
    """How much of each triple each fact says; J triples in the record's order, T facts in the text's order."""

    overlap: tuple[tuple[float, ...], ...]
    """(J, T): the share of the triple's predicate and object words that the fact holds, 0..1."""
    fact_of: tuple[int | None, ...]
    """(J,): the fact that says the triple, counted from 0; None where nothing decides."""


def align(
    record: Record, facts: Sequence[str], rule: Literal["normal", "surface"] = "normal", complete: bool = True
) -> Alignment:
    """Aligns every triple of `record` to the fact with the greatest overlap with its predicate and object.

    Args:
        facts: the pieces of one text of the record, in text order.
        rule: "normal" compares ``words``; predicate and object weigh the same, however many words they have; of
            equally good facts the one that names more of the subject wins, then the first. "surface" is the rule that
            the paper's numbers come from: lower-cased words between blanks, each counts one, the first of ties wins.
        complete: give a triple of which no fact holds a word to the first fact that no other triple has, else to the
            one that names most of the subject (as the paper does, whose aligner leaves out nothing). False leaves None.

    Raises:
        AggGenError: no facts, or an unknown rule.
    """
    if not facts:
        raise AggGenError(f"record {record.id!r}: there are no facts to align its triples to")
    if rule == "surface":
        return _align_surface(record, facts, complete)
    if rule != "normal":
        raise AggGenError(f"unknown alignment rule {rule!r}; use 'normal' or 'surface'")
    held = [frozenset(words(fact)) for fact in facts]
    overlap: list[tuple[float, ...]] = []
    fact_of: list[int | None] = []
    for triple in record.triples:
        name, value = triple_words(triple.predicate, triple.object)
        named, valued = _shares(name, held), _shares(value, held)
        both = [a + b for a, b in zip(named, valued, strict=True)]
        overlap.append(_shares(name + value, held))
        best = max(both)
        ties = [fact for fact, share in enumerate(both) if share == best] if best else []
        if len(ties) > 1:
            subject = _shares(words(triple.subject), held)
            ties.sort(key=lambda fact: -subject[fact])  # a stable sort: the first stays first
        fact_of.append(ties[0] if ties else None)
    if complete and None in fact_of:
        _complete(record, held, fact_of)
    return Alignment(tuple(overlap), tuple(fact_of))


def _align_surface(record: Record, facts: Sequence[str], complete: bool) -> Alignment:
    held = [frozenset(fact.lower().split()) for fact in facts]
    overlap = [
        _shares(tuple(set(f"{name} {triple.object}".lower().split())), held)
        for name, triple in zip(record.predicates, record.triples, strict=True)
    ]
    fact_of = [row.index(max(row)) if complete or max(row) else None for row in overlap]
    return Alignment(tuple(overlap), tuple(fact_of))


def _shares(tokens: Sequence[str], held: Sequence[frozenset[str]]) -> tuple[float, ...]:
    """(T,): the share of `tokens` that each fact holds; 0 where there are no tokens."""
    return tuple(sum(token in fact for token in tokens) / max(1, len(tokens)) for fact in held)


def _complete(record: Record, held: Sequence[frozenset[str]], fact_of: list[int | None]) -> None:
    for index, fact in enumerate(fact_of):
        if fact is None:
            free = [number for number in range(len(held)) if number not in fact_of]
            subject = _shares(words(record.triples[index].subject), held)
            fact_of[index] = free[0] if free else subject.index(max(subject))


@dataclass(frozen=True, slots=True)
class HardAlignment:
    """What the states of each fact must and must not contain (triples by index, facts by position).

    A state of fact t is allowed when it contains all of ``required[t]``, none of ``forbidden[t]`` and at most
    `max_size` triples. At least one state is allowed for every fact.
    """

    required: tuple[frozenset[int], ...]
    forbidden: tuple[frozenset[int], ...]
    max_size: int
    fact_of: tuple[int | None, ...]
    """(J,): the fact a triple is hard-aligned to, None where the evidence does not do."""


def hard_constraints(
    record: Record,
    facts: Sequence[str],
    mode: Literal["paper", "release"] = "release",
    threshold: float = 0.5,
    max_size: int = 3,
) -> HardAlignment:
    """Prunes the states of each fact by hard alignment.

    "paper" (section 3.3): a triple is required in its best fact if that fact holds at least `threshold` of its
    words. Nothing is forbidden.

    "release" (what the released system did): each fact votes for at most two triples, the one with most predicate
    words in it (if it is the only such one) and the one with most object words in it (if they are at least
    `threshold` of the object's). A triple that just one fact voted for is required there and forbidden elsewhere.
    States have at most 1 triple if the record has no more triples than facts, 2 if it has one more, else `max_size`.

    Never is a fact pruned to nothing: a fact for which every triple is forbidden gets them all back; where more
    triples are required in one fact than the cap allows, the cap is raised up to `max_size`, and above that only
    the best covered ones stay required (the others stay allowed).

    Raises:
        AggGenError: no facts, an unknown mode, `max_size` below 1 or `threshold` outside 0..1.
    """
    if not facts:
        raise AggGenError(f"record {record.id!r}: there are no facts to align its triples to")
    if max_size < 1:
        raise AggGenError(f"max_size is {max_size}; a state holds at least one triple")
    if not 0 < threshold <= 1:
        raise AggGenError(f"threshold is {threshold}; it is a share of a triple's words, above 0 and at most 1")
    alignment = align(record, facts, complete=False)
    if mode == "paper":
        cap = max_size
        fact_of = tuple(
            fact if fact is not None and row[fact] >= threshold else None
            for fact, row in zip(alignment.fact_of, alignment.overlap, strict=True)
        )
    elif mode == "release":
        surplus = len(record.triples) - len(facts)
        cap = min(max_size, 1 if surplus <= 0 else 2 if surplus == 1 else max_size)
        fact_of = _votes(record, facts, threshold)
    else:
        raise AggGenError(f"unknown pruning mode {mode!r}; use 'paper' or 'release'")

    required: list[frozenset[int]] = []
    forbidden: list[frozenset[int]] = []
    for fact in range(len(facts)):
        own = [index for index, aligned in enumerate(fact_of) if aligned == fact]
        best_covered = sorted(own, key=lambda index: (-alignment.overlap[index][fact], index))
        required.append(frozenset(best_covered[:max_size]))
        others = frozenset(i for i, aligned in enumerate(fact_of) if aligned is not None and aligned != fact)
        forbidden.append(others if mode == "release" and len(others) < len(fact_of) else frozenset())
    return HardAlignment(tuple(required), tuple(forbidden), max(cap, *map(len, required)), fact_of)


def _votes(record: Record, facts: Sequence[str], threshold: float) -> tuple[int | None, ...]:
    """(J,): the one fact that voted for the triple by its predicate's or its object's words, else None."""
    parts = [triple_words(triple.predicate, triple.object) for triple in record.triples]
    won: list[set[int]] = [set() for _ in parts]
    for fact, text in enumerate(facts):
        held = frozenset(words(text))
        named = [sum(word in held for word in name) for name, _ in parts]
        if max(named) and named.count(max(named)) == 1:
            won[named.index(max(named))].add(fact)
        valued = [sum(word in held for word in value) for _, value in parts]
        valued = [
            count if count >= threshold * len(value) else 0 for count, (_, value) in zip(valued, parts, strict=True)
        ]
        if max(valued):
            won[valued.index(max(valued))].add(fact)
    return tuple(next(iter(votes)) if len(votes) == 1 else None for votes in won)
