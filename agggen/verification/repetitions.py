"""Repetitions in a text: words that occur twice in a row, and values that a fact mentions too often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from agggen.records import Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.matched import MatchedText
from agggen.verification.normal import MONTHS, Span, Word, overlap, words
from agggen.verification.parts import list_items
from agggen.verification.record_words import capitals, doubled, forms
from agggen.verification.values import FUNCTION_WORDS

_TOUCHING = re.compile(r"\s+|\s*[-\u2013/]\s*")


def repeated_words(text: MatchedText) -> tuple[str, ...]:
    """Sequences of one to three words that occur twice in a row, except in names and between adjacent values; and names
    and values directly before or after one of their own words ("Anders William Anders", "1/19 19").
    """
    tokens = text.words
    word_forms = [word.form for word in tokens]
    if len(set(word_forms)) == len(tokens) and not any(word.kind == "date" for word in tokens):
        return ()
    allowed = frozenset[tuple[str, str]]().union(
        *(doubled(part) for triple in text.record.triples for part in (triple.subject, triple.object))
    )
    starts = {start for start, _ in text.spans}
    repetitions: list[str] = []
    for length in (1, 2, 3):
        for start in range(len(tokens) - 2 * length + 1):
            middle, end = start + length, start + 2 * length
            left, right = tokens[start], tokens[middle]
            if left.form != right.form or word_forms[start:middle] != word_forms[middle:end] or right.initial:
                continue
            if length > 1 and any(
                begin <= tokens[middle - 1].start and right.end <= last for begin, last in text.spans
            ):
                continue  # "Faber and Faber and"
            if length > 1 or not (
                "number" in (left.kind, right.kind)
                or (left.form, right.form) in allowed
                or (left.form in FUNCTION_WORDS and left.raw != right.raw and right.start in starts)  # "in In Rainbows"
                or _between_values(text, left, right)
            ):
                repetitions.append(" ".join(word.raw for word in tokens[start:end]))
    return tuple(dict.fromkeys((*repetitions, *_fragments(text))))


def _fragments(text: MatchedText) -> Iterator[str]:
    """Names and values next to a repetition of one of their words outside names and values, with this word."""
    tokens, whole = text.words, text.indexed.text
    for span in text.spans:
        if (word_span := text.indexed.words_in(span)) is None:
            continue
        first, end = word_span
        own = {form for word in tokens[first:end] if not word.optional for form in _forms_of(word)} - FUNCTION_WORDS
        for beside, left, right in ((first - 1, first - 1, first), (end, end - 1, end)):
            if not 0 <= beside < len(tokens) or text.explained[beside] or tokens[beside].form not in own:
                continue
            if _TOUCHING.fullmatch(whole, tokens[left].end, tokens[right].start) and not tokens[right].initial:
                yield whole[tokens[min(left, first)].start : tokens[max(right, end - 1)].end]


def _forms_of(word: Word) -> tuple[str, ...]:
    """The normal form of a word; of a date, the forms of year, month and day."""
    if word.kind != "date":
        return (word.form,)
    year, month, day = word.form.split("-")
    return year, MONTHS[int(month) - 1], str(int(day))


def repeated_values(text: MatchedText) -> tuple[str, ...]:
    """Values that a fact mentions more often than its triples contain them; also parts of values ("Axel").

    Also subjects that a sentence names a second time, directly before one of their values ("The leader of Greece is
    Greece Ann"). Occurrences of values inside a subject's name are ignored.
    """
    whole = text.indexed.text
    subjects = set(chain(*text.subjects.values()))
    repeated: list[str] = []
    for triple, matches in text.matches():
        name_parts = capitals(triple.object) - capitals(triple.subject) - forms(predicate_words(triple.predicate))
        outside = [word for word in text.unexplained if word.form in name_parts and word.raw[:1].isupper()]
        if not matches:  # the value is mentioned in parts, if at all
            mentions = Counter(word.form for word in outside)
            mentions -= Counter(word.form for word in words(entity_words(triple.object)))
            outside = [word for word in outside if word.form in mentions]
        repeated += [word.raw for word in outside]
        repeated += [item for item in list_items(triple.object) if _occurs_too_often(item, whole, text.triples)]
        repeated += [
            whole[slice(*name)]
            for earlier, name in pairwise(sorted(text.subjects.get(triple.subject, ())))
            if text.indexed.one_sentence(earlier, name)
            and any(whole[name[1] : start].isspace() for start, _ in matches)
        ]
        spans = [span for span in matches if not any(overlap(span, name) for name in subjects)]
        apart: list[Span] = []
        for span in spans:
            if not apart or apart[-1][1] <= span[0]:
                apart.append(span)
        owners = sum(any(span in spans for span in other) for other in text.values)
        if len(apart) > max(owners, 1):
            repeated.append(whole[slice(*apart[0])])
    return tuple(dict.fromkeys(repeated))


def _occurs_too_often(item: str, text: str, triples: Sequence[Triple]) -> bool:
    """Whether a text contains an item, in upper or lower case, more often than the names and values of the triples."""
    pattern = re.compile(rf"(?<!\w){re.escape(item)}(?!\w)", re.IGNORECASE)
    names = {entity_words(name) for triple in triples for name in (triple.subject, triple.object)}
    return len(pattern.findall(text)) > sum(len(pattern.findall(name)) for name in names)


def _between_values(text: MatchedText, left: Word, right: Word) -> bool:
    """Whether the first of two equal words ends a value or name, and the second, after punctuation, begins the next."""
    return (
        bool(text.indexed.text[left.end : right.start].strip())
        and any(left.end == end for _, end in text.spans)
        and any(right.start == start for start, _ in text.spans)
    )
