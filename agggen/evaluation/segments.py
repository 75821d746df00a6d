"""Segment statistics of a metric: a row of counts per text, and a formula that maps sums of rows to scores.

The score of a corpus, of a part of it, or of a bootstrap sample therefore needs only a sum of rows. Statistics over all
references (NIST's weights, CIDEr's document frequencies) are not recomputed for a part or sample. Confidence intervals
and paired tests are bootstraps (Koehn 2004; Riezler and Maxwell 2005).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation import Score, without_counts

RESAMPLES = 1000
SEED = 12345
_CONFIDENCE_LEVEL = 0.95
_BLOCK_CELLS = 1 << 22  # number of weights in memory at once
References = Sequence[Sequence[str]]  # the references of each text
Formula = Callable[[np.ndarray], np.ndarray]  # sums of rows (..., counts) -> scores (...)


@dataclass(frozen=True, eq=False, slots=True)
class SegmentStatistics:
    """The counts of one metric over a corpus."""

    rows: np.ndarray  # (texts, counts)
    formula: Formula
    signature: str
    segment_scores: np.ndarray | None = None  # (texts,); None if the metric is not defined for single texts

    def corpus(self, indices: Sequence[int] | slice | None = None) -> Score:
        """The score of the corpus, or of the texts with the indices `indices`."""
        if indices is None:
            return Score(float(self.formula(self.rows.sum(0))), self.signature)
        part = self.rows[indices if isinstance(indices, slice) else np.asarray(indices, dtype=int)]
        return Score(float(self.formula(part.sum(0))), f"{self.signature}|texts:{len(part)}of{len(self.rows)}")

    def samples(self, weights: np.ndarray) -> np.ndarray:
        """The scores (samples,) of bootstrap samples; `weights` (samples, texts) counts the texts of each sample."""
        return self.formula(weights @ self.rows)


def mean_statistics(values: np.ndarray, signature: str) -> SegmentStatistics:
    """Statistics of a metric whose corpus score is the mean of `values` (texts,)."""
    rows = np.stack([values, np.ones(len(values))], axis=1)
    return SegmentStatistics(rows, _quotient, signature, values)


def percentage_statistics(counts: Sequence[float], totals: Sequence[float], signature: str) -> SegmentStatistics:
    """Statistics of a metric whose corpus score is 100 * sum(`counts`) / sum(`totals`)."""
    rows = np.stack([100 * np.asarray(counts, dtype=float), np.asarray(totals, dtype=float)], axis=1)
    return SegmentStatistics(rows, _quotient, signature, _quotient(rows))


def quotient_statistics(counts: Sequence[tuple[float, float]], signature: str) -> SegmentStatistics:
    """Statistics of a metric whose corpus score is the quotient of the sums of `counts`; NaN if the divisor is 0."""

    def formula(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])

    return SegmentStatistics(np.array(counts, dtype=float).reshape(-1, 2), formula, signature)


def _quotient(sums: np.ndarray) -> np.ndarray:
    return ratio(sums[..., 0], sums[..., 1])


def percentage(numerator: int, denominator: int) -> Formula:
    """The formula for the quotient of the counts with these indices, in percent."""
    return lambda sums: 100 * ratio(sums[..., numerator], sums[..., denominator])


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """`numerator` / `denominator`, elementwise; 0 where `denominator` is 0."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=denominator != 0)


def non_blank_references(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The non-blank references of each text, which may be empty; AggGenError if a text has no list of references."""
    if len(hypotheses) != len(references):
        raise AggGenError(f"{len(hypotheses)} texts but references for {len(references)}; the numbers must be equal")
    if not hypotheses:
        raise AggGenError("no texts to score; at least one is needed")
    non_blank = []
    for number, (text, group) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if isinstance(group, str):
            raise AggGenError(f"the references of text {number} are a string, not a list of strings")
        non_blank.append([reference for reference in group if reference.strip()])
        if not non_blank[-1]:
            raise AggGenError(f"text {number} ({text!r:.60}) has no reference")
    return non_blank


def count_of_references(references: Sequence[Sequence[object]]) -> str:
    """The number of references per text, for signatures; `var` if the number varies."""
    counts = {len(group) for group in references}
    return str(counts.pop()) if len(counts) == 1 else "var"


def one_line(text: str) -> str:
    """`text` with line ends of any kind replaced by spaces, for tools that read one text per line."""
    return " ".join(text.splitlines())


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
