"""Computed and published corpus scores for tests of metrics and reports."""

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agggen.evaluation import Score
from agggen.evaluation.plans import alignment_statistics
from agggen.evaluation.protocols import measure
from agggen.evaluation.segments import SegmentStatistics

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="no Java runtime: METEOR and CoreNLP cannot run")


def published_rows(data_home: Path, name: str) -> list[dict[str, str]]:
    with (data_home / "published_scores" / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def corpus_scores(statistics: Mapping[str, SegmentStatistics]) -> dict[str, Score]:
    return {name: metric.corpus() for name, metric in statistics.items()}


def score_texts(*arguments: Any, **options: Any) -> dict[str, Score]:
    return corpus_scores(measure(*arguments, **options))


def alignment_scores(*arguments: Any) -> dict[str, float]:
    """The corpus scores of `alignment_statistics`, rounded as in the paper."""
    return {name: round(score.value, 2) for name, score in corpus_scores(alignment_statistics(*arguments)).items()}
