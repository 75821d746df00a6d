"""Learns wordings of values: variants of a value, and phrases for a truth value."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from agggen.text.linearise import entity_words
from agggen.verification.normal import words
from agggen.verification.values import FUNCTION_WORDS, MatchedText, is_negated

Value = tuple[str, str]
"""A predicate and a value."""
Gram = tuple[str, ...]
"""The normal forms of adjacent words."""

_MAX_WORDS = 4  # maximum number of words of a learned wording
_MIN_TEXTS = 3  # minimum number of texts that contain a wording
_MIN_TEXTS_WITHOUT_STEM = 5  # in place of `_MIN_TEXTS` for a wording that shares no stem with its value
_MIN_PRECISION = 0.8  # minimum fraction of the texts with a wording and the predicate that have the value
_MIN_UNMATCHED_RATIO = 3  # minimum ratio of a wording's rates in texts without and with a rule match of its value
_MIN_PREDICATE_RATIO = 2  # minimum ratio of a wording's rate in texts with the predicate to the rate in other texts
_MIN_BOOLEAN_PRECISION = 0.95  # minimum fraction of the texts with a phrase that have the truth value
_MIN_LONGER_SHARE = 0.9  # a wording is dropped if at least this fraction of its texts contain the same longer wording


def learn_variants(texts: Sequence[MatchedText], booleans: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``variants``: by value, its wordings other than those by rule.

    They are frequent in texts of the value that do not match it by rule, but rare in texts that match it, have another
    value of the predicate, or lack the predicate. Parts of other values of the predicate are excluded ("city centre"
    for ``riverside``).
    """
    unmatched: dict[Value, Counter[Gram]] = defaultdict(Counter)
    subjects: dict[tuple[Value, Gram], set[str]] = defaultdict(set)
    texts_with_match, texts_without = Counter[Value](), Counter[Value]()
    values_of: dict[str, set[Gram]] = defaultdict(set)
    grams_of_texts = [{gram for _, gram in _possible_wordings(text)} for text in texts]
    for text, grams in zip(texts, grams_of_texts, strict=True):
        for triple, spans in text.matches():
            if triple.predicate in booleans:
                continue
            value = (triple.predicate, triple.object)
            object_forms = tuple(word.form for word in words(entity_words(triple.object)))
            values_of[triple.predicate].update(
                object_forms[i:j] for i in range(len(object_forms)) for j in range(i + 1, len(object_forms) + 1)
            )
            if spans:
                texts_with_match[value] += 1
            else:
                texts_without[value] += 1
                unmatched[value].update(grams)
                for gram in grams:
                    subjects[value, gram].add(triple.subject)
    candidates: dict[Gram, list[Value]] = defaultdict(list)
    for value, counts in unmatched.items():
        for gram, count in counts.items():
            shares_stem = _share_stem(gram, value[1])
            is_frequent = count >= max(_MIN_TEXTS, (0.05 if shares_stem else 0.15) * texts_without[value])
            is_other_value = gram in values_of[value[0]] and not shares_stem
            if is_frequent and len(subjects[value, gram]) >= 2 and _may_replace(gram, value[1]) and not is_other_value:
                candidates[gram].append(value)
    surfaces: dict[Gram, Counter[str]] = defaultdict(Counter)
    matched, with_other_value, without_predicate = (Counter[tuple[Value, Gram]]() for _ in range(3))
    texts_of_predicate = Counter[str]()
    for text, grams in zip(texts, grams_of_texts, strict=True):
        values = {(triple.predicate, triple.object): bool(spans) for triple, spans in text.matches()}
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
            is_precise = count >= _MIN_PRECISION * (count + with_other_value[value, gram])
            share = count / texts_without[value]
            share_matched = matched[value, gram] / max(1, texts_with_match[value])
            is_frequent = _share_stem(gram, value[1]) or count >= _MIN_TEXTS_WITHOUT_STEM
            n_with = texts_of_predicate[value[0]]
            share_with = (count + matched[value, gram] + with_other_value[value, gram]) / n_with
            share_without = without_predicate[value, gram] / max(1, len(texts) - n_with)
            is_specific = share_with >= _MIN_PREDICATE_RATIO * share_without
            is_contrastive = share >= _MIN_UNMATCHED_RATIO * share_matched
            if is_precise and is_specific and is_contrastive and is_frequent:
                accepted[value[1]][gram] += count
    return {
        value: tuple(surfaces[gram].most_common(1)[0][0] for gram in _minimal_wordings(counts))
        for value, counts in sorted(accepted.items())
    }


def _possible_wordings(text: MatchedText) -> Iterator[tuple[int, Gram]]:
    """Yields (start index, word sequence) for sequences of uncovered words without a function word at either end."""
    tokens, covered = text.words, text.covered
    for start, first in enumerate(tokens):
        if covered[start] or first.form in FUNCTION_WORDS or first.optional:
            continue
        for end in range(start + 1, min(len(tokens), start + _MAX_WORDS) + 1):
            last = tokens[end - 1]
            if covered[end - 1]:
                break
            if last.form not in FUNCTION_WORDS and not last.optional and last.kind != "number":
                yield start, tuple(word.form for word in tokens[start:end])


def _surface(text: MatchedText, gram: Gram) -> str:
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
    before_comma = tuple(word.form for word in words(entity_words(value).split(",")[0]))
    return value_forms <= set(gram) or not value_forms & set(gram) or gram == before_comma


def _minimal_wordings(counts: Mapping[Gram, int], max_words: int = _MAX_WORDS) -> tuple[Gram, ...]:
    """The wordings of at most `max_words` words, most frequent first, except those that contain a more frequent
    wording or are nearly always part of the same longer wording.
    """
    longer: dict[Gram, list[int]] = defaultdict(lambda: [0, 0])  # counts with one more word before, or after
    for gram, count in counts.items():
        longer[gram[1:]][0] += count
        longer[gram[:-1]][1] += count
    minimal: list[Gram] = []
    for gram in sorted(counts, key=lambda gram: (-counts[gram], gram)):
        is_part = gram in longer and max(longer[gram]) >= _MIN_LONGER_SHARE * counts[gram]
        if len(gram) <= max_words and not is_part and not any(_contains(gram, shorter) for shorter in minimal):
            minimal.append(gram)
    return tuple(minimal)


def _contains(longer: Gram, shorter: Gram) -> bool:
    length = len(shorter)
    return any(longer[start : start + length] == shorter for start in range(len(longer) - length + 1))


def learn_booleans(texts: Sequence[MatchedText], predicates: frozenset[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The lexicon's ``booleans``: phrases of at most three words that occur almost only with one truth value. A phrase
    after a negation begins with ``not``: ``not family friendly``.
    """
    if not predicates:
        return {}
    counts: dict[Value, Counter[tuple[bool, Gram]]] = defaultdict(Counter)
    totals: Counter[tuple[bool, Gram]] = Counter()
    text_counts: Counter[Value] = Counter()
    for text in texts:
        grams = {(is_negated(text.words, start), gram) for start, gram in _possible_wordings(text)}
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
                    for (negated, gram), count in gram_counts.items()
                    if negated == negation and count >= max(min_texts, _MIN_BOOLEAN_PRECISION * totals[negated, gram])
                },
                max_words=3,
            )
        )
    return dict(phrases)
