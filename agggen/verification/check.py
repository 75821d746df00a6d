"""The strict check of a text against its record: omitted, incomplete, hallucinated, repeated and swapped values.

A value is *whole* if all its words occur in the text, adjacent and in order, compared in the normal form of
``agggen.verification.normal``. Other spellings (``values.value_wordings``), wordings learned from training texts
(``lexicon``) and, for truth values, learned phrases also count; a value inside a longer name does not.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.contexts import misplaced_triples, swapped_predicates, swapped_subjects
from agggen.verification.lexicon import BOOLEANS, Lexicon, content_pairs, is_restricted
from agggen.verification.normal import Span, containing, overlap, words
from agggen.verification.record_words import (
    find_name_parts,
    find_parts,
    forms,
    is_related,
    lacks_separator,
    list_items,
    names,
    repeated_values,
    repeated_words,
    small_number,
    unsupported_words,
    value_parts,
)
from agggen.verification.results import TextCheck, ValueCheck
from agggen.verification.values import (
    MATCH_KINDS,
    MatchedText,
    Matches,
    MatchKind,
    TextIndex,
    Wording,
    to_wording,
    value_wordings,
)

_MAX_NEW_WORD_RATE = 0.01  # of complete texts; see `contexts.misplaced_triples`
_SEPARATOR_BEFORE = re.compile(r"(?:[,(/;]|\b(?:and|or))$")  # of list items
_SEPARATOR_AFTER = re.compile(r"\s*[,)/;]|\s+(?:(?:and|or)\b|[-\u2013])")


class Checker:
    """Checks texts against records; without a `lexicon`, values are matched by rule only."""

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        self.lexicon = lexicon or Lexicon()
        self._wordings = lru_cache(maxsize=1 << 14)(self._wordings_of)
        self._allowed = lru_cache(maxsize=1 << 14)(self._allowed_of)

    def wordings(self, triple: Triple) -> tuple[Wording, ...]:
        """The accepted wordings of the object, the literal one first; of a truth value, the learned phrases."""
        return self._wordings(triple.predicate, triple.object)

    def _wordings_of(self, predicate: str, value: str) -> tuple[Wording, ...]:
        truth = entity_words(value).lower()
        if truth in BOOLEANS and predicate in self.lexicon.booleans:
            phrases = self.lexicon.booleans[predicate].get(truth) or (f"{predicate_words(predicate)} {truth}",)
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
        """Checks `text`, a complete text or a fact, which begins a sentence if `initial`, against `record`.

        It must express the values of `triples` (indices; by default all), and name `subjects` (by default those of
        `triples`) in full or in parts. Values of other triples are reported as ``elsewhere``.
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
        """Yields (name, value) of each field of `TextCheck`, cheapest first; arguments as in `check`."""
        is_fact, indexed = triples is not None, TextIndex(text, initial)
        required = record.triples if triples is None else [record.triples[index] for index in sorted(triples)]
        subject_spans = _name_spans(record, (triple.subject for triple in required), indexed)
        yield "unnamed", _unnamed(subject_spans if subjects is None else _name_spans(record, subjects, indexed))
        values = self._values(required, indexed, subject_spans)
        matched = MatchedText(record, required, indexed, values, subject_spans)
        yield "values", tuple(_check_value(matched, triple, spans) for triple, spans in matched.matches())
        yield "repeated", repeated_words(matched) + (repeated_values(matched) if is_fact else ())
        yield "misplaced", misplaced_triples(matched, self.lexicon, 1.0 if is_fact else _MAX_NEW_WORD_RATE, initial)
        invented, elsewhere = self._hallucinated(matched)
        if is_fact:
            mentions = _values_of_other_facts(matched)
            elsewhere += tuple(value for value in mentions if not set(elsewhere) & {word.raw for word in words(value)})
        yield "elsewhere", elsewhere
        yield "invented", (*invented, *self._contradictions(matched))
        yield "unsupported", unsupported_words(matched, self.lexicon, self.allowed(record.triples))
        yield "swapped", swapped_predicates(matched, self.lexicon.contexts) + swapped_subjects(matched)

    def unnamed_subjects(self, record: Record, text: str) -> tuple[str, ...]:
        """The subjects of `record` that no sentence of `text` names, in full or in parts."""
        return _unnamed(_name_spans(record, (triple.subject for triple in record.triples), TextIndex(text)))

    def values(self, record: Record, text: str, triples: Collection[int] | None = None) -> tuple[ValueCheck, ...]:
        """``check(...).values``, without the rest of the check."""
        findings = self.findings(record, text, triples, None, True)
        return next(finding for name, finding in findings if name == "values")

    def _values(
        self, triples: Sequence[Triple], indexed: TextIndex, subjects: Mapping[str, Collection[Span]]
    ) -> list[Matches]:
        """The matches of each triple's value, except those inside a longer name (`_inside_name`)."""
        matches: list[dict[Span, MatchKind]] = [
            {span: wording.kind for wording in reversed(self.wordings(triple)) for span in indexed.find(wording)}
            for triple in triples
        ]
        all_spans = {*chain(*subjects.values()), *chain(*matches)}
        accepted: list[Matches] = [
            {span: kind for span, kind in sorted(kinds.items()) if not _inside_name(indexed.text, span, all_spans)}
            for kinds in matches
        ]
        # a number below 1000 that is the value of n predicates must be mentioned n times
        by_number: dict[str, list[int]] = defaultdict(list)
        for index, triple in enumerate(triples):
            if number := small_number(triple.object):
                by_number[number].append(index)
        for indices in by_number.values():
            spans = {span for index in indices for span in accepted[index]}
            if len(spans) < len({triples[index].predicate for index in indices}):
                for index in indices[len(spans) :]:
                    accepted[index] = {}
        return accepted

    def _hallucinated(self, text: MatchedText) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(words that no triple of the record licenses, words that only triples of other facts license)."""
        pairs = self.lexicon.value_pairs
        candidates = [
            word
            for index, (word, covered) in enumerate(zip(text.words, text.covered, strict=True))
            if not covered
            and (
                is_restricted(word, self.lexicon.value_words, self.lexicon.lower)
                or (word.form in pairs and any(pair in pairs[word.form] for pair in content_pairs(text.words, index)))
            )
        ]
        if not candidates:
            return (), ()
        allowed, allowed_by_record = self.allowed(text.triples), self.allowed(text.record.triples)
        invented: list[str] = []
        elsewhere: list[str] = []
        for word in candidates:
            if word.form in allowed or any(is_related(word, form) for form in allowed):
                continue
            (elsewhere if any(is_related(word, form) for form in allowed_by_record) else invented).append(word.raw)
        return tuple(dict.fromkeys(invented)), tuple(dict.fromkeys(elsewhere))

    def allowed(self, triples: Iterable[Triple]) -> frozenset[str]:
        """The normal forms that `triples` license: those of their words and learned wordings."""
        return frozenset[str]().union(*map(self._allowed, triples))

    def _allowed_of(self, triple: Triple) -> frozenset[str]:
        predicate_text = f"{predicate_words(triple.predicate)} {self.lexicon.template(triple.predicate) or ''}"
        entities = (triple.subject, triple.object)
        variants = chain.from_iterable(self.lexicon.variants.get(entity, ()) for entity in entities)
        learned = self.lexicon.wordings.get(triple.predicate, ())
        return frozenset(learned).union(*map(forms, (predicate_text, *entities, *variants)))

    def _contradictions(self, text: MatchedText) -> tuple[str, ...]:
        """Phrases of the text that express a truth value that is not in the record."""
        record_values = {(triple.predicate, entity_words(triple.object).lower()) for triple in text.record.triples}
        spans = (
            span
            for predicate, phrases in self.lexicon.booleans.items()
            for value in phrases
            if (predicate, value) not in record_values
            for wording in self._wordings(predicate, value)
            for span in text.indexed.find(wording)
        )
        return tuple(dict.fromkeys(text.indexed.text[slice(*span)] for span in spans))


def passes(findings: Iterable[tuple[str, tuple[Any, ...]]]) -> bool:
    """Whether the `findings` of a `Checker` contain no fault; stops at the first fault."""
    return all(all(value.whole for value in finding) if name == "values" else not finding for name, finding in findings)


def _name_spans(record: Record, subjects: Iterable[str], indexed: TextIndex) -> dict[str, set[Span]]:
    """By subject: the spans that name it in full, otherwise in parts (`find_name_parts`)."""
    in_full = {name: indexed.find(*value_wordings(name)) for name in subjects}
    if any("," in name for name, spans in in_full.items() if not spans):
        record_spans = {name: indexed.find(*value_wordings(name)) for name in names(record)}
        return {name: spans or find_name_parts(name, record_spans, indexed) for name, spans in in_full.items()}
    return in_full


def _unnamed(name_spans: Mapping[str, Collection[Span]]) -> tuple[str, ...]:
    """The names without a span; names that consist of punctuation are ignored."""
    return tuple(name for name, spans in name_spans.items() if not spans and words(entity_words(name)))


def _check_value(text: MatchedText, triple: Triple, spans: Matches) -> ValueCheck:
    if lacks_separator(triple.object, text.indexed.text):
        return ValueCheck(triple, "part")
    if spans:
        span = min(spans, key=lambda span: MATCH_KINDS.index(spans[span]))
        return ValueCheck(triple, spans[span], span)
    literal = entity_words(triple.object)
    if not words(literal) and (start := text.indexed.text.find(literal)) >= 0:  # punctuation only: compared literally
        return ValueCheck(triple, "literal", (start, start + len(literal)))
    starts = {start for start, _ in text.spans}
    parts = value_parts(triple.object, names(text.record))
    if not list_items(triple.object):  # "New York" may stand for ``New York, New York``
        parts = tuple(dict.fromkeys(parts))
    if first_part := find_parts(parts, text.indexed, starts):
        return ValueCheck(triple, "rule", first_part)
    shared = {word.form for word in words(literal)} & {word.form for word in text.words}
    return ValueCheck(triple, "part" if shared else "missing")


def _values_of_other_facts(text: MatchedText) -> tuple[str, ...]:
    """Mentions of names and numbers of other facts only, unless the fact's predicates or values have their words."""
    own_names = {name for triple in text.triples for name in (triple.subject, triple.object)}
    own_forms = frozenset[str]().union(
        *(forms(predicate_words(triple.predicate)) for triple in text.triples),
        *(forms(triple.object) for triple, spans in text.matches() if not spans),
    )
    other_forms = {word.form for word in text.words} - own_forms
    mentions: list[str] = []
    for triple in text.record.triples:
        literal = entity_words(triple.object)
        if triple.object in own_names or forms(triple.object).isdisjoint(other_forms):
            continue
        if literal[:1].isupper() or literal[:1].isdigit():
            mentions += [
                text.indexed.text[slice(*span)]
                for span in sorted(text.indexed.find(*value_wordings(triple.object)))
                if not any(overlap(span, own_span) for own_span in text.spans)
            ]
    return tuple(dict.fromkeys(mentions))


def _inside_name(text: str, span: Span, spans: Collection[Span]) -> bool:
    """Whether a name is inside one of `spans`, or begins in one, and is not a list item ("Baku, Azerbaijan")."""
    if text[span[0]].islower():
        return False
    for start, end in containing(span, spans):
        before, after = text[start : span[0]].rstrip(), text[span[1] : end]
        if not ((not before or _SEPARATOR_BEFORE.search(before)) and (not after or _SEPARATOR_AFTER.match(after))):
            return True
    overlapping = (start for start, end in spans if start < span[0] < end < span[1])
    return any(not _SEPARATOR_BEFORE.search(text[start : span[0]].rstrip()) for start in overlapping)
