"""Learns the lexicon of the strict check from training texts and their records."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from agggen.records import Record
from agggen.text.linearise import entity_words
from agggen.verification.check import Checker
from agggen.verification.contexts import learn_contexts
from agggen.verification.cues import learn_cues, learn_roles
from agggen.verification.lexicon import BOOLEANS, NEARLY_ALL, Lexicon, content_pairs, is_restricted
from agggen.verification.record_words import forms, is_related, uncovered_ngrams
from agggen.verification.templates import learn_articles, learn_booleans, learn_genders, learn_templates, learn_variants
from agggen.verification.values import FUNCTION_WORDS, OPINIONS, MatchedText

_MIN_STATEMENTS = 3  # minimum number of distinct (subject, value) pairs in texts with a wording of a predicate
_MIN_LOWER_SHARE = 0.05  # minimum share of an ordinary word's occurrences inside sentences that are in lower case
_MIN_VALUE_RATIO = 9  # minimum ratio of a value word's (or value pair's) occurrences in values to its other occurrences
_MIN_WORDING_SHARE = 0.01  # minimum share of a predicate's texts that contain a wording of it
_MIN_TRIPLES = 5  # minimum number of triples with a frequent value of a predicate, and of occurrences of a value pair
_MIN_IMPLYING_TEXTS = 30  # minimum number of texts with a word or word pair that implies a predicate
# Ratios of an implying value's rate in texts with another value of its predicate to that in texts with it, and of its
# rate in texts without its predicate to that in texts with another value.
_MAX_OTHER_RATIO, _MIN_ABSENT_RATIO = 0.1, 3
_MAX_UNRELATED_RATIO = 2  # maximum ratio of a value's share of texts with an unrelated pair to its share of all texts
_MAX_OPINION_SHARE = 0.25  # an opinion in more than this share of a predicate's texts expresses the predicate
_MAX_IMPLIED_SHARE = 0.9  # nearly all words co-occur with predicates of more than this share of the texts


def learn(records: Sequence[Record]) -> Lexicon:
    """Learns a lexicon from training records and their references."""
    texts = [MatchedText.by_rule(record, reference.text) for record in records for reference in record.references]
    lower, value_words = _word_kinds(texts)
    triples = [triple for record in records for triple in record.triples]
    others = {triple.predicate for triple in triples if entity_words(triple.object).lower() not in BOOLEANS}
    booleans = frozenset(triple.predicate for triple in triples) - others
    counts = Counter((triple.object, triple.predicate) for triple in triples)
    frequent_values = _grouped(pair for pair, count in sorted(counts.items()) if count >= _MIN_TRIPLES)
    frequent_words = {value: names for value, names in frequent_values.items() if value.isalpha() and value.islower()}
    shared = {
        value: names
        for value, names in frequent_values.items()
        if len(names) > 1 and value.lower() not in BOOLEANS and not value[:1].isupper()
    }
    cues, predicates_of = learn_cues(texts)
    lexicon = Lexicon(
        variants=learn_variants(texts, booleans),
        booleans=learn_booleans(texts, booleans),
        contexts=learn_contexts(texts),
        value_words=value_words,
        lower=lower,
        value_pairs=_value_pairs(texts, frequent_words),
        shared=shared,
        cues=cues,
        predicates_of=predicates_of,
        roles_after=learn_roles(texts),
    )
    implies = _implies(texts, lower, value_words)
    predicate_of = _implying_values(texts, frequent_words, value_words)
    unrelated = _grouped(_unrelated_pairs(texts, frequent_words, implies | predicate_of))
    implies = {word: word for word in _opinions(texts)} | implies | {value: value for value in predicate_of}
    lexicon = replace(lexicon, implies=implies, unrelated_pairs=unrelated, wordings=_wordings(texts, lexicon))
    return replace(
        lexicon,
        templates=learn_templates(records, lexicon, frequent_values),
        articles=learn_articles(records),
        genders=learn_genders(records),
    )


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for first, second in pairs:
        groups[first].append(second)
    return {first: tuple(members) for first, members in groups.items()}


def _value_pairs(texts: Sequence[MatchedText], frequent_values: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``value_pairs``, for frequent values of one word."""
    counts = {value: (Counter[str](), Counter[str]()) for value in frequent_values}
    for text in texts:
        for index, (word, covered) in enumerate(zip(text.words, text.covered, strict=True)):
            if word.form in counts:
                counts[word.form][covered].update(content_pairs(text.words, index))
    return _grouped(
        (value, pair)
        for value, (outside_values, in_values) in sorted(counts.items())
        for pair, count in sorted(in_values.items())
        if count >= max(_MIN_TRIPLES, _MIN_VALUE_RATIO * outside_values[pair])
    )


