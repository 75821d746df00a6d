"""What a text says of a record: each value whole, in part or not at all, and what it says that no triple has.

A value is *whole* in a text when all its words stand there in order and adjacent, in the normal form of
``agggen.verification.normal``; by rule (``values.ways``), in a wording that people use for it (``lexicon``), or, for a
truth value, in a phrase that training texts have for it. It stands for itself: "Azerbaijan" is not said by "Azerbaijan
Premier League" where a triple has that, but it is by "Baku, Azerbaijan". This is the strict reading; ``lenient`` counts
words, and knows E2E's phrases.

A promise about values is no judgement of sentences: that "died in" stands where the record has a birth place is seen
only where two values of one kind are exchanged (``swapped``), and only if the lexicon knows both predicates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations

from agggen.records import Record, Triple
from agggen.scores import Score
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.lexicon import BOOLEANS, Lexicon, clause, fits, neighbours, suspicious, unheard
from agggen.verification.normal import Word, words
from agggen.verification.record_words import akin, capitals, doubled, forms, names, shape, small_number
from agggen.verification.results import Span, TextCheck, ValueCheck, check_paired
from agggen.verification.values import How, Sides, Way, parts, way_of, ways

NEW_WORDS = 0.01
"""How often, by training texts, a new word may stand before a predicate's values, if one is to be a fault of a text."""
SWAP_MARGIN = 6.0
"""By how much log p of two values exchanged must exceed log p as they stand, to call them swapped."""

_ITEM_ENDS = re.compile(r"(?:[,(/;]|\b(?:and|or))$")
_ITEM_BEGINS = re.compile(r"\s*[,)/;]|\s+(?:(?:and|or)\b|[-\u2013])")


