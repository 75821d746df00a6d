"""Contexts of values: the words around a predicate's values in training texts, and values in other contexts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from agggen.records import Triple
from agggen.verification.clauses import clause, spoken
from agggen.verification.lexicon import Lexicon
from agggen.verification.matched import MatchedText
from agggen.verification.normal import Span
from agggen.verification.record_words import shape

_NEIGHBOURS = 2
_MIN_VALUES = 20
"""Minimum number of a predicate's training values for its contexts to be used."""
_MISPLACED_MARGIN = 2.5
"""A value is misplaced if another predicate gives its context a log-likelihood that is higher by more than this."""
_SWAP_MARGIN = {"number": 6.0, "date": 6.0, "words": 11.0}
"""By `shape`: two values are swapped if the log-likelihood of the exchanged order is higher by more than this."""


def learn_contexts(texts: Iterable[MatchedText]) -> dict[str, dict[str, int]]:
    """The lexicon's ``contexts``, of values that occur once in a text; single counts only for L1."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for triple, spans in text.matches():
            if len(spans) == 1 and (at := text.indexed.words_in(*spans)):
                counts[triple.predicate].update(_neighbours(text, at))
    return {
        predicate: {feature: count for feature, count in features.items() if count > 1 or feature.startswith("L1 ")}
        | {"": sum(features.values())}
        for predicate, features in counts.items()
    }


def misplaced(text: MatchedText, lexicon: Lexicon, max_new_word_rate: float, initial: bool) -> tuple[Triple, ...]:
    """The triples whose value occurs only in wrong contexts: contexts that fit another predicate with this value
    better, ``unrelated_pairs``, or after a word that never precedes the predicate's values in training texts ("is a
    1766 gas"). The words before the value in the triple's ``clause`` are a right context. Values at the start of a text
    that does not begin a sentence (`initial`) are left out.
    """
    contexts = lexicon.contexts
    result: list[Triple] = []
    for triple, spans in text.matches():
        own = contexts.get(triple.predicate)
        word_spans = [at for span, how in spans.items() if how != "phrase" and (at := text.indexed.words_in(span))]
        if not own or not word_spans or (not initial and any(start == 0 for start, _ in word_spans)):
            continue
        names = {*lexicon.shared.get(triple.object, ())} - {triple.predicate} if _has_enough_values(own) else ()
        others = [contexts[name] for name in names if _has_enough_values(contexts.get(name, {}))]
        unrelated = lexicon.unrelated_pairs.get(triple.predicate, ())
        if all(
            _never_precedes(own, context[0], max_new_word_rate)
            or any(_fits_better(other, own, context) > _MISPLACED_MARGIN for other in others)
            or _following_pair(text, at) in unrelated
            for at, context in ((at, [*_neighbours(text, at)]) for at in word_spans)
        ):
            before, _, _ = clause(triple, lexicon.articles).rpartition(spoken(triple.object))
            if not any(text.indexed.text[:start].endswith(before) for start, _ in spans):
                result.append(triple)
    return tuple(result)


def swapped(text: MatchedText, contexts: Mapping[str, Mapping[str, int]]) -> tuple[tuple[str, str], ...]:
    """Pairs of predicates whose values fit each other's contexts better than their own, by `_SWAP_MARGIN`.

    Values of the shape ``words`` are only compared if both predicates have enough contexts.
    """
    located: list[tuple[Triple, Span]] = []
    for triple, spans in text.matches():
        once = len(spans) == 1 and "phrase" not in spans.values() and triple.predicate in contexts
        if once and (word_span := text.indexed.words_in(*spans)):
            located.append((triple, word_span))
    pairs: list[tuple[str, str]] = []
    for (left, left_words), (right, right_words) in combinations(located, 2):
        if left.predicate == right.predicate or left.object == right.object or left_words == right_words:
            continue
        kind, left_counts, right_counts = shape(left.object), contexts[left.predicate], contexts[right.predicate]
        few = not (_has_enough_values(left_counts) and _has_enough_values(right_counts))
        if kind != shape(right.object) or (kind == "words" and few):
            continue
        left_context, right_context = list(_neighbours(text, left_words)), list(_neighbours(text, right_words))
        exchanged = _log_likelihood(left_counts, right_context) + _log_likelihood(right_counts, left_context)
        actual = _log_likelihood(left_counts, left_context) + _log_likelihood(right_counts, right_context)
        if exchanged - actual > _SWAP_MARGIN[kind]:
            pairs.append((left.predicate, right.predicate))
    return tuple(pairs)


def _neighbours(text: MatchedText, at: Span) -> Iterator[str]:
    """Context features of the words ``[start, end)``, nearest first, L1 before R1: ``L1 period``, ``R1 and``.

    ``an`` counts as ``a``, since the value determines the article. Words of other values appear as ``*``, positions
    before the sentence as ``^``, positions after the text as ``$``.
    """
    tokens, values, before_sentence = text.words, text.explained, False
    for distance in range(1, _NEIGHBOURS + 1):
        left, right = at[0] - distance, at[1] - 1 + distance
        before_sentence = before_sentence or left < 0 or tokens[left + 1].initial
        yield f"L{distance} " + (
            "^" if before_sentence else "*" if values[left] else "a" if tokens[left].form == "an" else tokens[left].form
        )
        yield f"R{distance} " + ("$" if right >= len(tokens) else "*" if values[right] else tokens[right].form)


def _following_pair(text: MatchedText, at: Span) -> str:
    """A value of one word and the word after it in its sentence; empty for other values, or after a comma."""
    pair = text.words[at[0] : at[0] + 2]
    if at[1] > at[0] + 1 or len(pair) < 2 or pair[1].initial:
        return ""
    return "" if "," in text.indexed.text[pair[0].end : pair[1].start] else f"{pair[0].form} {pair[1].form}"


def _has_enough_values(contexts: Mapping[str, int]) -> bool:
    return contexts.get("", 0) >= 2 * _NEIGHBOURS * _MIN_VALUES


def _never_precedes(contexts: Mapping[str, int], left: str, max_new_word_rate: float) -> bool:
    """Whether `left`, the first of a value's `_neighbours`, never precedes the predicate's values in training, although
    the probability of an unseen word there is at most `max_new_word_rate`. By Good-Turing, this probability is the
    fraction of training values whose left word occurs there once.
    """
    if left in contexts or not _has_enough_values(contexts):
        return False
    occurrences = contexts[""] / (2 * _NEIGHBOURS)
    singletons = sum(count == 1 for feature, count in contexts.items() if feature.startswith("L1 "))
    return singletons / occurrences <= max_new_word_rate


def _fits_better(other: Mapping[str, int], own: Mapping[str, int], features: Iterable[str]) -> float:
    """The log-likelihood ratio of a value's context under the contexts of another predicate over its own.

    Features that neither predicate has in training, and the borders of the text, are left out.
    """
    known = [name for name in features if (name in other or name in own) and name[-1] not in "^$"]
    return _log_likelihood(other, known) - _log_likelihood(own, known)


def _log_likelihood(contexts: Mapping[str, int], features: Iterable[str]) -> float:
    """The naive Bayes log-likelihood (natural logarithm) of context features under a predicate's contexts."""
    total = contexts.get("", 0) / (2 * _NEIGHBOURS)
    return sum(math.log((contexts.get(feature, 0) + 0.5) / (total + 50.0)) for feature in features)
