"""Minimum Bayes risk decoding (Kumar and Byrne 2004): ranks texts of a record by faults and fallbacks, then by their
mean similarity to all sufficiently probable texts of all plans (samples), weighted by the samples' scores.
"""

import math
from collections import Counter
from collections.abc import Sequence

from agggen.generation.results import Generation
from agggen.text.tokenise import tokenise

TEMPERATURE = 0.5  # the weights of the samples are softmax(score / TEMPERATURE)
MARGIN = 0.4  # texts whose score is more than this below the best (of n texts: the n-th best) are not samples
_MAX_N = 4

NGrams = list[set[tuple[object, ...]]]  # for n = 1 to 4; the k-th occurrence of an n-gram is (n-gram, k)


def by_consensus(texts: Sequence[Generation], other_samples: Sequence[Generation] = ()) -> list[Generation]:
    """Sorts texts of a record by ascending `cost`, then by descending similarity to `texts` and `other_samples`."""
    if len(texts) < 2:
        return list(texts)
    samples = (*texts, *other_samples)
    sample_ngrams = [ngrams(text.text) for text in samples]
    highest = max(text.score for text in samples)
    weights = [math.exp((text.score - highest) / TEMPERATURE) for text in samples]
    similarities = [
        sum(weight * similarity(text_ngrams, other) for weight, other in zip(weights, sample_ngrams, strict=True))
        for text_ngrams in sample_ngrams[: len(texts)]
    ]
    order = sorted(range(len(texts)), key=lambda i: (cost(texts[i]), -similarities[i], -texts[i].score))
    return [texts[i] for i in order]


def cost(text: Generation) -> int:
    """The number of a text's faults and fallbacks."""
    return len(text.faults) + sum(fact.fallback for fact in text.facts)


def ngrams(text: str) -> NGrams:
    """The n-grams of a text's lower-cased words."""
    words = [token.text.lower() for token in tokenise(text)]
    counts = [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for n in range(1, _MAX_N + 1)]
    return [{(ngram, k) for ngram, count in n_counts.items() for k in range(count)} for n_counts in counts]


def similarity(a: NGrams, b: NGrams) -> float:
    """The mean over n of the F1 score of common n-grams, in [0, 1]; symmetric, unlike sentence BLEU."""
    scores = [2 * len(x & y) / max(len(x) + len(y), 1) for x, y in zip(a, b, strict=True)]
    return sum(scores) / len(scores)
