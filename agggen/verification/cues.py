"""Cue words: the words of a sentence that express a predicate, such as "born" for ``birthPlace``.

IBM Model 1 (Brown et al. 1993) estimates which predicate of a sentence generated a word. So "language" is not a cue of
``currency``, although both often occur in one sentence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from agggen.records import Triple
from agggen.verification.lexicon import MAX_COVER, NEARLY_ALL
from agggen.verification.matched import MatchedText
from agggen.verification.values import FUNCTION_WORDS

_ITERATIONS = 5
_MIN_SENTENCES = 20
"""Minimum number of training sentences with a value of a predicate."""
_MIN_SHARE = 0.95
"""Minimum share of the texts with a value of a predicate in which the value's sentence has a cue."""
_MIN_COUNT = 1.5
"""Minimum expected count of a cue."""
_MIN_RATIO = 3.0
"""Minimum ratio of the rate of a predicate's cue in its sentences to the rate of the word in all sentences."""

_MIN_WORD_SENTENCES = 30
"""Minimum number of training sentences that contain a word of ``predicates_of``."""
_MAX_BASE_SHARE = 0.5
"""Maximum share of all sentences in which a predicate of a word of ``predicates_of`` has a value."""

_Sentence = tuple[frozenset[str], tuple[str, ...]]
"""The possible cues of a sentence, and the predicates of its values."""


