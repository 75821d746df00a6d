"""Alignments of triples to facts against human ones (paper, section "Study of Alignment").

The published table calls "recall" the share of triples that received any alignment, right or wrong, and "precision"
the share of those that are right. ``accuracy`` is what recall usually means. Both are reported, under their own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agggen.errors import AggGenError
from agggen.evaluation import Score

Positions = Mapping[str, int | None]
"""Predicate -> position of its fact in the text, counted from 0; None or absent where it has none."""


@dataclass(frozen=True, slots=True)
class AlignmentScores:
    """Shares, 0..1, over all triples of all texts."""

    precision: float
    """Right alignments among the aligned triples."""
    recall: float
    """The paper's "recall": aligned triples, right or wrong, among all."""
    f1: float
    """Harmonic mean of the two above."""
    accuracy: float
    """Right alignments among all triples: recall in the usual sense."""
    correct: int
    aligned: int
    total: int
    signature: str = "alignment|paper:P=right/aligned,R=aligned/all|accuracy=right/all"

    def percentages(self) -> dict[str, Score]:
        """The four measures by name, in percent as the paper prints them."""
        counts = f"percent|triples:{self.total}"
        return {
            "precision": Score(100 * self.precision, f"alignment|right/aligned|{counts}"),
            "recall": Score(100 * self.recall, f"alignment|paper's recall: aligned, right or wrong/all|{counts}"),
            "f1": Score(100 * self.f1, f"alignment|of precision and the paper's recall|{counts}"),
            "accuracy": Score(100 * self.accuracy, f"alignment|right/all|{counts}"),
        }


def positions(facts: Iterable[Iterable[str]]) -> dict[str, int]:
    """The fact of each predicate, given the predicates of each fact in text order.

    Of several facts that name one predicate the last counts, as in the published numbers.
    """
    return {predicate: number for number, predicates in enumerate(facts) for predicate in predicates}


def alignment_scores(predicted: Sequence[Positions], gold: Sequence[Positions]) -> AlignmentScores:
    """Scores `predicted` against `gold`, one mapping a text; triples that gold leaves out are not counted.

    Raises:
        AggGenError: different numbers of texts, or no gold alignment at all.
    """
    if len(predicted) != len(gold):
        raise AggGenError(f"{len(predicted)} texts are aligned but {len(gold)} have gold alignments")
    correct = aligned = total = 0
    for ours, theirs in zip(predicted, gold, strict=True):
        for predicate, fact in theirs.items():
            if fact is None:
                continue
            found = ours.get(predicate)
            total += 1
            aligned += found is not None
            correct += found == fact
    if not total:
        raise AggGenError("the gold alignments align nothing")
    precision = correct / aligned if aligned else 0.0
    recall = aligned / total
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return AlignmentScores(precision, recall, f1, correct / total, correct, aligned, total)
