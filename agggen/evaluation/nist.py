"""NIST and the tokeniser of mteval-v13a, as in the E2E challenge's scorer (Doddington 2002; tuetschek/e2e-metrics).

NLTK's corpus_nist differs: for each order, it matches a text against its best reference and uses the length of this
reference, whereas mteval clips n-gram counts by their maximum over all references.
"""

import math
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from importlib.metadata import version
from operator import or_

import numpy as np
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from agggen.evaluation.segments import References, SegmentStatistics, count_of_references, one_line, ratio

ORDERS = 5
_BETA = math.log(2) / math.log(1.5) ** 2
_LOWER_CASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def mteval_tokens(text: str) -> str:
    """The tokens of mteval-v13a, joined by spaces: ASCII letters lower-cased, then sacreBLEU's 13a."""
    return str(Tokenizer13a()(one_line(text).translate(_LOWER_CASE)))


def nist_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """NIST over n-grams of up to 5 tokens, which are separated by spaces; not a percentage.

    The weight of an n-gram is log2(count of its first n - 1 words / count of the n-gram) over all references. The
    reference length is the mean over references.
    """
    groups = [[text.split() for text in group] for group in references]
    reference_counts = Counter(ngram for group in groups for words in group for ngram in _ngrams(words))
    total_words = sum(len(words) for group in groups for words in group)
    rows = np.zeros((len(groups), 2 * ORDERS + 3))
    for row, text, group in zip(rows, hypotheses, groups, strict=True):
        words = text.split()
        max_counts = reduce(or_, (Counter(_ngrams(reference)) for reference in group))  # over the references
        for ngram, count in Counter(_ngrams(words)).items():
            if matched := min(count, max_counts[ngram]):
                history_count = reference_counts[ngram[:-1]] if len(ngram) > 1 else total_words
                row[len(ngram) - 1] += matched * math.log2(history_count / reference_counts[ngram])
        row[ORDERS : 2 * ORDERS] = [max(len(words) - order, 0) for order in range(ORDERS)]
        row[2 * ORDERS :] = sum(map(len, group)), len(group), 1
    signature = (
        f"nist|tool:agggen|as:mteval-v13a|version:{version('agggen')}|order:{ORDERS}"
        f"|nrefs:{count_of_references(groups)}|case:mixed|tok:none"
    )
    return SegmentStatistics(rows, _score, signature, _score(rows))


def _score(counts: np.ndarray) -> np.ndarray:
    """NIST (...) from counts (..., 13): information by order, n-grams by order, reference words, references, texts."""
    information = ratio(counts[..., :ORDERS], counts[..., ORDERS : 2 * ORDERS]).sum(-1)
    words, references, texts = np.moveaxis(counts[..., 2 * ORDERS :], -1, 0)
    length_ratio = ratio(counts[..., ORDERS] * references, words * texts)
    with np.errstate(divide="ignore"):  # the brevity penalty of a ratio is 1 from 1 on, 1/2 for 2/3, 0 for 0
        return information * np.exp(-_BETA * np.log(np.minimum(length_ratio, 1)) ** 2)


def _ngrams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + ORDERS, len(words)) + 1):
            yield tuple(words[start:end])
