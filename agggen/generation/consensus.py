"""Choice by consensus, or minimum Bayes risk (Kumar and Byrne 2004): the text that is most like all of its record's.

Texts of all plans and beams are samples of what can be said. Each is valued by its mean similarity with the others,
weighted by their scores; a text with a fault or a fallback never precedes one without.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from agggen.generation.results import Generation
from agggen.text.tokenise import tokenise

TEMPERATURE = 0.5
"""Of the weights, softmax(score / TEMPERATURE)."""
_ORDER = 4  # of the longest n-grams

NGrams = list[Counter[tuple[str, ...]]]


def by_consensus(texts: Sequence[Generation]) -> list[Generation]:
    """A record's texts by number of faults and fallbacks, then by falling expected similarity."""
    if len(texts) < 2:
        return list(texts)
    grams = [ngrams(text.text) for text in texts]
    highest = max(text.score for text in texts)
    weights = [math.exp((text.score - highest) / TEMPERATURE) for text in texts]
    value = [sum(w * similarity(a, b) for w, b in zip(weights, grams, strict=True)) for a in grams]
    order = sorted(range(len(texts)), key=lambda i: (cost(texts[i]), -value[i], -texts[i].score))
    return [texts[i] for i in order]


def cost(text: Generation) -> int:
    """Its faults and fallbacks."""
    return len(text.faults) + sum(fact.fallback for fact in text.facts)


def ngrams(text: str) -> NGrams:
    """The n-grams of a text's words without case, for n = 1 to 4."""
    words = [token.text.lower() for token in tokenise(text)]
    return [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for n in range(1, _ORDER + 1)]


def similarity(a: NGrams, b: NGrams) -> float:
    """The mean over n of the F1 score of common n-grams, 0 to 1; symmetric, unlike sentence BLEU."""
    scores = [2 * (x & y).total() / max(x.total() + y.total(), 1) for x, y in zip(a, b, strict=True)]
    return sum(scores) / len(scores)
