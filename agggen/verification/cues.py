"""Cue words: the words of a sentence that express a predicate, such as "born" for ``birthPlace``.

IBM Model 1 (Brown et al. 1993) estimates which predicate of a sentence generates a word. So "language" is not a cue of
``currency``, although both often occur in one sentence.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from agggen.records import Triple
from agggen.verification.lexicon import MAX_COVER, NEARLY_ALL
from agggen.verification.values import FUNCTION_WORDS, MatchedText

_ITERATIONS = 5
_MIN_SENTENCES = 20  # minimum number of training sentences with a value of a predicate
_MIN_SHARE = 0.95  # minimum share of the texts with a value of a predicate in which the value's sentence has a cue
_MIN_COUNT = 1.5  # minimum expected count of a cue
_MIN_RATIO = 3.0  # minimum ratio of a cue's rate in its predicate's sentences to its rate in all sentences

_MIN_WORD_SENTENCES = 30  # minimum number of training sentences that contain a word of ``predicates_of``
_MAX_BASE_SHARE = 0.5  # maximum share of all sentences in which a predicate of a word of ``predicates_of`` has a value

_Sentence = tuple[frozenset[str], tuple[str, ...]]
"""The possible cues of a sentence, and the predicates with values in it."""


def learn_cues(texts: Sequence[MatchedText]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """The lexicon's ``cues`` and ``predicates_of``. The cues of a predicate are the words of which it generates the
    largest shares, as few as `_MIN_SHARE` allows; there are none if all its words do not suffice.
    """
    sentences = Counter[_Sentence]()
    for text in texts:
        for words, values in _sentences(text):
            if values:
                predicates = {text.record.triples[index].predicate for index in values}
                sentences[frozenset(words), tuple(sorted(predicates))] += 1
    n_sentences = sentences.total()
    word_counts, predicate_counts = Counter[str](), Counter[str]()
    for (sentence_words, sentence_predicates), count in sentences.items():
        word_counts.update(dict.fromkeys(sentence_words, count))
        predicate_counts.update(dict.fromkeys(sentence_predicates, count))
    expected = _expected_counts(sentences, predicate_counts)
    shares = {
        predicate: {
            word: count / word_counts[word]
            for word, count in expected.get(predicate, {}).items()
            if count >= _MIN_COUNT and count / n_with_value >= _MIN_RATIO * word_counts[word] / n_sentences
        }
        for predicate, n_with_value in predicate_counts.items()
    }
    frequent_shares = {
        name: cue_shares for name, cue_shares in shares.items() if predicate_counts[name] >= _MIN_SENTENCES
    }
    return _cues(texts, frequent_shares), _predicates_of(sentences, word_counts, expected, shares)


def _cues(texts: Sequence[MatchedText], shares: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``cues``, from `shares`: by predicate and word, the share of the word that it generates."""
    largest: dict[str, list[float]] = defaultdict(list)  # by predicate: each text's largest share near its value
    for text in texts:
        largest_in_text: dict[int, float] = {}
        for words, values in _sentences(text):
            for index in values:
                cue_shares = shares.get(text.record.triples[index].predicate, {})
                in_sentence = (cue_shares[word] for word in words & cue_shares.keys())
                largest_in_text[index] = max(largest_in_text.get(index, 0.0), *in_sentence, 0.0)
        for index, share in largest_in_text.items():
            largest[text.record.triples[index].predicate].append(share)
    min_share = {
        name: sorted(text_shares)[int((1 - _MIN_SHARE) * len(text_shares))] for name, text_shares in largest.items()
    }
    return {
        name: tuple(sorted(word for word, share in cue_shares.items() if share >= min_share[name]))
        for name, cue_shares in sorted(shares.items())
        if min_share[name] > 0.0
    }


