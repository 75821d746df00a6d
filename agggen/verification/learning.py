"""Learns the lexicon of the strict check from training texts and their records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from agggen.records import Record
from agggen.text.linearise import entity_words
from agggen.verification.check import Checker
from agggen.verification.lexicon import BOOLEANS, Lexicon, content_pairs, neighbours, suspicious
from agggen.verification.normal import Word, words
from agggen.verification.record_words import akin, forms
from agggen.verification.templates import learn_articles, learn_templates
from agggen.verification.values import FUNCTION_WORDS, TextIndex, negated, value_wordings

Gram = tuple[str, ...]
"""The normal forms of adjacent words."""
Value = tuple[str, str]
"""A predicate and its value."""

MAX_WORDS = 4
"""Maximum number of words of a learned wording."""
_MIN_TEXTS = 3
"""Minimum number of texts that contain a wording."""
_PRECISION = 0.8
"""Of the texts with a wording and the predicate, the minimum fraction that have the value."""
_CONTRAST = 3
"""Minimum ratio of a wording's frequencies in texts without and in texts with a rule match of the value."""
_SPECIFIC = 2
"""Minimum ratio of a wording's frequencies in texts with and without the predicate."""
_MIN_LOWER_SHARE = 0.05
"""Of an ordinary word's occurrences within sentences, the minimum share that begin with a small letter."""
_VALUE_RATIO = 9
"""Minimum ratio of the occurrences of a value word or pair within values and outside."""
_MIN_WORDING_SHARE = 0.01
"""Minimum share of a predicate's texts with a wording of the predicate."""
_MIN_TEXTS_WITHOUT_STEM = 5
"""`_MIN_TEXTS` for a wording that shares no stem with the value."""
_MIN_TRIPLES = 5
"""Minimum number of a predicate's triples that have a frequent value, and of texts with a pair of words."""
_BOOLEAN_PRECISION = 0.95
"""Of the texts with a phrase, the minimum fraction that have the truth value."""
_PART_SHARE = 0.9
"""A longer wording replaces a wording if it occurs in at least this fraction of the wording's texts."""


@dataclass(frozen=True)
class _Text:
    """A training text with the matches of its record's values."""

    record: Record
    indexed: TextIndex
    values: tuple[set[tuple[int, int]], ...]
    """The spans that match each triple's value by rule."""
    explained: list[bool]
    """Whether each word is part of a value or of a subject's name."""

    @property
    def words(self) -> tuple[Word, ...]:
        return self.indexed.whole.words


def _indexed_texts(records: Iterable[Record]) -> Iterator[_Text]:
    for record in records:
        for reference in record.references:
            indexed = TextIndex(reference.text)
            values = tuple(indexed.find(*value_wordings(triple.object)) for triple in record.triples)
            subjects = {span for triple in record.triples for span in indexed.find(*value_wordings(triple.subject))}
            yield _Text(record, indexed, values, indexed.covered([*chain(*values), *subjects]))


def _grams(text: _Text) -> Iterator[tuple[int, Gram]]:
    """Sequences of unexplained words without a function word at either end, each with its start index."""
    tokens, explained = text.words, text.explained
    for start, first in enumerate(tokens):
        if explained[start] or first.form in FUNCTION_WORDS or first.optional:
            continue
        for end in range(start + 1, min(len(tokens), start + MAX_WORDS) + 1):
            last = tokens[end - 1]
            if explained[end - 1]:
                break
            if last.form not in FUNCTION_WORDS and not last.optional and last.kind != "number":
                yield start, tuple(word.form for word in tokens[start:end])


def learn(records: Sequence[Record]) -> Lexicon:
    """Learns a lexicon from training records and their references."""
    texts = list(_indexed_texts(records))
    lower, value_words = _word_kinds(texts)
    booleans_of = _boolean_predicates(records)
    frequent = _frequent_values(records)
    lexicon = Lexicon(
        variants=_variants(texts, booleans_of),
        booleans=_booleans(texts, booleans_of),
        contexts=_contexts(texts),
        value_words=value_words,
        lower=lower,
        value_pairs=_value_pairs(texts, frequent),
        shared=_shared(frequent),
    )
    lexicon = replace(lexicon, wordings=_wordings(texts, lexicon))
    return replace(lexicon, templates=learn_templates(records, lexicon, frequent), articles=learn_articles(records))


