"""Contexts of values: learns the words around each predicate's values, and detects misplaced and swapped values."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from agggen.records import Triple
from agggen.verification.clauses import plain_clause, value_text
from agggen.verification.lexicon import Lexicon
from agggen.verification.normal import Span
from agggen.verification.record_words import value_type
from agggen.verification.values import MatchedText

_NEIGHBOURS = 2  # number of words of a context on each side of a value
_MIN_VALUES = 20  # contexts of a predicate are only used if it has at least this number of values in training texts
_MISPLACED_MARGIN = 2.5  # a value is misplaced if its context's log-likelihood is this higher under another predicate
# By `value_type`: two values are swapped if a swap increases the log-likelihood of their contexts by more
_SWAP_MARGIN = {"number": 6.0, "date": 6.0, "words": 11.0}
_BORDER = re.compile(r"[,;.!?]\s|\b(?:and|but|while|whilst|whereas)\b")  # between clauses, outside names and values


def learn_contexts(texts: Iterable[MatchedText]) -> dict[str, dict[str, int]]:
    """The lexicon's ``contexts``, from values that occur once in their text; without features of count 1, except L1."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for triple, spans in text.matches():
            if len(spans) == 1 and (bounds := text.indexed.words_in(*spans)):
                counts[triple.predicate].update(_neighbours(text, bounds))
    return {
        predicate: {feature: count for feature, count in features.items() if count > 1 or feature.startswith("L1 ")}
        | {"": sum(features.values())}
        for predicate, features in counts.items()
    }


def misplaced_triples(
    text: MatchedText, lexicon: Lexicon, max_new_word_rate: float, initial: bool
) -> tuple[Triple, ...]:
    """The triples whose value occurs only in wrong contexts; if not `initial`, values that begin the text are skipped.

    A context is wrong if it is more probable for another predicate that also has this value; if the value and the next
    word are one of the ``unrelated_pairs``; or after a word that never precedes the predicate's values in training
    texts ("is a 1766 gas"; see `_never_precedes`). It is right if the text before it is as in the `plain_clause`.
    """
    contexts = lexicon.contexts
    misplaced: list[Triple] = []
    for triple, spans in text.matches():
        own_contexts = contexts.get(triple.predicate)
        plain_spans = [span for span, kind in spans.items() if kind != "phrase"]
        word_spans = [bounds for span in plain_spans if (bounds := text.indexed.words_in(span))]
        if not own_contexts or not word_spans or (not initial and any(start == 0 for start, _ in word_spans)):
            continue
        predicates = {*lexicon.shared.get(triple.object, ())} if _has_enough_values(own_contexts) else set[str]()
        others = (contexts.get(name, {}) for name in predicates - {triple.predicate})
        other_contexts = [other for other in others if _has_enough_values(other)]
        unrelated = lexicon.unrelated_pairs.get(triple.predicate, ())
        if all(
            _never_precedes(own_contexts, context[0], max_new_word_rate)
            or any(_log_likelihood_ratio(other, own_contexts, context) > _MISPLACED_MARGIN for other in other_contexts)
            or _following_pair(text, bounds) in unrelated
            for bounds, context in ((bounds, _neighbours(text, bounds)) for bounds in word_spans)
        ):
            before, _, _ = plain_clause(triple, lexicon.articles).rpartition(value_text(triple.object))
            if not any(text.indexed.text[:start].endswith(before) for start, _ in spans):
                misplaced.append(triple)
    return tuple(misplaced)


def swapped_predicates(text: MatchedText, contexts: Mapping[str, Mapping[str, int]]) -> tuple[tuple[str, str], ...]:
    """Pairs of predicates whose values fit each other's contexts better than their own, by `_SWAP_MARGIN`."""
    values: list[tuple[Triple, Span]] = []
    for triple, spans in text.matches():
        occurs_once = len(spans) == 1 and "phrase" not in spans.values() and triple.predicate in contexts
        if occurs_once and (bounds := text.indexed.words_in(*spans)):
            values.append((triple, bounds))
    pairs: list[tuple[str, str]] = []
    for (first, first_words), (second, second_words) in combinations(values, 2):
        if first.predicate == second.predicate or first.object == second.object or first_words == second_words:
            continue
        kind = value_type(first.object)
        first_counts, second_counts = contexts[first.predicate], contexts[second.predicate]
        enough_values = _has_enough_values(first_counts) and _has_enough_values(second_counts)
        if kind != value_type(second.object) or (kind == "words" and not enough_values):
            continue
        first_context, second_context = _neighbours(text, first_words), _neighbours(text, second_words)
        exchanged = _log_likelihood(first_counts, second_context) + _log_likelihood(second_counts, first_context)
        actual = _log_likelihood(first_counts, first_context) + _log_likelihood(second_counts, second_context)
        if exchanged - actual > _SWAP_MARGIN[kind]:
            pairs.append((first.predicate, second.predicate))
    return tuple(pairs)