def _predicates_of(
    sentences: Mapping[_Sentence, int],
    word_counts: Mapping[str, int],
    expected: Mapping[str, Mapping[str, float]],
    shares: Mapping[str, Mapping[str, float]],
) -> dict[str, tuple[str, ...]]:
    """The lexicon's ``predicates_of``: for each word, the predicates of which it may be a cue, and as many of those
    that generate it most often as have values in `NEARLY_ALL` of its sentences.
    """
    with_word: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
    for (words, predicates), count in sentences.items():
        for word in words:
            if word_counts[word] >= _MIN_WORD_SENTENCES and word not in FUNCTION_WORDS:
                with_word[word].append((predicates, count))
    n_sentences = sum(sentences.values())
    predicates_of: dict[str, tuple[str, ...]] = {}
    for word, remaining in sorted(with_word.items()):
        counts = {name: words[word] for name, words in expected.items() if name and word in words}
        chosen: set[str] = set()
        for name in sorted(counts, key=lambda name: -counts[name])[:MAX_COVER]:
            chosen.add(name)
            remaining = [(predicates, count) for predicates, count in remaining if name not in predicates]
            if sum(count for _, count in remaining) <= (1 - NEARLY_ALL) * word_counts[word]:
                chosen |= {name for name, cue_shares in shares.items() if word in cue_shares}
                n_with_chosen = sum(
                    count for (_, predicates), count in sentences.items() if not chosen.isdisjoint(predicates)
                )
                if n_with_chosen <= _MAX_BASE_SHARE * n_sentences:
                    predicates_of[word] = tuple(sorted(chosen))
                break
    return predicates_of


def triples_without_cue(text: MatchedText, cues: Mapping[str, Collection[str]]) -> tuple[Triple, ...]:
    """The triples of predicates in `cues` whose values occur, but only in sentences without a cue of the predicate."""
    triples = text.record.triples
    has_cue: dict[int, bool] = {}
    for words, values in _sentences(text):
        for index in values:
            predicate = triples[index].predicate
            if predicate in cues:
                has_cue[index] = has_cue.get(index, False) or not words.isdisjoint(cues[predicate])
    return tuple(triples[index] for index in sorted(has_cue) if not has_cue[index])


def foreign_words(
    text: MatchedText, predicates_of: Mapping[str, Collection[str]], predicates: Collection[str]
) -> tuple[str, ...]:
    """The words of `predicates_of` in sentences without a value of their predicates, except words of `predicates`."""
    return tuple(
        word
        for words, values in _sentences(text)
        for word in sorted(words & predicates_of.keys())
        if not {*predicates, *(text.record.triples[index].predicate for index in values)} & set(predicates_of[word])
    )


def _expected_counts(
    sentences: Mapping[_Sentence, int], predicate_counts: Mapping[str, int]
) -> dict[str, dict[str, float]]:
    """By predicate and word: the expected number of sentences in which the predicate generates the word, estimated by
    expectation maximisation. The predicate "" generates the words that express no predicate.
    """
    n_sentences = sum(sentences.values())
    rates: dict[str, dict[str, float]] = {}
    counts: dict[str, dict[str, float]] = {}
    for _ in range(_ITERATIONS):
        counts = defaultdict(lambda: defaultdict(float))
        for (words, predicates), count in sentences.items():
            causes = ("", *predicates)
            for word in words:
                shares = [rates[cause].get(word, 0.0) if rates else 1.0 for cause in causes]
                for cause, share in zip(causes, shares, strict=True):
                    if share > 0.0:
                        counts[cause][word] += count * share / sum(shares)
        rates = {
            cause: {
                word: count / predicate_counts.get(cause, n_sentences) for word, count in words.items() if count > 1e-3
            }
            for cause, words in counts.items()
        }
    return counts


def _sentences(text: MatchedText) -> Iterator[tuple[set[str], Sequence[int]]]:
    """The possible cues of each sentence (words outside names and values that begin it or are in lower case), and the
    indices of the triples that have a value in it.
    """
    name_bounds = [bounds for span in text.spans if (bounds := text.indexed.words_in(span))]
    within_names = {number for first, end in name_bounds for number in range(first + 1, end)}  # "Ulm" in "A.F.C. Ulm"
    starts = [
        number
        for number, word in enumerate(text.words)
        if word.initial and not word.raw[:1].islower() and number not in within_names
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
        numbers = range(start, end)
        yield words, [index for index, firsts in enumerate(first_words) if not firsts.isdisjoint(numbers)]