class Checker:
    """Reads texts against records, with what a lexicon knows of the corpus."""

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        self.lexicon = lexicon or Lexicon()
        self._ways = lru_cache(maxsize=1 << 14)(self._ways_of)
        self._allowed = lru_cache(maxsize=1 << 14)(self._allowed_of)

    def ways(self, triple: Triple) -> tuple[Way, ...]:
        """The wordings that say the object of `triple`, the literal one first; of a truth value the learned ones."""
        return self._ways(triple.predicate, triple.object)

    def _ways_of(self, predicate: str, value: str) -> tuple[Way, ...]:
        truth = entity_words(value).lower()
        if truth in BOOLEANS and predicate in self.lexicon.booleans:
            said = self.lexicon.booleans[predicate].get(truth, ())
            return tuple(way for text in said if (way := way_of(text, "phrase")))
        found = {way.key: way for way in ways(value)}
        for text in self.lexicon.variants.get(value, ()):
            if way := way_of(text, "lexicon"):
                found.setdefault(way.key, way)
        return tuple(found.values())

    def check(
        self,
        record: Record,
        text: str,
        triples: Collection[int] | None = None,
        subjects: Collection[str] | None = None,
        initial: bool = True,
    ) -> TextCheck:
        """What `text` says of `record`.

        Args:
            record: its triples may be said.
            text: the whole text, or the text of one fact.
            triples: the triples that `text` must say, by their places in the record; all by default. What only others
                have is then said ``elsewhere``.
            subjects: the subjects that `text` must name whole; by default those of its triples.
            initial: whether `text` begins a sentence.
        """
        sides = Sides(text, initial)
        chosen = range(len(record.triples)) if triples is None else sorted(triples)
        own = [record.triples[index] for index in chosen]
        named = {
            subject: self._places(sides, ways(subject)) for subject in dict.fromkeys(triple.subject for triple in own)
        }
        places = self._values(own, sides, named)
        begun = {start for start, _ in (*chain(*named.values()), *(span for found in places for span, _ in found))}
        values = tuple(
            self._value(record, triple, sides, found, begun) for triple, found in zip(own, places, strict=True)
        )
        required = named if subjects is None else subjects
        unnamed = self._unnamed(sides, required)
        spans = [span for found in places for span, _ in found] + [span for found in named.values() for span in found]
        invented, elsewhere = self._loose(record, own, sides, spans)
        invented = (*invented, *self._untrue(record, sides))
        repeated = self._repeated(sides, record.triples, spans)
        if triples is not None:
            repeated += self._twice(sides, own, places, named)
        explained = [_inside_any(word, spans) for word in sides.whole.words]
        swapped = self._swapped(own, places, sides, explained)
        misplaced = self._misplaced(own, places, sides, explained, NEW_WORDS if triples is None else 1.0, initial)
        return TextCheck(values, unnamed, invented, elsewhere, repeated, swapped, misplaced)

    def unnamed(self, record: Record, text: str) -> tuple[str, ...]:
        """The subjects of `record` that `text` nowhere names whole."""
        return self._unnamed(Sides(text), dict.fromkeys(triple.subject for triple in record.triples))

    def named(self, record: Record, text: str) -> tuple[str, ...]:
        """The subjects of `record` that `text` names whole, in the order in which it does."""
        sides = Sides(text)
        places = {name: self._places(sides, ways(name)) for name in {triple.subject for triple in record.triples}}
        return tuple(sorted((name for name in places if places[name]), key=lambda name: (min(places[name]), name)))

    def _unnamed(self, sides: Sides, subjects: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in subjects if words(entity_words(name)) and not self._places(sides, ways(name)))

    def _places(self, sides: Sides, ways_of: Iterable[Way]) -> set[Span]:
        return {place for way in ways_of for place in sides.places(way)}

    def values(self, record: Record, text: str, triples: Collection[int] | None = None) -> tuple[ValueCheck, ...]:
        """How `text` says the values of these triples of `record`, in its order; of all by default."""
        return self.check(record, text, triples).values

    def _values(self, own: Sequence[Triple], sides: Sides, named: dict[str, set[Span]]) -> list[list[tuple[Span, How]]]:
        """Where the value of each triple stands, each with what it was found by."""
        found: list[list[tuple[Span, How]]] = []
        for triple in own:
            by: dict[Span, How] = {}
            for way in self.ways(triple):
                for place in sides.places(way):
                    by.setdefault(place, way.how)
            found.append(sorted(by.items()))
        longer = {span for spans in named.values() for span in spans} | {span for own_ in found for span, _ in own_}
        free = [[(span, how) for span, how in places if not _inside(sides.text, span, longer)] for places in found]
        # a number below a thousand that two predicates have is said twice
        by_number: dict[str, list[int]] = {}
        for index, triple in enumerate(own):
            if small_number(triple.object):
                by_number.setdefault(words(entity_words(triple.object))[0].form, []).append(index)
        for indices in by_number.values():
            different = {own[index].predicate for index in indices}
            said = {span for index in indices for span, _ in free[index]}
            if len(said) < len(different) and len(indices) > 1:
                for index in indices[len(said) :]:
                    free[index] = []
        return free

    def _value(
        self, record: Record, triple: Triple, sides: Sides, found: Sequence[tuple[Span, How]], begun: set[int]
    ) -> ValueCheck:
        """`begun`: where names and values of the record begin in the text."""
        if found:
            order = ("literal", "rule", "lexicon", "phrase")
            span, how = min(found, key=lambda place: order.index(place[1]))
            return ValueCheck(triple, how, span)
        literal = entity_words(triple.object)
        if not words(literal):  # signs alone are compared as they are
            start = sides.text.find(literal)
            return (
                ValueCheck(triple, "missing")
                if start < 0
                else ValueCheck(triple, "literal", (start, start + len(literal)))
            )
        where = [self._places(sides, ways(piece)) for piece in parts(triple.object, names(record))]
        for first in sorted(where[0]) if where and all(where) else ():
            others = [{place for place in places if sides.one_sentence(first, place)} for places in where[1:]]
            if all(others) and not _goes_on(
                sides.text, first[1], begun.union(start for places in others for start, _ in places)
            ):
                return ValueCheck(triple, "rule", first)
        wanted = {word.form for word in words(literal)}
        some = wanted & {word.form for word in sides.whole.words}
        return ValueCheck(triple, "part" if some else "missing")

    def _loose(
        self, record: Record, own: Sequence[Triple], sides: Sides, spans: Sequence[Span]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        loose = [
            word
            for word in sides.whole.words
            if suspicious(word, self.lexicon.value_words, self.lexicon.lower) and not _inside_any(word, spans)
        ]
        if not loose:
            return (), ()
        allowed, everything = self.allowed(own), self.allowed(record.triples)
        invented: list[str] = []
        elsewhere: list[str] = []
        for word in loose:
            if word.form in allowed or any(akin(word, form) for form in allowed):
                continue
            (elsewhere if any(akin(word, form) for form in everything) else invented).append(word.raw)
        return tuple(dict.fromkeys(invented)), tuple(dict.fromkeys(elsewhere))

    def allowed(self, triples: Iterable[Triple]) -> frozenset[str]:
        """The normal forms of the words that triples give: of their parts, and of the wordings known for them."""
        return frozenset[str]().union(*map(self._allowed, triples))

    def _allowed_of(self, triple: Triple) -> frozenset[str]:
        found = {*self.lexicon.wordings.get(triple.predicate, ()), *forms(predicate_words(triple.predicate))}
        for part in (triple.subject, triple.object):
            found |= forms(part)
            for text in self.lexicon.variants.get(part, ()):
                found |= forms(text)
        return frozenset(found)

    def _untrue(self, record: Record, sides: Sides) -> tuple[str, ...]:
        """Phrases that say a truth value which the record does not have."""
        found: list[str] = []
        for predicate, phrases in self.lexicon.booleans.items():
            own = {entity_words(triple.object).lower() for triple in record.triples if triple.predicate == predicate}
            for value in phrases.keys() - own:
                for way in self._ways(predicate, value):
                    found += [sides.text[slice(*place)] for place in sides.places(way)]
        return tuple(dict.fromkeys(found))

    def _repeated(self, sides: Sides, triples: Sequence[Triple], spans: Sequence[Span]) -> tuple[str, ...]:
        said, text = sides.whole.words, sides.text
        if len({word.form for word in said}) == len(said):
            return ()
        twice = frozenset[tuple[str, str]]().union(
            *(doubled(part) for triple in triples for part in (triple.subject, triple.object))
        )
        found: list[str] = []
        for length in (1, 2, 3):
            for start in range(len(said) - 2 * length + 1):
                one, other = said[start : start + length], said[start + length : start + 2 * length]
                if [word.form for word in one] != [word.form for word in other] or other[0].initial:
                    continue
                if length == 1 and ((one[0].form, other[0].form) in twice or _border(text, one[0], other[0], spans)):
                    continue
                if any(word.kind == "number" for word in (*one, *other)) and length == 1:
                    continue
                found.append(" ".join(word.raw for word in (*one, *other)))
        return tuple(dict.fromkeys(found))

    def _twice(
        self,
        sides: Sides,
        own: Sequence[Triple],
        places: Sequence[Sequence[tuple[Span, How]]],
        named: Mapping[str, set[Span]],
    ) -> tuple[str, ...]:
        """Values that a fact says more often than its triples have them, or once more in part ("Axel").

        A place inside a name does not count, nor does a value that is said in parts.
        """
        subjects = {span for spans in named.values() for span in spans}
        everything = [*subjects, *(span for said in places for span, _ in said)]
        found: list[str] = []
        for triple, said in zip(own, places, strict=True):
            if said:
                parts_of = capitals(triple.object) - capitals(triple.subject) - forms(predicate_words(triple.predicate))
                found += [
                    word.raw
                    for word in sides.whole.words
                    if word.form in parts_of and word.raw[:1].isupper() and not _inside_any(word, everything)
                ]
            spans = [span for span, _ in said if not any(_overlap(span, name) for name in subjects)]
            apart: list[Span] = []
            for span in spans:
                if not apart or apart[-1][1] <= span[0]:
                    apart.append(span)
            owners = sum(any(span in spans for span, _ in other) for other in places)
            if len(apart) > max(owners, 1):
                found.append(sides.text[slice(*apart[0])])
        return tuple(dict.fromkeys(found))

    def _swapped(
        self,
        own: Sequence[Triple],
        places: Sequence[Sequence[tuple[Span, How]]],
        sides: Sides,
        explained: Sequence[bool],
    ) -> tuple[tuple[str, str], ...]:
        contexts = self.lexicon.contexts
        said = sides.whole.words
        where: list[tuple[Triple, int, int]] = []
        for triple, found in zip(own, places, strict=True):
            if len(found) == 1 and triple.predicate in contexts and (at := _words_at(said, found[0][0])):
                where.append((triple, *at))
        exchanged: list[tuple[str, str]] = []
        for (one, *place), (other, *another) in combinations(where, 2):
            if one.predicate == other.predicate or one.object == other.object or place == another:
                continue
            kind = shape(one.object)
            if kind == "words" or kind != shape(other.object):
                continue
            here = list(neighbours(said, place[0], place[1], explained))
            there = list(neighbours(said, another[0], another[1], explained))
            first, second = contexts[one.predicate], contexts[other.predicate]
            gain = fits(first, there) + fits(second, here) - fits(first, here) - fits(second, there)
            if gain > SWAP_MARGIN:
                exchanged.append((one.predicate, other.predicate))
        return tuple(exchanged)

    def _misplaced(
        self,
        own: Sequence[Triple],
        places: Sequence[Sequence[tuple[Span, How]]],
        sides: Sides,
        explained: Sequence[bool],
        most: float,
        initial: bool,
    ) -> tuple[Triple, ...]:
        """The triples whose values stand where training texts have none of the predicate ("is a 1766 gas"), nor at the
        end of its plain clause.
        """
        said = sides.whole.words
        found: list[Triple] = []
        for triple, said_at in zip(own, places, strict=True):
            contexts = self.lexicon.contexts.get(triple.predicate)
            at = [where for span, how in said_at if how != "phrase" and (where := _words_at(said, span))]
            if not contexts or not at or (not initial and any(start == 0 for start, _ in at)):
                continue  # what is before a fact's first word is not known here
            if all(unheard(contexts, next(neighbours(said, start, end, explained)), most) for start, end in at):
                plain = clause(triple).removesuffix(f"{entity_words(triple.object)}.")
                if not any(sides.text[: span[0]].endswith(plain) for span, _ in said_at):
                    found.append(triple)
        return tuple(found)


def _words_at(said: Sequence[Word], span: Span) -> tuple[int, int] | None:
    """The words ``[first, last)`` within a span of characters; None where it holds none."""
    inside = [index for index, word in enumerate(said) if span[0] <= word.start and word.end <= span[1]]
    return (inside[0], inside[-1] + 1) if inside else None


def _inside(text: str, span: Span, longer: Collection[Span]) -> bool:
    """Whether a place is a part of a longer name: neither an item of a list or address, nor a common word of a phrase
    ("Baku, Azerbaijan", "white rice").
    """
    if text[span[0]].islower():
        return False
    for start, end in longer:
        if (start, end) != span and start <= span[0] and span[1] <= end:
            before, behind = text[start : span[0]].rstrip(), text[span[1] : end]
            if not ((not before or _ITEM_ENDS.search(before)) and (not behind or _ITEM_BEGINS.match(behind))):
                return True
    return False


def _goes_on(text: str, end: int, starts: Collection[int]) -> bool:
    """Whether the first part of a value goes on otherwise than with its other parts: ``Austin, Minnesota``."""
    joint = re.compile(r",\s+(?=[A-Z0-9])|\s+(?:of|in|at)\s+(?:the\s+)?").match(text, end)
    return joint is not None and joint.end() not in starts


def _inside_any(word: Word, spans: Iterable[Span]) -> bool:
    return any(start <= word.start and word.end <= end for start, end in spans)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _border(text: str, one: Word, other: Word, spans: Sequence[Span]) -> bool:
    """Whether two equal words, with a mark between them, belong to two values or names that follow each other."""
    return (
        bool(text[one.end : other.start].strip())
        and any(one.end == end for _, end in spans)
        and any(other.start == start for start, _ in spans)
    )


def whole_values(checker: Checker, records: Sequence[Record], texts: Sequence[str]) -> tuple[Score, list[TextCheck]]:
    """The share of all triples, in percent, whose value the text of their record says whole; and the checks.

    The signature says how large the lexicon is, and behind ``said`` how many values were whole by what.

    Raises:
        AggGenError: not one text a record, or no records.
    """
    check_paired(records, texts)
    checks = [checker.check(record, text) for record, text in zip(records, texts, strict=True)]
    by = Counter(value.how for check in checks for value in check.values)
    total = sum(by.values())
    variants = sum(map(len, checker.lexicon.variants.values()))
    lexicon = "none" if checker.lexicon == Lexicon() else f"{variants} variants"
    said = ",".join(f"{how} {by[how]}" for how in ("literal", "rule", "lexicon", "phrase"))
    signature = f"values said whole (strict)|lexicon:{lexicon}|triples:{total}|said:{said}"
    return Score(100 * (total - by["part"] - by["missing"]) / total, signature), checks
