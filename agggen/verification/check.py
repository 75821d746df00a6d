"""The strict check of a text against its record: omitted, incomplete, hallucinated, repeated and swapped values.

A value is *whole* if all its words occur in the text, adjacent and in order, in the normal form of
``agggen.verification.normal``. Spellings derived by rule (``values.value_wordings``), wordings learned from training
texts (``lexicon``) and, for truth values, learned phrases are accepted, too. A value inside a longer name does not
count: "Azerbaijan Premier League" does not mention "Azerbaijan" if a triple has the league as its value; "Baku,
Azerbaijan" does. ``agggen.verification.lenient`` is the lenient check, which compares bags of words.

The check compares values, not relations: "died in" in place of "born in" is only detected if two values of the same
kind are exchanged (``swapped``) and the lexicon has contexts of both predicates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.clauses import clause, spoken
from agggen.verification.exchanges import exchanged
from agggen.verification.lexicon import (
    BOOLEANS,
    Lexicon,
    content_pairs,
    fits_better,
    has_enough_values,
    log_likelihood,
    neighbours,
    never_precedes,
    suspicious,
)
from agggen.verification.normal import Span, containing, overlap, words
from agggen.verification.parts import in_parts, named_in_parts, parts, run_together
from agggen.verification.record_words import akin, forms, names, shape, small_number, unsupported
from agggen.verification.repetitions import repeated_values, repeated_words
from agggen.verification.results import TextCheck, ValueCheck
from agggen.verification.values import (
    MATCH_KINDS,
    Match,
    MatchKind,
    TextIndex,
    Wording,
    to_wording,
    value_wordings,
)

MAX_NEW_WORD_RATE = 0.01
"""An unseen word before a predicate's value is a fault if the Good-Turing probability of new words is at most this."""
MISPLACED_MARGIN = 2.5
"""A value is misplaced if another predicate gives its context a log-likelihood that is higher by more than this."""
SWAP_MARGIN = {"number": 6.0, "date": 6.0, "words": 11.0}
"""By `shape`: two values are swapped if the log-likelihood of the exchanged order is higher by more than this."""

_ITEM_ENDS = re.compile(r"(?:[,(/;]|\b(?:and|or))$")
_ITEM_BEGINS = re.compile(r"\s*[,)/;]|\s+(?:(?:and|or)\b|[-\u2013])")


