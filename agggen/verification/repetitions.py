"""Repetitions in a text: words that are repeated directly, and values that a fact mentions too often."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from agggen.records import Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.normal import MONTHS, Span, overlap, words
from agggen.verification.record_words import capitalised_forms, forms, list_items, repeated_word_pairs
from agggen.verification.values import FUNCTION_WORDS, MatchedText

_ADJACENT = re.compile(r"\s+|\s*[-\u2013/]\s*")  # the characters between two adjacent words, without other punctuation


def repeated_words(text: MatchedText) -> tuple[str, ...]:
    """Sequences of one to three words that directly follow themselves, not in a name or between two values, and names
    and values next to one of their own words ("Anders William Anders").
    """
    tokens, string = text.words, text.indexed.text
    word_forms = [word.form for word in tokens]
    if len(set(word_forms)) == len(tokens) and not any(word.kind == "date" for word in tokens):
        return ()
    allowed = frozenset[tuple[str, str]]().union(
        *(repeated_word_pairs(part) for triple in text.record.triples for part in (triple.subject, triple.object))
    )
    starts = {start for start, _ in text.spans}
    ends = {end for _, end in text.spans}

    repetitions: list[str] = []
    for length in (1, 2, 3):
        for start in range(len(tokens) - 2 * length + 1):
            middle, end = start + length, start + 2 * length
            left, right = tokens[start], tokens[middle]
            if left.form != right.form or word_forms[start:middle] != word_forms[middle:end] or right.initial:
                continue
            if length > 1:  # allows "Faber and Faber and"
                is_allowed = any(first <= tokens[middle - 1].start and right.end <= last for first, last in text.spans)
            else:  # allows "in In Rainbows" and "New York, York"
                is_allowed = (
                    "number" in (left.kind, right.kind)
                    or (left.form, right.form) in allowed
                    or (left.form in FUNCTION_WORDS and left.raw != right.raw and right.start in starts)
                    or (left.end in ends and right.start in starts and bool(string[left.end : right.start].strip()))
                )
            if not is_allowed:
                repetitions.append(" ".join(word.raw for word in tokens[start:end]))
    return tuple(dict.fromkeys((*repetitions, *_values_beside_own_words(text))))


def _values_beside_own_words(text: MatchedText) -> Iterator[str]:
    """Yields names and values with an adjacent uncovered word that repeats one of their words."""
    tokens, string = text.words, text.indexed.text
    for first, end in filter(None, map(text.indexed.words_in, text.spans)):
        own_forms = {word.form for word in tokens[first:end] if word.kind != "date" and not word.optional}
        for year, month, day in (word.form.split("-") for word in tokens[first:end] if word.kind == "date"):
            own_forms |= {year, MONTHS[int(month) - 1], day}
        own_forms -= FUNCTION_WORDS
        for neighbour, left, right in ((first - 1, first - 1, first), (end, end - 1, end)):
            if not 0 <= neighbour < len(tokens) or text.covered[neighbour] or tokens[neighbour].form not in own_forms:
                continue
            if _ADJACENT.fullmatch(string, tokens[left].end, tokens[right].start) and not tokens[right].initial:
                yield string[tokens[min(left, first)].start : tokens[max(right, end - 1)].end]


def repeated_values(text: MatchedText) -> tuple[str, ...]:
    """Values and parts of values ("Axel") that a fact mentions more often than its triples have them, and subjects that
    are named a second time directly before their value ("The leader of Greece is Greece Ann").
    """
    string = text.indexed.text
    subjects = set(chain(*text.subjects.values()))
    repeated: list[str] = []
    for triple, matches in text.matches():
        other_forms = capitalised_forms(triple.subject) | forms(predicate_words(triple.predicate))
        name_parts = capitalised_forms(triple.object) - other_forms
        single_words = [word for word in text.uncovered if word.form in name_parts and word.raw[:1].isupper()]
        if not matches:  # the value is mentioned in parts, if at all
            mentions = Counter(word.form for word in single_words)
            mentions -= Counter(word.form for word in words(entity_words(triple.object)))
            single_words = [word for word in single_words if word.form in mentions]
        repeated += [word.raw for word in single_words]
        repeated += [item for item in list_items(triple.object) if _occurs_too_often(item, string, text.triples)]
        repeated += [
            string[slice(*name)]
            for earlier, name in pairwise(sorted(text.subjects.get(triple.subject, ())))
            if text.indexed.in_same_sentence(earlier, name)
            and any(string[name[1] : start].isspace() for start, _ in matches)
        ]
        spans = [span for span in matches if not any(overlap(span, name) for name in subjects)]
        disjoint: list[Span] = []
        for span in spans:
            if not disjoint or disjoint[-1][1] <= span[0]:
                disjoint.append(span)
        n_triples = sum(any(span in spans for span in value_matches) for value_matches in text.values)
        if len(disjoint) > max(n_triples, 1):
            repeated.append(string[slice(*disjoint[0])])
    return tuple(dict.fromkeys(repeated))


def _occurs_too_often(item: str, text: str, triples: Sequence[Triple]) -> bool:
    """Whether a text contains an item, in any case, more often than the names and values of the triples."""

    pattern = re.compile(rf"(?<!\w){re.escape(item)}(?!\w)", re.IGNORECASE)
    names = {entity_words(name) for triple in triples for name in (triple.subject, triple.object)}
    return len(pattern.findall(text)) > sum(len(pattern.findall(name)) for name in names)
