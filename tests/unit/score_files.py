"""Helpers for tests of scores: corpus scores, input and output files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agggen.evaluation import Score
from agggen.evaluation.alignments import alignment_statistics
from agggen.evaluation.protocols import measure
from agggen.evaluation.segments import SegmentStatistics


def write(path: str, lines: list[Any]) -> None:
    Path(path).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def scores_of(path: str) -> dict[str, float]:
    read = json.loads(Path(path).read_text(encoding="utf-8"))
    assert all(score.keys() >= {"score", "signature"} and score["signature"] for score in read.values())
    return {name: score["score"] for name, score in read.items()}


def rounded(scores: dict[str, float], digits: int, *names: str) -> list[float]:
    return [round(scores[name], digits) for name in names]


def corpus_scores(statistics: Mapping[str, SegmentStatistics]) -> dict[str, Score]:
    return {name: metric.corpus() for name, metric in statistics.items()}


def score_texts(*arguments: Any, **options: Any) -> dict[str, Score]:
    """The corpus scores of `measure`."""
    return corpus_scores(measure(*arguments, **options))


def alignment_scores(*arguments: Any) -> dict[str, float]:
    """The corpus scores of `alignment_statistics`, rounded as in the paper."""
    return {name: round(score.value, 2) for name, score in corpus_scores(alignment_statistics(*arguments)).items()}
