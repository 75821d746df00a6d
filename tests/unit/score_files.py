"""Scores of texts, for the tests of metrics and reports."""

from typing import Any

from agggen.evaluation import Score
from agggen.evaluation.protocols import measure


def score_texts(*arguments: Any, **options: Any) -> dict[str, Score]:
    """The corpus scores of `measure`."""
    return {name: statistics.corpus() for name, statistics in measure(*arguments, **options).items()}
