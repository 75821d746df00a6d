"""BLEU, chrF and TER of sacreBLEU, TER of tercom, and Moses multi-bleu as in the paper's WebNLG table, in percent.

Each hypothesis has at least one reference; the number of references may vary.
"""

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from itertools import zip_longest

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from agggen.evaluation.segments import (
    References,
    SegmentStatistics,
    count_of_references,
    non_blank_references,
    percentage,
)
from agggen.evaluation.ter import count_edits


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
