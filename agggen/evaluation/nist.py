"""NIST and BLEU as mteval-v13a computes them in the E2E challenge's scorer (Doddington 2002; tuetschek/e2e-metrics).

NLTK's corpus_nist gives other figures: it matches each text against its single best reference of each order, where
mteval clips counts by the maximum over all references, and its length penalty looks at those references' lengths.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

import numpy as np
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from agggen.evaluation.segments import (
    References,
    SegmentScores,
    SegmentStatistics,
    count_of_references,
    one_line,
    ratio,
)

ORDERS = 5
_BETA = math.log(2) / math.log(1.5) ** 2
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

NGram = tuple[str, ...]


def mteval_tokens(text: str) -> str:
    """`text` as mteval-v13a tokenises it, tokens joined by blanks: ASCII letters lower-cased, then 13a."""
    return str(Tokenizer13a()(one_line(text).translate(_LOWER)))


def nist_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """NIST over 5-grams of texts that are tokenised with blanks; as printed, not a percentage.

    An n-gram weighs log2 of how often its first n - 1 words occur in all references for each time that it does. The
    length that texts are held against is that of all references, over the mean number of references a text.
    """
    groups = [[text.split() for text in group] for group in references]
    seen = Counter(ngram for group in groups for words in group for ngram in _ngrams(words))
    total = sum(len(words) for group in groups for words in group)
    rows = np.zeros((len(groups), 2 * ORDERS + 3))
    for row, text, group in zip(rows, hypotheses, groups, strict=True):
        words = text.split()
        limit = _maximum(Counter(_ngrams(other)) for other in group)
        for ngram, count in Counter(_ngrams(words)).items():
            if matched := min(count, limit.get(ngram, 0)):
                context = seen[ngram[:-1]] if len(ngram) > 1 else total
                row[len(ngram) - 1] += matched * math.log2(context / seen[ngram])
        row[ORDERS : 2 * ORDERS] = [max(len(words) - order, 0) for order in range(ORDERS)]
        row[2 * ORDERS :] = sum(map(len, group)), len(group), 1
    signature = (
        f"nist|tool:agggen|as:mteval-v13a|version:{version('agggen')}|order:{ORDERS}"
        f"|nrefs:{count_of_references(groups)}|case:mixed|tok:none"
    )
    return SegmentStatistics(rows, _score, signature, SegmentScores(_score(rows), signature))


def _score(counts: np.ndarray) -> np.ndarray:
    """(..., 13) -> (...): information and number of n-grams by order, words of references, references, texts."""
    information = ratio(counts[..., :ORDERS], counts[..., ORDERS : 2 * ORDERS]).sum(-1)
    words, references, texts = np.moveaxis(counts[..., 2 * ORDERS :], -1, 0)
    return information * _penalty(ratio(counts[..., ORDERS] * references, words * texts))


def _penalty(length: np.ndarray) -> np.ndarray:
    """1 for texts as long as the references or longer, 1/2 at two thirds of their length, 0 for empty ones."""
    with np.errstate(divide="ignore"):
        return np.exp(-_BETA * np.log(np.minimum(length, 1)) ** 2)


def _ngrams(words: Sequence[str]) -> Iterator[NGram]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + ORDERS, len(words)) + 1):
            yield tuple(words[start:end])


def _maximum(counts: Iterable[Counter[NGram]]) -> dict[NGram, int]:
    most: dict[NGram, int] = {}
    for counted in counts:
        for ngram, count in counted.items():
            if count > most.get(ngram, 0):
                most[ngram] = count
    return most