def _neighbours(text: MatchedText, bounds: Span) -> list[str]:
    """The context of the words with indices `bounds`: ``L1 period``, ``R1 and``, ``L2 *`` (another value), ``R2 $``."""
    tokens, covered, before_sentence = text.words, text.covered, False
    features: list[str] = []
    for distance in range(1, _NEIGHBOURS + 1):
        left, right = bounds[0] - distance, bounds[1] - 1 + distance
        before_sentence = before_sentence or left < 0 or tokens[left + 1].initial
        left_form = "^" if before_sentence else "*" if covered[left] else tokens[left].form
        right_form = "$" if right >= len(tokens) else "*" if covered[right] else tokens[right].form
        # the value, not its predicate, determines the form of the article
        features += [f"L{distance} {'a' if left_form == 'an' else left_form}", f"R{distance} {right_form}"]
    return features


def _following_pair(text: MatchedText, bounds: Span) -> str:
    """A value of one word and the next word of its sentence; empty if the value is longer, or a comma follows."""
    pair = text.words[bounds[0] : bounds[0] + 2]
    if bounds[1] > bounds[0] + 1 or len(pair) < 2 or pair[1].initial:
        return ""
    return "" if "," in text.indexed.text[pair[0].end : pair[1].start] else f"{pair[0].form} {pair[1].form}"


def _has_enough_values(contexts: Mapping[str, int]) -> bool:
    return contexts.get("", 0) >= 2 * _NEIGHBOURS * _MIN_VALUES


def _never_precedes(contexts: Mapping[str, int], left_word: str, max_new_word_rate: float) -> bool:
    """Whether the L1 feature `left_word` never precedes the predicate's values in training texts, and new words before
    these values are rare: their Good-Turing probability (the share of singletons) is at most `max_new_word_rate`.
    """
    if left_word in contexts or not _has_enough_values(contexts):
        return False
    occurrences = contexts[""] / (2 * _NEIGHBOURS)
    singletons = sum(count == 1 for feature, count in contexts.items() if feature.startswith("L1 "))
    return singletons / occurrences <= max_new_word_rate


def _log_likelihood_ratio(other: Mapping[str, int], own: Mapping[str, int], features: Iterable[str]) -> float:
    """The log-likelihood under another predicate minus that under the own one, of features that one has in training."""
    known = [feature for feature in features if (feature in other or feature in own) and feature[-1] not in "^$"]
    return _log_likelihood(other, known) - _log_likelihood(own, known)


def _log_likelihood(contexts: Mapping[str, int], features: Iterable[str]) -> float:
    """The naive Bayes log-likelihood of context features under a predicate's contexts."""
    total = contexts.get("", 0) / (2 * _NEIGHBOURS)
    return sum(math.log((contexts.get(feature, 0) + 0.5) / (total + 50.0)) for feature in features)


def swapped_subjects(text: MatchedText) -> tuple[tuple[str, str], ...]:
    """Pairs of values of one predicate with exchanged subjects, as strings "predicate of subject".

    Either each value is attributed to the other's subject ("Gold is in group 12 and Silver in 11"), or one value occurs
    only in clauses that name only the other's subject. A value is attributed to the subject in its clause if the clause
    names exactly one, otherwise to the last subject before the value.
    """
    pairs: list[tuple[str, str]] = []
    for (first, first_matches), (second, second_matches) in combinations(text.matches(), 2):
        entities = {first.subject, first.object, second.subject, second.object}
        if first.predicate != second.predicate or len(entities) < 4:
            continue
        names = [(span, name) for name in (first.subject, second.subject) for span in text.indexed.find_name(name)]
        spans = [span for span, _ in names] + [*first_matches, *second_matches]
        borders = [
            match.start()
            for match in _BORDER.finditer(text.indexed.text)
            if not any(start <= match.start() < end for start, end in spans) and not _joins(match, names)
        ]
        clause_names: list[set[str | None]] = []
        attributed: list[set[str | None]] = []
        for matches in (first_matches, second_matches):
            by_value = {span: _only_name(span, names, borders) for span in matches}
            clause_names.append(set(by_value.values()))
            attributed.append({name or _last_name_before(span, names) for span, name in by_value.items()})
        exchanged = [{second.subject}, {first.subject}]
        if attributed == exchanged or clause_names[0] == exchanged[0] or clause_names[1] == exchanged[1]:
            pairs.append((f"{first.predicate} of {first.subject}", f"{second.predicate} of {second.subject}"))
    return tuple(pairs)


def _joins(border: re.Match[str], names: Collection[tuple[Span, str]]) -> bool:
    """Whether the border is directly between two names: "Gold and Silver"."""
    text = border.string
    before, after = len(text[: border.start()].rstrip()), len(text) - len(text[border.end() :].lstrip())
    return any(end == before for (_, end), _ in names) and any(start == after for (start, _), _ in names)


def _only_name(value: Span, names: Collection[tuple[Span, str]], borders: Sequence[int]) -> str | None:
    """The name in the clause of `value` if there is exactly one, else None; clauses end at the offsets `borders`."""
    start = max((border for border in borders if border < value[0]), default=0)
    end = min((border for border in borders if border >= value[1]), default=math.inf)
    names_in_clause = {name for span, name in names if start <= span[0] and span[1] <= end}
    return names_in_clause.pop() if len(names_in_clause) == 1 else None


def _last_name_before(value: Span, names: Collection[tuple[Span, str]]) -> str | None:
    return max(((span, name) for span, name in names if span[1] <= value[0]), default=(value, None))[1]
