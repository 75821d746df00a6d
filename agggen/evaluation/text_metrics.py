"""BLEU, chrF and TER of sacreBLEU, TER of tercom, NIST, and Moses multi-bleu as in the paper's WebNLG table.

Scores are in percent, except NIST and distinct-n. Each hypothesis has at least one reference; the number of references
may vary. Self-BLEU and distinct-n measure diversity, not correctness, and should be reported with other metrics.
"""

import math
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from importlib.metadata import version
from itertools import zip_longest
from operator import or_

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from agggen.evaluation import Score
from agggen.evaluation.segments import (
    References,
    SegmentStatistics,
    count_of_references,
    non_blank_references,
    one_line,
    percentage,
    quotient_statistics,
    ratio,
)
from agggen.evaluation.ter import count_edits

_NIST_ORDERS = 5
_NIST_BETA = math.log(2) / math.log(1.5) ** 2
_LOWER_CASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def bleu_statistics(
    hypotheses: Sequence[str], references: References, lowercase: bool = False, tokenised: bool = False
) -> SegmentStatistics:
    """sacreBLEU's BLEU, with 13a unless the texts are `tokenised`; segment scores use the effective order."""
    return _bleu(non_blank_references(hypotheses, references), hypotheses, lowercase, tokenised)


def multi_bleu_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """Moses multi-bleu of tokenised texts, lower-cased, without smoothing, as in the paper's WebNLG table.

    Missing references are replaced by empty texts, as in the paper's reference files. This favours short texts, for
    which the closest reference length may be 0.
    """
    groups = non_blank_references(hypotheses, references)
    width = max(map(len, references))
    padded = [group + [""] * (width - len(group)) for group in groups]
    return _bleu(padded, hypotheses, lowercase=True, tokenised=True, remark="|missing:blank")


def chrf_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """sacreBLEU's chrF2, which ignores whitespace: tokenised and raw texts have similar scores."""
    metric = CHRF()
    return _statistics("chrf", hypotheses, non_blank_references(hypotheses, references), metric, metric)


def ter_statistics(hypotheses: Sequence[str], references: References, tokenised: bool = False) -> SegmentStatistics:
    """sacreBLEU's TER, case-sensitive, with punctuation split off unless the texts are `tokenised`."""
    metric = TER(normalized=not tokenised, case_sensitive=True)
    return _statistics("ter", hypotheses, non_blank_references(hypotheses, references), metric, metric)


def tercom_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """TER of tercom 0.7.25 (see ``agggen.evaluation.ter``) of lower-cased texts with space-separated tokens."""
    groups = [[text.lower().split() for text in group] for group in non_blank_references(hypotheses, references)]
    counts = []
    for text, group in zip(hypotheses, groups, strict=True):
        words = text.lower().split()
        counts.append((min(count_edits(words, reference) for reference in group), sum(map(len, group)) / len(group)))
    rows, formula = np.array(counts, dtype=float), percentage(0, 1)
    signature = (
        f"ter|tool:agggen|as:tercom-0.7.25|version:{version('agggen')}"
        f"|nrefs:{count_of_references(groups)}|case:lc|tok:none"
    )
    return SegmentStatistics(rows, formula, signature, formula(rows))


def mteval_tokens(text: str) -> str:
    """The tokens of mteval-v13a, joined by spaces: ASCII letters lower-cased, then sacreBLEU's 13a."""
    return str(Tokenizer13a()(one_line(text).translate(_LOWER_CASE)))


def nist_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """NIST of mteval-v13a, as in the E2E challenge's scorer, over n-grams of up to 5 space-separated tokens.

    The weight of an n-gram is log2(count of its first n - 1 words / count of the n-gram) over all references. The
    reference length is the mean over references (Doddington 2002). NLTK's corpus_nist differs: for each order, it
    matches a text against its best reference and uses the length of this reference.
    """
    groups = [[text.split() for text in group] for group in references]
    reference_counts = Counter(ngram for group in groups for words in group for ngram in _ngrams(words))
    total_words = sum(len(words) for group in groups for words in group)
    rows = np.zeros((len(groups), 2 * _NIST_ORDERS + 3))
    for row, text, group in zip(rows, hypotheses, groups, strict=True):
        words = text.split()
        max_counts = reduce(or_, (Counter(_ngrams(reference)) for reference in group))  # over the references
        for ngram, count in Counter(_ngrams(words)).items():
            if matched := min(count, max_counts[ngram]):
                history_count = reference_counts[ngram[:-1]] if len(ngram) > 1 else total_words
                row[len(ngram) - 1] += matched * math.log2(history_count / reference_counts[ngram])
        row[_NIST_ORDERS : 2 * _NIST_ORDERS] = [max(len(words) - order, 0) for order in range(_NIST_ORDERS)]
        row[2 * _NIST_ORDERS :] = sum(map(len, group)), len(group), 1
    signature = (
        f"nist|tool:agggen|as:mteval-v13a|version:{version('agggen')}|order:{_NIST_ORDERS}"
        f"|nrefs:{count_of_references(groups)}|case:mixed|tok:none"
    )
    return SegmentStatistics(rows, _nist_score, signature, _nist_score(rows))


