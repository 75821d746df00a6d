"""Boundaries between facts: one segmentation of texts against another.

A boundary is a place between two facts, counted in characters that are not white space, so the same text may be spaced
differently on the two sides. The ends of a text are no boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agggen.errors import AggGenError
from agggen.evaluation import Score


@dataclass(frozen=True, slots=True)
class BoundaryScores:
    """Shares, 0..1, over the inner boundaries of all texts together (micro-averaged)."""

    precision: float
    """Found boundaries that are in gold; 1 if none was found."""
    recall: float
    """Gold boundaries that were found; 1 if gold has none."""
    f1: float
    """Harmonic mean of the two."""
    identical: float
    """Texts with exactly gold's boundaries, among all texts."""
    correct: int
    found: int
    gold: int
    texts: int

    def percentages(self) -> dict[str, Score]:
        """The four measures by name, in percent."""
        counts = f"percent|texts:{self.texts}|found:{self.found}|gold:{self.gold}"
        return {
            "precision": Score(100 * self.precision, f"boundaries|inner, by visible character|right/found|{counts}"),
            "recall": Score(100 * self.recall, f"boundaries|inner, by visible character|right/gold|{counts}"),
            "f1": Score(100 * self.f1, f"boundaries|inner, by visible character|micro|{counts}"),
            "identical": Score(100 * self.identical, f"boundaries|texts with all of gold's and no others|{counts}"),
        }


def boundaries(facts: Sequence[str]) -> frozenset[int]:
    """The visible characters of the text before each inner boundary; facts without any give none."""
    lengths = [len("".join(fact.split())) for fact in facts]
    places = {sum(lengths[:number]) for number in range(1, len(lengths))}
    return frozenset(places - {0, sum(lengths)})


def boundary_scores(found: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> BoundaryScores:
    """Scores the segmentations `found` against `gold`, the facts of each text in order.

    Raises:
        AggGenError: different numbers of texts, none at all, or two segmentations of different texts.
    """
    if len(found) != len(gold):
        raise AggGenError(f"{len(found)} texts are segmented but {len(gold)} have gold facts")
    if not gold:
        raise AggGenError("there are no texts to score")
    correct = ours = theirs = identical = 0
    for number, (segments, wanted) in enumerate(zip(found, gold, strict=True), start=1):
        if _visible(segments) != _visible(wanted):
            raise AggGenError(
                f"text {number} is {''.join(segments)!r:.60} on one side, {''.join(wanted)!r:.60} in gold"
            )
        places, right = boundaries(segments), boundaries(wanted)
        correct += len(places & right)
        ours += len(places)
        theirs += len(right)
        identical += places == right
    precision = correct / ours if ours else 1.0
    recall = correct / theirs if theirs else 1.0
    f1 = 2 * correct / (ours + theirs) if ours + theirs else 1.0
    return BoundaryScores(precision, recall, f1, identical / len(gold), correct, ours, theirs, len(gold))


def _visible(facts: Sequence[str]) -> str:
    return "".join("".join(fact.split()) for fact in facts)
