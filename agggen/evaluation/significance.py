"""Bootstrap confidence intervals and paired bootstrap tests (Koehn 2004; Riezler and Maxwell 2005).

The corpus score of each sample is recomputed from the sum of its texts' counts. Statistics over all references (NIST's
weights, CIDEr's document frequencies) are not recomputed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation import without_counts
from agggen.evaluation.segments import SegmentStatistics

RESAMPLES = 1000
SEED = 12345
_CONFIDENCE_LEVEL = 0.95
_BLOCK_CELLS = 1 << 22  # number of weights in memory at once


@dataclass(frozen=True, slots=True)
class Interval:
    """A corpus score with its bootstrap interval."""

    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The corpus scores of two systems on the same texts, with a significance test."""

    first: float
    second: float
    p_value: float  # two-sided: the probability of at least the observed difference if the systems were equal
    signature: str
    low: float  # bounds of the bootstrap interval of first - second
    high: float

    @property
    def difference(self) -> float:
        return self.first - self.second


def confidence_interval(statistics: SegmentStatistics, resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """The 95 % percentile bootstrap interval of the corpus score."""
    samples = _bootstrap(len(statistics.rows), resamples, seed)
    low, high = _percentiles(np.concatenate([statistics.samples(weights) for weights in samples]))
    score = statistics.corpus()
    remark = f"|ci:bootstrap-percentile|level:{_CONFIDENCE_LEVEL}|resamples:{resamples}|seed:{seed}"
    return Interval(score.value, low, high, score.signature + remark)


def paired_bootstrap(
    first: SegmentStatistics, second: SegmentStatistics, resamples: int = RESAMPLES, seed: int = SEED
) -> Comparison:
    """Paired bootstrap: the 95 % interval of the difference of two systems, and a two-sided test.

    The p-value is the fraction of samples whose difference deviates from the samples' mean by at least the observed
    difference. Raises AggGenError if the statistics are of different metrics or texts.
    """
    if first.rows.shape != second.rows.shape:
        raise AggGenError(f"the systems have {len(first.rows)} and {len(second.rows)} texts; they need the same texts")
    if without_counts(first.signature) != without_counts(second.signature):
        raise AggGenError(f"the systems' metrics differ: {first.signature} and {second.signature}")
    first_value, second_value = first.corpus().value, second.corpus().value
    samples = _bootstrap(len(first.rows), resamples, seed)
    differences = np.concatenate([first.samples(weights) - second.samples(weights) for weights in samples])
    deviations, observed_difference = np.abs(differences - differences.mean()), abs(first_value - second_value)
    # Add-one smoothing: a p-value is never 0.
    p_value = (np.count_nonzero(deviations >= observed_difference - 1e-9) + 1) / (resamples + 1)
    low, high = _percentiles(differences)
    remark = f"|test:paired-bootstrap|level:{_CONFIDENCE_LEVEL}|resamples:{resamples}|seed:{seed}"
    return Comparison(first_value, second_value, p_value, first.signature + remark, low, high)


def _bootstrap(n_texts: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yields blocks of samples: the number of occurrences of each text in each sample (samples, texts)."""
    rng = np.random.default_rng(seed)
    block_size = max(_BLOCK_CELLS // n_texts, 1)
    for start in range(0, resamples, block_size):
        n_samples = min(block_size, resamples - start)
        yield rng.multinomial(n_texts, np.full(n_texts, 1 / n_texts), size=n_samples).astype(float)


def _percentiles(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - _CONFIDENCE_LEVEL) / 2, (1 + _CONFIDENCE_LEVEL) / 2])
    return float(low), float(high)