def learn_cues(texts: Sequence[MatchedText]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """The lexicon's ``cues`` and ``predicates_of``.

    The cues of a predicate are the words of which it generates the largest shares, as few as `_MIN_SHARE` requires; it
    has none if no number of words suffices.
    """
    sentences = Counter[_Sentence]()
    for text in texts:
        for words, values in _sentences(text):
            if values:
                names = {text.record.triples[index].predicate for index in values}
                sentences[frozenset(words), tuple(sorted(names))] += 1
    total = sentences.total()
    word_counts, sizes = Counter[str](), Counter[str]()
    for (forms, predicates), count in sentences.items():
        word_counts.update(dict.fromkeys(forms, count))
        sizes.update(dict.fromkeys(predicates, count))
    expected = _expected_counts(sentences, sizes)
    shares = {
        predicate: {
            word: count / word_counts[word]
            for word, count in expected.get(predicate, {}).items()
            if count >= _MIN_COUNT and count / size >= _MIN_RATIO * word_counts[word] / total
        }
        for predicate, size in sizes.items()
    }
    frequent = {name: own for name, own in shares.items() if sizes[name] >= _MIN_SENTENCES}
    return _cues(texts, frequent), _predicates_of(sentences, word_counts, expected, shares)


def _cues(texts: Sequence[MatchedText], shares: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``cues``; `shares` has, by predicate and possible cue, the share of the cue that it generates."""
    largest: dict[str, list[float]] = defaultdict(list)  # by predicate: each text's largest share near its value
    for text in texts:
        largest_in_text: dict[int, float] = {}
        for words, values in _sentences(text):
            for index in values:
                own = shares.get(text.record.triples[index].predicate, {})
                in_sentence = (own[word] for word in words & own.keys())
                largest_in_text[index] = max(largest_in_text.get(index, 0.0), *in_sentence, 0.0)
        for index, share in largest_in_text.items():
            largest[text.record.triples[index].predicate].append(share)
    least = {name: sorted(all_shares)[int((1 - _MIN_SHARE) * len(all_shares))] for name, all_shares in largest.items()}
    return {
        name: tuple(sorted(word for word, share in own.items() if share >= least[name]))
        for name, own in sorted(shares.items())
        if least[name] > 0.0
    }


def _predicates_of(
    sentences: Mapping[_Sentence, int],
    word_counts: Mapping[str, int],
    expected: Mapping[str, Mapping[str, float]],
    shares: Mapping[str, Mapping[str, float]],
) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``predicates_of``: for each word, the predicates that generate it most often, as many as cover
    `NEARLY_ALL` of its sentences, and all predicates of which it may be a cue.

    Args:
        expected: see `_expected_counts`.
        shares: see `_cues`.
    """
    with_word: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
    for (words, predicates), count in sentences.items():
        for word in words:
            if word_counts[word] >= _MIN_WORD_SENTENCES and word not in FUNCTION_WORDS:
                with_word[word].append((predicates, count))
    total = sum(sentences.values())
    result: dict[str, tuple[str, ...]] = {}
    for word, remaining in sorted(with_word.items()):
        counts = {name: own[word] for name, own in expected.items() if name and word in own}
        chosen: set[str] = set()
        for name in sorted(counts, key=lambda name: -counts[name])[:MAX_COVER]:
            chosen.add(name)
            remaining = [(predicates, count) for predicates, count in remaining if name not in predicates]
            if sum(count for _, count in remaining) <= (1 - NEARLY_ALL) * word_counts[word]:
                chosen |= {name for name, own in shares.items() if word in own}
                base = sum(count for (_, predicates), count in sentences.items() if not chosen.isdisjoint(predicates))
                if base <= _MAX_BASE_SHARE * total:
                    result[word] = tuple(sorted(chosen))
                break
    return result


def unexpressed(text: MatchedText, cues: Mapping[str, Collection[str]]) -> tuple[Triple, ...]:
    """The triples whose values occur, but only in sentences without a cue of their predicate."""
    triples = text.record.triples
    expressed: dict[int, bool] = {}
    for words, values in _sentences(text):
        for index in values:
            own_cues = cues.get(triples[index].predicate)
            expressed[index] = expressed.get(index, False) or own_cues is None or not words.isdisjoint(own_cues)
    return tuple(triples[index] for index, is_expressed in sorted(expressed.items()) if not is_expressed)


def foreign_words(
    text: MatchedText, predicates_of: Mapping[str, Collection[str]], predicates: Collection[str]
) -> tuple[str, ...]:
    """The words of `predicates_of` in sentences without a value of their predicates: "born" in "Apollo 14 was born on
    the NASA". Words of `predicates` are left out.
    """
    return tuple(
        word
        for words, values in _sentences(text)
        for word in sorted(words & predicates_of.keys())
        if not {*predicates, *(text.record.triples[index].predicate for index in values)} & set(predicates_of[word])
    )


def _expected_counts(sentences: Mapping[_Sentence, int], sizes: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """By predicate and word: in how many sentences the predicate generates the word, by expectation maximisation."""
    total = sum(sentences.values())
    rates: dict[str, dict[str, float]] = {}
    counts: dict[str, dict[str, float]] = {}
    for _ in range(_ITERATIONS):
        counts = defaultdict(lambda: defaultdict(float))
        for (words, predicates), count in sentences.items():
            causes = ("", *predicates)  # "" generates words that express no predicate
            for word in words:
                shares = [rates[cause].get(word, 0.0) if rates else 1.0 for cause in causes]
                for cause, share in zip(causes, shares, strict=True):
                    if share > 0.0:
                        counts[cause][word] += count * share / sum(shares)
        rates = {
            cause: {word: count / sizes.get(cause, total) for word, count in own.items() if count > 1e-3}
            for cause, own in counts.items()
        }
    return counts


def _sentences(text: MatchedText) -> Iterator[tuple[set[str], Sequence[int]]]:
    """The possible cues of each sentence, and the indices of the triples that have a value in it.

    Possible cues are words outside names and values that begin a sentence or are in lower case.
    """
    name_bounds = [bounds for span in text.spans if (bounds := text.indexed.words_in(span))]
    inner = {number for first, end in name_bounds for number in range(first + 1, end)}  # "Ulm" of "A.F.C. Ulm"
    starts = [
        number
        for number, word in enumerate(text.words)
        if word.initial and not word.raw[:1].islower() and number not in inner
    ]
    first_words = [{bounds[0] for span in spans if (bounds := text.indexed.words_in(span))} for spans in text.values]
    for start, end in pairwise(dict.fromkeys((0, *starts, len(text.words)))):
        words = {
            text.words[number].form
            for number in range(start, end)
            if not text.covered[number]
            and text.words[number].kind == "word"
            and (text.words[number].initial or text.words[number].raw.islower())
        }
        yield words, [index for index, own in enumerate(first_words) if not own.isdisjoint(range(start, end))]
