"""What the tests of the scoring commands share: a way to run them, and files in and out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agggen.evaluation import Score
from agggen.evaluation.protocols import measure


def write(path: str, lines: list[Any]) -> None:
    Path(path).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def scores_of(path: str) -> dict[str, float]:
    read = json.loads(Path(path).read_text(encoding="utf-8"))
    assert all(score.keys() >= {"score", "signature"} and score["signature"] for score in read.values())
    return {name: score["score"] for name, score in read.items()}


def rounded(scores: dict[str, float], digits: int, *names: str) -> list[float]:
    return [round(scores[name], digits) for name in names]


def score_texts(*arguments: Any, **options: Any) -> dict[str, Score]:
    """The corpus scores of `measure`."""
    return {name: statistics.corpus() for name, statistics in measure(*arguments, **options).items()}