class Checker:
    """Checks texts against records, with the wordings of a lexicon. [default: only wordings derived by rule]"""

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        self.lexicon = lexicon or Lexicon()
        self._wordings = lru_cache(maxsize=1 << 14)(self._wordings_of)
        self._allowed = lru_cache(maxsize=1 << 14)(self._allowed_of)

    def wordings(self, triple: Triple) -> tuple[Wording, ...]:
        """The accepted wordings of the triple's object, the literal one first.

        Those of a truth value are the learned phrases, or if there are none, the words of the predicate with the value,
        as in the plain clause "Oda: is alive: true."
        """
        return self._wordings(triple.predicate, triple.object)

    def _wordings_of(self, predicate: str, value: str) -> tuple[Wording, ...]:
        truth = entity_words(value).lower()
        if truth in BOOLEANS and predicate in self.lexicon.booleans:
            plain = f"{predicate_words(predicate)} {truth}"
            phrases = self.lexicon.booleans[predicate].get(truth) or (plain,)
            return tuple(wording for text in phrases if (wording := to_wording(text, "phrase")))
        wordings = {wording.key: wording for wording in value_wordings(value)}
        for text in self.lexicon.variants.get(value, ()):
            if wording := to_wording(text, "lexicon"):
                wordings.setdefault(wording.key, wording)
        return tuple(wordings.values())

    def check(
        self,
        record: Record,
        text: str,
        triples: Collection[int] | None = None,
        subjects: Collection[str] | None = None,
        initial: bool = True,
    ) -> TextCheck:
        """Checks `text` against `record`.

        Args:
            record: numbers, names and value words that are not in the record are faults.
            text: the complete text, or the text of one fact.
            triples: indices of the triples that `text` must express; values of the other triples are reported as
                ``elsewhere``. [default: all]
            subjects: the subjects that `text` must name, in full or in parts. [default: those of `triples`]
            initial: whether `text` begins a sentence.
        """
        return TextCheck(**dict(self.findings(record, text, triples, subjects, initial)))

    def findings(
        self,
        record: Record,
        text: str,
        triples: Collection[int] | None,
        subjects: Collection[str] | None,
        initial: bool,
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yields the fields of `TextCheck` by name, cheap ones first; arguments as in `check`."""
        indexed = TextIndex(text, initial)
        indices = range(len(record.triples)) if triples is None else sorted(triples)
        required = [record.triples[index] for index in indices]
        subject_spans = _name_spans(record, (triple.subject for triple in required), indexed)
        yield "unnamed", _unnamed(subject_spans if subjects is None else _name_spans(record, subjects, indexed))
        occurrences = self._occurrences(required, indexed, subject_spans)
        spans = [span for matches in occurrences for span, _ in matches] + list(chain(*subject_spans.values()))
        starts = {start for start, _ in spans}
        matched = zip(required, occurrences, strict=True)
        yield "values", tuple(self._check_value(record, *pair, indexed, starts) for pair in matched)
        repeated = repeated_words(indexed, record.triples, spans)
        if triples is not None:
            repeated += repeated_values(indexed, required, occurrences, subject_spans)
        yield "repeated", repeated
        explained = indexed.covered(spans)
        rate = MAX_NEW_WORD_RATE if triples is None else 1.0
        yield "misplaced", self._misplaced(required, occurrences, indexed, explained, rate, initial)
        invented, elsewhere = self._hallucinated(record, required, indexed, explained)
        if triples is not None:
            in_parts = [triple for triple, matches in zip(required, occurrences, strict=True) if not matches]
            own = frozenset[str]().union(*(forms(triple.object) for triple in in_parts))
            own = own.union(*(forms(predicate_words(triple.predicate)) for triple in required))
            values = _of_other_facts(record, indices, indexed, spans, own)
            elsewhere += tuple(value for value in values if not set(elsewhere) & {word.raw for word in words(value)})
        yield "elsewhere", elsewhere
        yield "invented", (*invented, *self._contradictions(record, indexed))
        allowed = self.allowed(record.triples)
        phrases = {span for matches in occurrences for span, how in matches if how == "phrase"}
        said = indexed.covered(span for span in spans if span not in phrases)  # "a friendly restaurant" needs a type
        yield "unsupported", unsupported(indexed.whole.words, said, self.lexicon, record, allowed)
        swapped = self._swapped(required, occurrences, indexed, explained)
        yield "swapped", swapped + exchanged(required, occurrences, indexed)

    def unnamed(self, record: Record, text: str) -> tuple[str, ...]:
        """The subjects of `record` that no sentence of `text` names, in full or in parts."""
        return _unnamed(_name_spans(record, (triple.subject for triple in record.triples), TextIndex(text)))

    def values(self, record: Record, text: str, triples: Collection[int] | None = None) -> tuple[ValueCheck, ...]:
        """``check(...).values``: the check of each value, in the record's order."""
        findings = self.findings(record, text, triples, None, True)
        return next(finding for name, finding in findings if name == "values")

    def _occurrences(
        self, triples: Sequence[Triple], indexed: TextIndex, subject_spans: Mapping[str, set[Span]]
    ) -> list[list[Match]]:
        """The matches of each triple's value, except matches inside longer names, or that begin inside one."""
        matches: list[list[Match]] = []
        for triple in triples:
            kinds: dict[Span, MatchKind] = {}
            for wording in self.wordings(triple):
                for span in indexed.find(wording):
                    kinds.setdefault(span, wording.how)
            matches.append(sorted(kinds.items()))
        longer = {*chain(*subject_spans.values()), *(span for spans in matches for span, _ in spans)}
        accepted = [
            [(span, how) for span, how in spans if not _inside_name(indexed.text, span, longer)] for spans in matches
        ]
        # a number below 1000 that is the value of several predicates must be mentioned once for each
        by_number: dict[str, list[int]] = {}
        for index, triple in enumerate(triples):
            if small_number(triple.object):
                by_number.setdefault(words(entity_words(triple.object))[0].form, []).append(index)
        for indices in by_number.values():
            predicates = {triples[index].predicate for index in indices}
            spans = {span for index in indices for span, _ in accepted[index]}
            if len(spans) < len(predicates):
                for index in indices[len(spans) :]:
                    accepted[index] = []
        return accepted

    def _check_value(
        self, record: Record, triple: Triple, matches: Sequence[Match], indexed: TextIndex, starts: set[int]
    ) -> ValueCheck:
        """The check of one value; names and values of the record begin at the offsets `starts` of the text."""
        if run_together(triple.object, indexed.text):
            return ValueCheck(triple, "part")
        if matches:
            span, how = min(matches, key=lambda match: MATCH_KINDS.index(match[1]))
            return ValueCheck(triple, how, span)
        literal = entity_words(triple.object)
        if not words(literal):  # punctuation only: compared literally
            start = indexed.text.find(literal)
            end = start + len(literal)
            return ValueCheck(triple, "missing") if start < 0 else ValueCheck(triple, "literal", (start, end))
        if first_part := in_parts(parts(triple.object, names(record)), indexed, starts):
            return ValueCheck(triple, "rule", first_part)
        shared = {word.form for word in words(literal)} & {word.form for word in indexed.whole.words}
        return ValueCheck(triple, "part" if shared else "missing")

    def _hallucinated(
        self, record: Record, triples: Sequence[Triple], indexed: TextIndex, explained: Sequence[bool]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Suspicious words and ``value_pairs`` that no triple allows, and those that only other triples allow."""
        tokens, pairs = indexed.whole.words, self.lexicon.value_pairs
        candidates = [
            word
            for index, (word, covered) in enumerate(zip(tokens, explained, strict=True))
            if not covered
            and (
                suspicious(word, self.lexicon.value_words, self.lexicon.lower)
                or (word.form in pairs and any(pair in pairs[word.form] for pair in content_pairs(tokens, index)))
            )
        ]
        if not candidates:
            return (), ()
        allowed, allowed_by_record = self.allowed(triples), self.allowed(record.triples)
        invented: list[str] = []
        elsewhere: list[str] = []
        for word in candidates:
            if word.form in allowed or any(akin(word, form) for form in allowed):
                continue
            (elsewhere if any(akin(word, form) for form in allowed_by_record) else invented).append(word.raw)
        return tuple(dict.fromkeys(invented)), tuple(dict.fromkeys(elsewhere))

    def allowed(self, triples: Iterable[Triple]) -> frozenset[str]:
        """The normal forms that a text of `triples` may contain: those of their words and of learned wordings."""
        return frozenset[str]().union(*map(self._allowed, triples))

    def _allowed_of(self, triple: Triple) -> frozenset[str]:
        named = f"{predicate_words(triple.predicate)} {self.lexicon.template(triple.predicate) or ''}"
        allowed = {*self.lexicon.wordings.get(triple.predicate, ()), *forms(named)}
        for part in (triple.subject, triple.object):
            allowed |= forms(part)
            for text in self.lexicon.variants.get(part, ()):
                allowed |= forms(text)
        return frozenset(allowed)

    def _contradictions(self, record: Record, indexed: TextIndex) -> tuple[str, ...]:
        """Phrases that express a truth value that the record does not have."""
        own = {(triple.predicate, entity_words(triple.object).lower()) for triple in record.triples}
        spans = (
            span
            for predicate, phrases in self.lexicon.booleans.items()
            for value in phrases
            if (predicate, value) not in own
            for wording in self._wordings(predicate, value)
            for span in indexed.find(wording)
        )
        return tuple(dict.fromkeys(indexed.text[slice(*span)] for span in spans))

    def _swapped(
        self,
        triples: Sequence[Triple],
        occurrences: Sequence[Sequence[Match]],
        indexed: TextIndex,
        explained: Sequence[bool],
    ) -> tuple[tuple[str, str], ...]:
        """Pairs of predicates whose values fit each other's contexts better than their own, by `SWAP_MARGIN`.

        Values of the shape ``words`` are only compared if both predicates have enough contexts.
        """
        contexts = self.lexicon.contexts
        tokens = indexed.whole.words
        located: list[tuple[Triple, tuple[int, int]]] = []
        for triple, matches in zip(triples, occurrences, strict=True):
            if len(matches) != 1 or matches[0][1] == "phrase" or triple.predicate not in contexts:
                continue
            if word_span := indexed.words_in(matches[0][0]):
                located.append((triple, word_span))
        pairs: list[tuple[str, str]] = []
        for (left, left_words), (right, right_words) in combinations(located, 2):
            if left.predicate == right.predicate or left.object == right.object or left_words == right_words:
                continue
            kind = shape(left.object)
            few = not all(has_enough_values(contexts[triple.predicate]) for triple in (left, right))
            if kind != shape(right.object) or (kind == "words" and few):
                continue
            left_context, right_context = (
                list(neighbours(tokens, *word_span, explained)) for word_span in (left_words, right_words)
            )
            left_counts, right_counts = contexts[left.predicate], contexts[right.predicate]
            swapped = log_likelihood(left_counts, right_context) + log_likelihood(right_counts, left_context)
            actual = log_likelihood(left_counts, left_context) + log_likelihood(right_counts, right_context)
            if swapped - actual > SWAP_MARGIN[kind]:
                pairs.append((left.predicate, right.predicate))
        return tuple(pairs)

    def _misplaced(
        self,
        triples: Sequence[Triple],
        occurrences: Sequence[Sequence[Match]],
        indexed: TextIndex,
        explained: Sequence[bool],
        max_new_word_rate: float,
        initial: bool,
    ) -> tuple[Triple, ...]:
        """The triples whose value occurs only in wrong contexts: contexts that fit another predicate with this value
        better, ``unrelated_pairs``, or after a word that never precedes the predicate's values in training texts ("is a
        1766 gas"). The words before the value in the triple's ``clause`` are a right context.
        """
        tokens, contexts = indexed.whole.words, self.lexicon.contexts
        misplaced: list[Triple] = []
        for triple, matches in zip(triples, occurrences, strict=True):
            own = contexts.get(triple.predicate)
            word_spans = [at for span, how in matches if how != "phrase" and (at := indexed.words_in(span))]
            if not own or not word_spans or (not initial and any(start == 0 for start, _ in word_spans)):
                continue  # the words before the fact are unknown
            around = [list(neighbours(tokens, start, end, explained)) for start, end in word_spans]
            names = {*self.lexicon.shared.get(triple.object, ())} - {triple.predicate} if has_enough_values(own) else ()
            others = [contexts[name] for name in names if has_enough_values(contexts.get(name, {}))]
            if all(
                never_precedes(own, context[0], max_new_word_rate)
                or any(fits_better(other, own, context) > MISPLACED_MARGIN for other in others)
                or self._unrelated(triple.predicate, indexed, at)
                for at, context in zip(word_spans, around, strict=True)
            ):
                before, _, _ = clause(triple, self.lexicon.articles).rpartition(spoken(triple.object))
                if not any(indexed.text[: span[0]].endswith(before) for span, _ in matches):
                    misplaced.append(triple)
        return tuple(misplaced)

    def _unrelated(self, predicate: str, indexed: TextIndex, at: tuple[int, int]) -> bool:
        """Whether a value of one word and the word after it are one of the predicate's ``unrelated_pairs``."""
        pair = indexed.whole.words[at[0] : at[0] + 2]
        if at[1] > at[0] + 1 or len(pair) < 2 or pair[1].initial or "," in indexed.text[pair[0].end : pair[1].start]:
            return False
        return f"{pair[0].form} {pair[1].form}" in self.lexicon.unrelated_pairs.get(predicate, ())


def _name_spans(record: Record, subjects: Iterable[str], indexed: TextIndex) -> dict[str, set[Span]]:
    """The spans that name each subject, in full or else in parts (`named_in_parts`)."""
    found = {name: indexed.find(*value_wordings(name)) for name in subjects}
    if any("," in name for name, spans in found.items() if not spans):
        of_record = {name: indexed.find(*value_wordings(name)) for name in names(record)}
        return {name: spans or named_in_parts(name, of_record, indexed) for name, spans in found.items()}
    return found


def _unnamed(spans: Mapping[str, Collection[Span]]) -> tuple[str, ...]:
    """The names without a span; names without words are ignored."""
    return tuple(name for name, own in spans.items() if not own and words(entity_words(name)))


def passes(findings: Iterable[tuple[str, tuple[Any, ...]]]) -> bool:
    """Whether the findings of a text contain no fault; stops at the first fault."""
    return not any(
        not all(value.whole for value in finding) if name == "values" else finding for name, finding in findings
    )


def _of_other_facts(
    record: Record, indices: Collection[int], indexed: TextIndex, spans: Collection[Span], own_forms: frozenset[str]
) -> tuple[str, ...]:
    """The names and numbers outside `spans` that are values of triples not in `indices`.

    Args:
        spans: the subjects and values of the triples in `indices`.
        own_forms: normal forms that these triples allow. A value is ignored if the text has none of its other forms.
    """
    own = {name for index in indices for name in (record.triples[index].subject, record.triples[index].object)}
    text_forms = {word.form for word in indexed.whole.words}
    mentions: list[str] = []
    for index, triple in enumerate(record.triples):
        literal = entity_words(triple.object)
        if index in indices or triple.object in own or forms(triple.object).isdisjoint(text_forms - own_forms):
            continue
        if literal[:1].isupper() or literal[:1].isdigit():
            matches = sorted(indexed.find(*value_wordings(triple.object)))
            mentions += [indexed.text[slice(*match)] for match in matches if not any(overlap(match, s) for s in spans)]
    return tuple(dict.fromkeys(mentions))


def _inside_name(text: str, span: Span, spans: Collection[Span]) -> bool:
    """Whether a span is part of a longer name, not a list item ("Baku, Azerbaijan") or in lower case ("white rice"), or
    begins within another name: "Torino F.C. Bari 1908" does not mention ``F.C. Bari 1908``.
    """
    if text[span[0]].islower():
        return False
    for start, end in containing(span, spans):
        before, behind = text[start : span[0]].rstrip(), text[span[1] : end]
        if not ((not before or _ITEM_ENDS.search(before)) and (not behind or _ITEM_BEGINS.match(behind))):
            return True
    begun = (start for start, end in spans if start < span[0] < end < span[1])
    return any(not _ITEM_ENDS.search(text[start : span[0]].rstrip()) for start in begun)