def _boolean_predicates(records: Sequence[Record]) -> frozenset[str]:
    values: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for triple in record.triples:
            values[triple.predicate].add(entity_words(triple.object).lower())
    return frozenset(name for name, objects in values.items() if objects <= BOOLEANS)


def _frequent_values(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    """By value: the predicates of which several triples have it."""
    counts = Counter((triple.object, triple.predicate) for record in records for triple in record.triples)
    predicates: dict[str, list[str]] = defaultdict(list)
    for (value, predicate), count in sorted(counts.items()):
        if count >= _MIN_TRIPLES:
            predicates[value].append(predicate)
    return {value: tuple(names) for value, names in predicates.items()}


def _shared(frequent: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``shared``."""
    return {
        value: predicates
        for value, predicates in frequent.items()
        if len(predicates) > 1 and value.lower() not in BOOLEANS and not value[:1].isupper()
    }


def _value_pairs(texts: Sequence[_Text], frequent: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``value_pairs``, of frequent values."""
    pairs = {value: (Counter[str](), Counter[str]()) for value in frequent if value.isalpha() and value.islower()}
    for text in texts:
        for index, (word, explained) in enumerate(zip(text.words, text.explained, strict=True)):
            if word.form in pairs:
                pairs[word.form][explained].update(content_pairs(text.words, index))
    return {
        value: found
        for value, (elsewhere, as_value) in sorted(pairs.items())
        if (
            found := tuple(
                pair
                for pair, count in sorted(as_value.items())
                if count >= max(_MIN_TRIPLES, _VALUE_RATIO * elsewhere[pair])
            )
        )
    }


def _word_kinds(texts: Sequence[_Text]) -> tuple[frozenset[str], frozenset[str]]:
    """The lexicon's ``lower`` and ``value_words``."""
    lower: Counter[str] = Counter()
    inner: Counter[str] = Counter()
    openers: set[str] = set()
    from_values: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    for text in texts:
        for word, explained in zip(text.words, text.explained, strict=True):
            if word.kind != "word":
                continue
            if explained:
                from_values[word.form] += 1
                continue
            elsewhere[word.form] += 1
            if word.raw[:1].islower():
                lower[word.form] += 1
            elif word.initial:
                openers.add(word.form)
            else:
                inner[word.form] += 1
    value_words = frozenset(
        form
        for form, count in from_values.items()
        if form not in FUNCTION_WORDS and len(form) > 2 and count >= _VALUE_RATIO * elsewhere[form]
    )
    ordinary = {form for form, count in lower.items() if count >= _MIN_LOWER_SHARE * (count + inner[form])}
    return frozenset(ordinary | (openers - inner.keys() - from_values.keys())), value_words


def _variants(texts: Sequence[_Text], booleans: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """By value: wordings that replace the value in texts without a rule match, but are rare in texts with a rule match,
    in texts in which the predicate has another value, and in texts without the predicate; and that are no part of
    another value of the predicate ("city centre" for ``riverside``).
    """
    unmatched: dict[Value, Counter[Gram]] = defaultdict(Counter)
    subjects: dict[tuple[Value, Gram], set[str]] = defaultdict(set)
    text_counts: dict[bool, Counter[Value]] = {True: Counter(), False: Counter()}
    values_of: dict[str, set[Gram]] = defaultdict(set)
    grams_of_texts: list[set[Gram]] = []
    for text in texts:
        grams = {gram for _, gram in _grams(text)}
        grams_of_texts.append(grams)
        for triple, spans in zip(text.record.triples, text.values, strict=True):
            if triple.predicate in booleans:
                continue
            value = (triple.predicate, triple.object)
            object_forms = tuple(word.form for word in words(entity_words(triple.object)))
            values_of[triple.predicate].update(
                object_forms[i:j] for i in range(len(object_forms)) for j in range(i + 1, len(object_forms) + 1)
            )
            text_counts[bool(spans)][value] += 1
            if not spans:
                unmatched[value].update(grams)
                for gram in grams:
                    subjects[value, gram].add(triple.subject)
    candidates: dict[Gram, list[Value]] = defaultdict(list)
    for value, counts in unmatched.items():
        for gram, count in counts.items():
            min_texts = max(_MIN_TEXTS, (0.05 if _share_stem(gram, value[1]) else 0.15) * text_counts[False][value])
            is_other = gram in values_of[value[0]] and not _share_stem(gram, value[1])
            if count >= min_texts and len(subjects[value, gram]) >= 2 and _may_replace(gram, value[1]) and not is_other:
                candidates[gram].append(value)
    surfaces: dict[Gram, Counter[str]] = defaultdict(Counter)
    matched: Counter[tuple[Value, Gram]] = Counter()
    with_other_value: Counter[tuple[Value, Gram]] = Counter()
    without_predicate: Counter[tuple[Value, Gram]] = Counter()
    texts_of_predicate: Counter[str] = Counter()
    for text, grams in zip(texts, grams_of_texts, strict=True):
        values = {
            (triple.predicate, triple.object): bool(spans)
            for triple, spans in zip(text.record.triples, text.values, strict=True)
        }
        predicates, objects = {predicate for predicate, _ in values}, {object_ for _, object_ in values}
        texts_of_predicate.update(predicates)
        for gram in grams & candidates.keys():
            surfaces[gram][_surface(text, gram)] += 1
            for value in candidates[gram]:
                if value in values:
                    matched[value, gram] += values[value]
                elif value[0] in predicates:
                    with_other_value[value, gram] += 1
                elif value[1] not in objects:
                    without_predicate[value, gram] += 1
    accepted: dict[str, Counter[Gram]] = defaultdict(Counter)
    for gram, candidate_values in candidates.items():
        for value in candidate_values:
            count = unmatched[value][gram]
            precise = count >= _PRECISION * (count + with_other_value[value, gram])
            share = count / text_counts[False][value]
            share_matched = matched[value, gram] / max(1, text_counts[True][value])
            frequent = _share_stem(gram, value[1]) or count >= _MIN_TEXTS_WITHOUT_STEM
            n_with = texts_of_predicate[value[0]]
            share_with = (count + matched[value, gram] + with_other_value[value, gram]) / n_with
            share_without = without_predicate[value, gram] / max(1, len(texts) - n_with)
            specific = share_with >= _SPECIFIC * share_without
            if precise and specific and share >= _CONTRAST * share_matched and frequent:
                accepted[value[1]][gram] += count
    return {
        value: tuple(surfaces[gram].most_common(1)[0][0] for gram in _minimal_wordings(counts))
        for value, counts in accepted.items()
    }


def _surface(text: _Text, gram: Gram) -> str:
    """The surface form of the first occurrence of a word sequence in a text."""
    tokens = text.words
    text_forms = [word.form for word in tokens]
    start = next(i for i in range(len(text_forms)) if tuple(text_forms[i : i + len(gram)]) == gram)
    return text.indexed.text[tokens[start].start : tokens[start + len(gram) - 1].end]


def _share_stem(gram: Gram, value: str) -> bool:
    """Whether a wording and a value share a stem of four letters: ``italian`` and ``Italy``."""
    value_stems = {word.form[:4] for word in words(entity_words(value)) if len(word.form) > 3}
    return any(form[:4] in value_stems for form in gram)


def _may_replace(gram: Gram, value: str) -> bool:
    """Whether a wording contains all words of a value, none of them, or exactly the words before its comma."""
    value_forms = {word.form for word in words(entity_words(value)) if word.form not in FUNCTION_WORDS}
    before = tuple(word.form for word in words(entity_words(value).split(",")[0]))
    return value_forms <= set(gram) or not value_forms & set(gram) or gram == before


def _minimal_wordings(counts: Mapping[Gram, int], max_words: int = MAX_WORDS) -> tuple[Gram, ...]:
    """The wordings of at most `max_words` words, most frequent first, except wordings that contain a more frequent
    wording or are nearly always part of a longer wording.
    """
    longer: dict[Gram, list[int]] = defaultdict(lambda: [0, 0])  # counts with one more word before, and behind
    for gram, count in counts.items():
        longer[gram[1:]][0] += count
        longer[gram[:-1]][1] += count
    minimal: list[Gram] = []
    for gram in sorted(counts, key=lambda gram: (-counts[gram], gram)):
        part = gram in longer and max(longer[gram]) >= _PART_SHARE * counts[gram]
        if len(gram) <= max_words and not part and not any(_contains(gram, shorter) for shorter in minimal):
            minimal.append(gram)
    return tuple(minimal)


def _contains(longer: Gram, shorter: Gram) -> bool:
    length = len(shorter)
    return any(longer[start : start + length] == shorter for start in range(len(longer) - length + 1))


def _booleans(texts: Sequence[_Text], predicates: frozenset[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Phrases of at most three words that occur (almost) only with one truth value, by predicate and value. Phrases
    that follow a negation get a leading ``not``: ``not family friendly``.
    """
    if not predicates:
        return {}
    counts: dict[Value, Counter[tuple[bool, Gram]]] = defaultdict(Counter)
    totals: Counter[tuple[bool, Gram]] = Counter()
    text_counts: Counter[Value] = Counter()
    for text in texts:
        grams = {(negated(text.words, start), gram) for start, gram in _grams(text)}
        totals.update(grams)
        for triple in text.record.triples:
            if triple.predicate in predicates:
                value = triple.predicate, entity_words(triple.object).lower()
                counts[value].update(grams)
                text_counts[value] += 1
    phrases: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for value, gram_counts in counts.items():
        min_texts = max(_MIN_TEXTS, 0.003 * text_counts[value])
        phrases[value[0]][value[1]] = tuple(
            "not " * negation + " ".join(gram)
            for negation in (False, True)
            for gram in _minimal_wordings(
                {
                    gram: count
                    for (negative, gram), count in gram_counts.items()
                    if negative == negation and count >= max(min_texts, _BOOLEAN_PRECISION * totals[negative, gram])
                },
                max_words=3,
            )
        )
    return dict(phrases)


def _wordings(texts: Sequence[_Text], lexicon: Lexicon) -> dict[str, tuple[str, ...]]:
    """By predicate: names, numbers and value words that occur with several of its subjects and values, are no part of
    its values, and that nothing in the records of these texts licenses.

    Args:
        lexicon: the other parts of the lexicon.
    """
    checker = Checker(lexicon)
    statements: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    counts: Counter[tuple[str, str]] = Counter()
    text_counts: Counter[str] = Counter()
    with_predicate: Counter[str] = Counter()
    value_forms: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        licensed = checker.allowed(text.record.triples)
        invented = {
            word.form
            for word, explained in zip(text.words, text.explained, strict=True)
            if not explained
            and suspicious(word, lexicon.value_words, lexicon.lower)
            and not any(akin(word, form) for form in licensed)
        }
        text_counts.update(invented)
        for triple in text.record.triples:
            with_predicate[triple.predicate] += 1
            value_forms[triple.predicate] |= forms(triple.object)
            for form in invented:
                statements[triple.predicate, form].add((triple.subject, triple.object))
                counts[triple.predicate, form] += 1
    wordings: dict[str, list[str]] = defaultdict(list)
    for (predicate, form), different in statements.items():
        share, everywhere = counts[predicate, form] / with_predicate[predicate], text_counts[form] / len(texts)
        typical = share >= max(_MIN_WORDING_SHARE, 3 * everywhere)
        if len(different) >= _MIN_TEXTS and typical and form not in value_forms[predicate]:
            wordings[predicate].append(form)
    return {predicate: tuple(sorted(found)) for predicate, found in wordings.items()}


def _contexts(texts: Sequence[_Text]) -> dict[str, dict[str, int]]:
    """By predicate: counts of the context features of values that occur once in a text; counts of 1 for L1 only."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for triple, spans in zip(text.record.triples, text.values, strict=True):
            if len(spans) != 1:
                continue
            (span,) = spans
            if at := text.indexed.words_in(span):
                counts[triple.predicate].update(neighbours(text.words, *at, text.explained))
    return {
        predicate: {feature: count for feature, count in features.items() if count > 1 or feature.startswith("L1 ")}
        | {"": sum(features.values())}
        for predicate, features in counts.items()
    }