def distinct_n(texts: Sequence[str], n: int = 2) -> Score:
    """Distinct-n (Li et al. 2016): the fraction of distinct n-grams among the n-grams of all texts, in [0, 1].

    Distinct-n decreases with the amount of text, so only sets of texts of similar size are comparable. Tokens are
    sacreBLEU's 13a tokens, lower-cased. NaN if no text has n tokens.
    """
    tokenise = Tokenizer13a()
    tokens = [tokenise(text.lower()).split() for text in texts]
    grams = [tuple(line[i : i + n]) for line in tokens for i in range(len(line) - n + 1)]
    value = len(set(grams)) / len(grams) if grams else float("nan")
    return Score(value, f"distinct-{n}|tok:13a|case:lc|texts:{len(texts)}|n-grams:{len(grams)}")


def self_bleu(n_best: Sequence[Sequence[str]]) -> SegmentStatistics:
    """Self-BLEU (Zhu et al. 2018), in percent: the mean sentence BLEU of a text against the other texts of its record.

    100 if all texts of each record are equal. Records with a single text are ignored; NaN without other records.
    """
    metric = BLEU(lowercase=True, effective_order=True)
    counts = []
    for texts in n_best:
        pairs = [(text, [*texts[:i], *texts[i + 1 :]]) for i, text in enumerate(texts)] if len(texts) > 1 else []
        scores = [metric.sentence_score(text, other_texts).score for text, other_texts in pairs]
        counts.append((sum(scores), len(scores)))
    total = sum(count for _, count in counts)
    signature = str(metric.get_signature()) if total else "BLEU"
    return quotient_statistics(counts, f"self-BLEU|{signature}|texts:{total}")


def _bleu(
    groups: References, hypotheses: Sequence[str], lowercase: bool, tokenised: bool, remark: str = ""
) -> SegmentStatistics:
    tokenize = "none" if tokenised else "13a"
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    sentence_metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True, effective_order=True)
    return _statistics("bleu", hypotheses, groups, metric, sentence_metric, remark)


def _statistics(
    name: str, hypotheses: Sequence[str], groups: References, metric: Metric, sentence_metric: Metric, remark: str = ""
) -> SegmentStatistics:
    """The statistics of `metric`, with segment scores by `sentence_metric` from the same counts."""
    columns = list(zip_longest(*groups))  # the n-th references of all texts, for each n; None if missing
    rows = np.array(metric._extract_corpus_statistics(list(hypotheses), columns), dtype=float)
    signature = f"{name}|tool:sacrebleu|{metric.get_signature()}{remark}"
    return SegmentStatistics(rows, partial(_scores, metric), signature, _scores(sentence_metric, rows))


def _scores(metric: Metric, sums: np.ndarray) -> np.ndarray:
    """The scores (...) of `metric` from sums of counts (..., counts)."""
    return np.apply_along_axis(lambda counts: metric._compute_score_from_stats(counts.tolist()).score, -1, sums)


def _nist_score(counts: np.ndarray) -> np.ndarray:
    """NIST (...) from counts (..., 13): information by order, n-grams by order, reference words, references, texts."""
    information = ratio(counts[..., :_NIST_ORDERS], counts[..., _NIST_ORDERS : 2 * _NIST_ORDERS]).sum(-1)
    words, references, texts = np.moveaxis(counts[..., 2 * _NIST_ORDERS :], -1, 0)
    length_ratio = ratio(counts[..., _NIST_ORDERS] * references, words * texts)
    with np.errstate(divide="ignore"):  # the brevity penalty of a ratio is 1 from 1 on, 1/2 for 2/3, 0 for 0
        return information * np.exp(-_NIST_BETA * np.log(np.minimum(length_ratio, 1)) ** 2)


def _ngrams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + _NIST_ORDERS, len(words)) + 1):
            yield tuple(words[start:end])
