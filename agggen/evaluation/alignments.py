"""Alignments of triples to facts against human ones (paper, section "Study of Alignment").

The published table calls "recall" the share of triples that received any alignment, right or wrong, and "precision"
the share of those that are right. ``accuracy`` is what recall usually means. Both are reported, under their own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation import Score
from agggen.evaluation.segments import SegmentStatistics, ratio

Positions = Mapping[str, int | None]
"""Predicate -> position of its fact in the text, counted from 0; None or absent where it has none."""


def positions(facts: Iterable[Iterable[str]]) -> dict[str, int]:
    """The fact of each predicate, given the predicates of each fact in text order.

    Of several facts that name one predicate the last counts, as in the published numbers.
    """
    return {predicate: number for number, predicates in enumerate(facts) for predicate in predicates}


def alignment_scores(predicted: Sequence[Positions], gold: Sequence[Positions]) -> dict[str, Score]:
    """The corpus scores of `alignment_statistics` by name."""
    return {name: counts.corpus() for name, counts in alignment_statistics(predicted, gold).items()}


def alignment_statistics(predicted: Sequence[Positions], gold: Sequence[Positions]) -> dict[str, SegmentStatistics]:
    """Scores `predicted` against `gold`, one mapping a text, in percent as the paper prints them.

    Triples that gold leaves out are not counted, nor are texts of which gold aligns nothing.

    Raises:
        AggGenError: different numbers of texts, or no gold alignment at all.
    """
    if len(predicted) != len(gold):
        raise AggGenError(f"{len(predicted)} texts are aligned but {len(gold)} have gold alignments")
    counts = []
    for ours, theirs in zip(predicted, gold, strict=True):
        facts = [(ours.get(predicate), fact) for predicate, fact in theirs.items() if fact is not None]
        if facts:
            aligned = sum(found is not None for found, _ in facts)
            counts.append((sum(found == fact for found, fact in facts), aligned, len(facts)))
    if not counts:
        raise AggGenError("the gold alignments align nothing")
    rows = np.array(counts, dtype=float)  # right, aligned, all
    remark = f"percent|triples:{int(rows[:, 2].sum())}"
    return {
        name: SegmentStatistics(rows, formula, f"alignment|{what}|{remark}", None)
        for name, (formula, what) in _MEASURES.items()
    }


def _precision(sums: np.ndarray) -> np.ndarray:
    return 100 * ratio(sums[..., 0], sums[..., 1])


def _recall(sums: np.ndarray) -> np.ndarray:
    return 100 * ratio(sums[..., 1], sums[..., 2])


def _f1(sums: np.ndarray) -> np.ndarray:
    precision, recall = _precision(sums), _recall(sums)
    return ratio(2 * precision * recall, precision + recall)


def _accuracy(sums: np.ndarray) -> np.ndarray:
    return 100 * ratio(sums[..., 0], sums[..., 2])


_MEASURES = {
    "precision": (_precision, "right/aligned"),
    "recall": (_recall, "paper's recall: aligned, right or wrong/all"),
    "f1": (_f1, "of precision and the paper's recall"),
    "accuracy": (_accuracy, "right/all"),
}
