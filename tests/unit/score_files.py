"""Corpus scores, for the tests of metrics and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agggen.evaluation import Score
from agggen.evaluation.alignments import alignment_statistics
from agggen.evaluation.protocols import measure
from agggen.evaluation.segments import SegmentStatistics


def corpus_scores(statistics: Mapping[str, SegmentStatistics]) -> dict[str, Score]:
    return {name: metric.corpus() for name, metric in statistics.items()}


def score_texts(*arguments: Any, **options: Any) -> dict[str, Score]:
    """The corpus scores of `measure`."""
    return corpus_scores(measure(*arguments, **options))


def alignment_scores(*arguments: Any) -> dict[str, float]:
    """The corpus scores of `alignment_statistics`, rounded as in the paper."""
    return {name: round(score.value, 2) for name, score in corpus_scores(alignment_statistics(*arguments)).items()}
