"""Choice by consensus, or minimum Bayes risk (Kumar and Byrne 2004): the text most similar to all texts of its record.

The texts of all plans and beams are samples of possible texts. A text is ranked by its mean similarity to all samples,
weighted by their scores; a text with more faults and fallbacks never precedes a text with fewer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from agggen.generation.results import Generation
from agggen.text.tokenise import tokenise

TEMPERATURE = 0.5
"""The weights of the texts are softmax(score / TEMPERATURE)."""
_MAX_N = 4

NGrams = list[Counter[tuple[str, ...]]]
"""The counts of a text's n-grams, for n = 1 to 4."""


def by_consensus(texts: Sequence[Generation]) -> list[Generation]:
    """The texts of a record by ascending `cost`, then by descending expected similarity."""
    if len(texts) < 2:
        return list(texts)
    grams = [ngrams(text.text) for text in texts]
    highest = max(text.score for text in texts)
    weights = [math.exp((text.score - highest) / TEMPERATURE) for text in texts]
    expected = [sum(w * similarity(a, b) for w, b in zip(weights, grams, strict=True)) for a in grams]
    order = sorted(range(len(texts)), key=lambda i: (cost(texts[i]), -expected[i], -texts[i].score))
    return [texts[i] for i in order]


def cost(text: Generation) -> int:
    """The number of a text's faults and fallbacks."""
    return len(text.faults) + sum(fact.fallback for fact in text.facts)


def ngrams(text: str) -> NGrams:
    """The n-grams of a text's lower-cased words."""
    words = [token.text.lower() for token in tokenise(text)]
    return [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for n in range(1, _MAX_N + 1)]


def similarity(a: NGrams, b: NGrams) -> float:
    """The mean over n of the F1 score of common n-grams, in [0, 1]; symmetric, unlike sentence BLEU."""
    scores = [2 * (x & y).total() / max(x.total() + y.total(), 1) for x, y in zip(a, b, strict=True)]
    return sum(scores) / len(scores)
