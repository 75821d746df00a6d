"""What a metric counts in each text, from which the scores of a corpus, of a part of it and of samples of it follow.

A metric does its slow work once, one row of counts a text; its formula turns any sum of rows into a score. So a
thousand bootstrap samples cost a thousand sums, and the seen and the unseen half of a test set need no second run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation import Score

References = Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False, slots=True)
class SegmentScores:
    """One score a text, in the unit of the corpus score, and what exactly was computed."""

    values: np.ndarray
    """(texts,)"""
    signature: str


@dataclass(frozen=True, eq=False, slots=True)
class SegmentStatistics:
    """The counts of one metric over a corpus."""

    rows: np.ndarray
    """(texts, counts)"""
    formula: Callable[[np.ndarray], np.ndarray]
    """(..., counts) sums of rows -> (...) scores."""
    signature: str
    single: SegmentScores | None
    """The score of each text alone, where the measure has one."""

    def corpus(self, only: Sequence[int] | slice | None = None) -> Score:
        """The score of the corpus, or of the texts that `only` picks: a test set's seen half, say.

        What was learned from all references stays: the weights of NIST's n-grams and the idf of CIDEr's.

        Raises:
            AggGenError: no text is picked.
        """
        if only is None:
            return Score(float(self.formula(self.rows.sum(0))), self.signature)
        picked = self.rows[only if isinstance(only, slice) else np.asarray(only, dtype=int)]
        if not len(picked):
            raise AggGenError("there are no texts to score in the part that was asked for")
        return Score(float(self.formula(picked.sum(0))), f"{self.signature}|texts:{len(picked)}of{len(self.rows)}")

    def noted(self, remark: str) -> SegmentStatistics:
        """The same with a remark in the signatures, on how the texts were made ready."""
        single = self.single and SegmentScores(self.single.values, f"{self.single.signature}|{remark}")
        return SegmentStatistics(self.rows, self.formula, f"{self.signature}|{remark}", single)

    def samples(self, weights: np.ndarray) -> np.ndarray:
        """The scores, (samples,), of samples that hold text i `weights[s, i]` times."""
        return self.formula(weights @ self.rows)


def mean_statistics(values: np.ndarray, signature: str) -> SegmentStatistics:
    """The counts of a metric whose corpus score is the mean of its texts' scores."""
    rows = np.stack([values, np.ones(len(values))], axis=1)
    return SegmentStatistics(
        rows, lambda sums: ratio(sums[..., 0], sums[..., 1]), signature, SegmentScores(values, signature)
    )


def rate_statistics(counts: Sequence[float], totals: Sequence[float], signature: str) -> SegmentStatistics:
    """The counts of a metric whose corpus score is the sum of `counts` in percent of the sum of `totals`."""
    rows = np.stack([100 * np.asarray(counts, dtype=float), np.asarray(totals, dtype=float)], axis=1)
    single = SegmentScores(ratio(rows[:, 0], rows[:, 1]), signature)
    return SegmentStatistics(rows, lambda sums: ratio(sums[..., 0], sums[..., 1]), signature, single)


def share_statistics(counts: Sequence[tuple[float, float]], signature: str) -> SegmentStatistics:
    """The counts of a metric whose corpus score is a quotient of two sums; NaN where the second sum is 0.

    Args:
        counts: what each text adds to both sums.
    """

    def formula(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])

    return SegmentStatistics(np.array(counts, dtype=float).reshape(-1, 2), formula, signature, None)


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """`part` / `whole`, and 0 where `whole` is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=float), np.asarray(whole, dtype=float))
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole != 0)


def present_references(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The references of each text without the blank ones, after a check of both.

    An empty hypothesis is fine: it scores what it scores.

    Raises:
        AggGenError: no texts; not as many lists of references as texts; a text without a reference; something that
            is no string.
    """
    if len(hypotheses) != len(references):
        raise AggGenError(f"{len(hypotheses)} texts but references for {len(references)}; there must be as many")
    if not hypotheses:
        raise AggGenError("there are no texts to score")
    present = []
    for number, (text, group) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if not isinstance(text, str):
            raise AggGenError(f"text {number} is of type {type(text).__name__}, not a string")
        if isinstance(group, str) or not isinstance(group, Sequence):
            raise AggGenError(
                f"the references of text {number} are of type {type(group).__name__}, not a list of strings"
            )
        wrong = next((item for item in group if not isinstance(item, str)), "")
        if wrong != "":
            raise AggGenError(f"a reference of text {number} is of type {type(wrong).__name__}, not a string")
        present.append([item for item in group if item.strip()])
        if not present[-1]:
            raise AggGenError(f"text {number} ({text!r:.60}) has no reference to be scored against")
    return present


def count_of_references(references: Sequence[Sequence[object]]) -> str:
    """For signatures: the number of references where it is the same for all texts, else `var`."""
    counts = {len(group) for group in references}
    return str(counts.pop()) if len(counts) == 1 else "var"


def one_line(text: str) -> str:
    """`text` with blanks for line ends of any kind, for tools that read one text a line."""
    return " ".join(text.splitlines())