def _unrelated_pairs(
    texts: Sequence[MatchedText], frequent_values: Mapping[str, Sequence[str]], implies: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields (predicate, pair of a value and the next word) if the pair or the next word implies another predicate."""
    with_value, with_pair = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with_value_and_pair = Counter[tuple[str, tuple[str, str]]]()
    for text in texts:
        values = {(triple.predicate, triple.object) for triple in text.record.triples}
        with_value.update(values)
        pairs = {(a.form, b.form) for a, b in pairwise(text.words) if a.form in frequent_values and not b.initial}
        with_pair.update(pairs)
        with_value_and_pair.update((name, pair) for name, value in values for pair in pairs if pair[0] == value)
    for pair, count in sorted(with_pair.items()):
        value, following = pair
        implied = implies.get(f"{value} {following}") or implies.get(following)
        for predicate in frequent_values[value] if implied and count >= _MIN_IMPLYING_TEXTS else ():
            share = with_value[predicate, value] / len(texts)
            if predicate != implied and with_value_and_pair[predicate, pair] / count <= _MAX_UNRELATED_RATIO * share:
                yield predicate, f"{value} {following}"


def _word_kinds(texts: Sequence[MatchedText]) -> tuple[frozenset[str], frozenset[str]]:
    """The lexicon's ``lower`` and ``value_words``."""
    in_values, outside_values = Counter[str](), Counter[str]()
    lower, capitalised = Counter[str](), Counter[str]()  # inside sentences, outside values
    openers: set[str] = set()
    for text in texts:
        for word, covered in zip(text.words, text.covered, strict=True):
            if word.kind != "word":
                continue
            if covered:
                in_values[word.form] += 1
                continue
            outside_values[word.form] += 1
            if word.raw[:1].islower():
                lower[word.form] += 1
            elif word.initial:
                openers.add(word.form)
            else:
                capitalised[word.form] += 1
    value_words = frozenset(
        form
        for form, count in in_values.items()
        if form not in FUNCTION_WORDS and len(form) > 2 and count >= _MIN_VALUE_RATIO * outside_values[form]
    )
    ordinary = {form for form, count in lower.items() if count >= _MIN_LOWER_SHARE * (count + capitalised[form])}
    return frozenset(ordinary | (openers - capitalised.keys() - in_values.keys())), value_words


def _wordings(texts: Sequence[MatchedText], lexicon: Lexicon) -> dict[str, tuple[str, ...]]:
    """By predicate: restricted words that occur with several of its subjects and values, but in none of its values."""
    checker = Checker(lexicon)
    statements: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    counts, text_counts, with_predicate = Counter[tuple[str, str]](), Counter[str](), Counter[str]()
    value_forms: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        allowed = checker.allowed(text.record.triples)
        restricted = [word for word in text.uncovered if is_restricted(word, lexicon.value_words, lexicon.lower)]
        invented = {word.form for word in restricted if not any(is_related(word, form) for form in allowed)}
        text_counts.update(invented)
        for triple in text.record.triples:
            with_predicate[triple.predicate] += 1
            value_forms[triple.predicate] |= forms(triple.object)
            for form in invented:
                statements[triple.predicate, form].add((triple.subject, triple.object))
                counts[triple.predicate, form] += 1
    wordings: dict[str, list[str]] = defaultdict(list)
    for (predicate, form), subjects_and_values in statements.items():
        share = counts[predicate, form] / with_predicate[predicate]
        is_typical = share >= max(_MIN_WORDING_SHARE, 3 * text_counts[form] / len(texts))
        if len(subjects_and_values) >= _MIN_STATEMENTS and is_typical and form not in value_forms[predicate]:
            wordings[predicate].append(form)
    return {predicate: tuple(sorted(word_forms)) for predicate, word_forms in wordings.items()}


def _implies(texts: Sequence[MatchedText], lower: Collection[str], value_words: Collection[str]) -> dict[str, str]:
    """The predicates that ordinary words imply, and pairs of such words neither of which implies a predicate."""
    word_counts, predicate_counts = Counter[str](), Counter[str]()
    cooccurrences: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        predicates = {triple.predicate for triple in text.record.triples}
        predicate_counts.update(predicates)
        for form, ngram in dict(uncovered_ngrams(text.words, text.covered)).items():
            is_ordinary = all(word.form in lower and word.form not in FUNCTION_WORDS for word in ngram)
            if is_ordinary and (len(ngram) == 2 or (len(form) > 2 and form not in value_words)):
                word_counts[form] += 1
                cooccurrences[form].update(predicates)
    implied: dict[str, str] = {}
    for form, counts in sorted(cooccurrences.items()):
        rare = [name for name in counts if predicate_counts[name] <= _MAX_IMPLIED_SHARE * len(texts)]
        name = min(rare, key=lambda name: (-counts[name], name), default="")
        if word_counts[form] >= _MIN_IMPLYING_TEXTS and counts[name] >= NEARLY_ALL * word_counts[form]:
            implied[form] = name
    return {form: name for form, name in implied.items() if " " not in form or implied.keys().isdisjoint(form.split())}


def _implying_values(
    texts: Sequence[MatchedText], frequent_values: Mapping[str, Sequence[str]], value_words: Collection[str]
) -> dict[str, str]:
    """By value that is rare in texts with another value of its predicate, but frequent in texts without the predicate
    ("restaurant" in E2E): the predicate.
    """
    predicate_of = {
        value: names[0] for value, names in frequent_values.items() if len(names) == 1 and value not in value_words
    }
    total, mentioned = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for text in texts:
        values = {triple.object for triple in text.record.triples}
        predicates = {triple.predicate for triple in text.record.triples}
        text_forms = {word.form for word in text.words}
        for value, predicate in predicate_of.items():
            kind = "same" if value in values else "other" if predicate in predicates else "absent"
            total[value, kind] += 1
            mentioned[value, kind] += value in text_forms
    implied: dict[str, str] = {}
    for value, predicate in predicate_of.items():
        counts = [total[value, kind] for kind in ("same", "other", "absent")]
        if min(counts) >= _MIN_IMPLYING_TEXTS:
            same, other, absent = (mentioned[value, kind] / total[value, kind] for kind in ("same", "other", "absent"))
            if other <= _MAX_OTHER_RATIO * same and absent >= _MIN_ABSENT_RATIO * max(other, 1 - NEARLY_ALL):
                implied[value] = predicate
    return implied


def _opinions(texts: Sequence[MatchedText]) -> list[str]:
    """The words of `OPINIONS` that are rare in the texts of every predicate, so that they express none."""
    with_predicate, with_opinion = Counter[str](), Counter[tuple[str, str]]()
    for text in texts:
        predicates = {triple.predicate for triple in text.record.triples}
        with_predicate.update(predicates)
        opinions = OPINIONS.intersection(word.form for word in text.uncovered)
        with_opinion.update((word, predicate) for word in opinions for predicate in predicates)
    frequent = {pair for pair, count in with_opinion.items() if count > _MAX_OPINION_SHARE * with_predicate[pair[1]]}
    return sorted(OPINIONS - {word for word, _ in frequent}) if texts else []
