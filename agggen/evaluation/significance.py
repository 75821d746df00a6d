"""How sure a score and a difference of two systems is, from what was counted in each text.

Corpus scores are recomputed for each sample from the sums of its texts' counts (Koehn 2004; Riezler and Maxwell 2005),
so 1,000 samples take a moment. What a metric learned from all references (NIST's weights, CIDEr's idf) stays fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation.segments import SegmentStatistics
from agggen.scores import method

RESAMPLES = 1000
SEED = 12345
_CELLS = 1 << 22  # weights held at a time


@dataclass(frozen=True, slots=True)
class Interval:
    """A corpus score with its bootstrap interval."""

    value: float
    low: float
    high: float
    signature: str

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] ({self.signature})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same texts."""

    first: float
    second: float
    p_value: float
    """How often a difference at least this large, of either sign, would arise if the systems were equal."""
    signature: str
    low: float
    high: float
    """The bootstrap interval of first - second."""

    @property
    def difference(self) -> float:
        return self.first - self.second


def confidence_interval(
    statistics: SegmentStatistics, level: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """The percentile interval of the corpus score over texts drawn with replacement.

    Raises:
        AggGenError: `level` is not between 0 and 1, or `resamples` is not positive.
    """
    _check(level, resamples)
    scores = np.concatenate(
        [statistics.samples(weights) for weights in _bootstrap(len(statistics.rows), resamples, seed)]
    )
    low, high = _percentiles(scores, level)
    score = statistics.corpus()
    remark = f"|ci:bootstrap-percentile|level:{level:g}|resamples:{resamples}|seed:{seed}"
    return Interval(score.value, low, high, score.signature + remark)


def paired_bootstrap(
    first: SegmentStatistics,
    second: SegmentStatistics,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Both systems on the same samples of texts: the interval of their difference, and a two-sided test.

    The test asks how often the samples' difference lies as far from their mean as the observed one lies from 0.

    Raises:
        AggGenError: as ``confidence_interval``, or the statistics are not of the same metric and texts.
    """
    _check(level, resamples)
    value, other = _pair(first, second)
    drawn = _bootstrap(len(first.rows), resamples, seed)
    differences = np.concatenate([first.samples(weights) - second.samples(weights) for weights in drawn])
    p_value = _share(np.abs(differences - differences.mean()), abs(value - other))
    low, high = _percentiles(differences, level)
    remark = f"|test:paired-bootstrap|level:{level:g}|resamples:{resamples}|seed:{seed}"
    return Comparison(value, other, p_value, first.signature + remark, low, high)


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise AggGenError(f"a confidence level is between 0 and 1, not {level}")
    if resamples < 1:
        raise AggGenError(f"there must be at least one sample, not {resamples}")


def _pair(first: SegmentStatistics, second: SegmentStatistics) -> tuple[float, float]:
    if first.rows.shape != second.rows.shape:
        raise AggGenError(f"the systems differ in their texts: {len(first.rows)} and {len(second.rows)} of them")
    if method(first.signature) != method(second.signature):
        raise AggGenError(f"the systems were measured differently: {first.signature} and {second.signature}")
    return first.corpus().value, second.corpus().value


def _bootstrap(size: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each text is in each sample, (some samples, texts)."""
    rng = np.random.default_rng(seed)
    for count in _batches(size, resamples):
        yield rng.multinomial(size, np.full(size, 1 / size), size=count).astype(float)


def _batches(size: int, total: int) -> Iterator[int]:
    step = max(_CELLS // size, 1)
    for done in range(0, total, step):
        yield min(step, total - done)


def _share(values: np.ndarray, threshold: float) -> float:
    """The share of values that reach `threshold`, the observed case counted in, so that it is never 0."""
    return float((np.count_nonzero(values >= threshold - 1e-9) + 1) / (len(values) + 1))


def _percentiles(values: np.ndarray, level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
