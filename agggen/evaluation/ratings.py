"""Correlation of scores with human ratings, over texts and over systems.

A file of ratings has a JSON object per line: ``triples``, ``text``, ``system``, optionally a list ``references``, and a
number for each of `DIMENSIONS` that was rated (WebNLG 2020 challenge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from scipy.stats import pearsonr

from agggen.errors import CorpusError, RecordError
from agggen.evaluation.files import json_objects
from agggen.records import Record

DIMENSIONS = ("DataCoverage", "Correctness", "Fluency")
MIN_CORRECTNESS = 70.0  # texts rated below this in Correctness count as incorrect


@dataclass(frozen=True, slots=True)
class RatedText:
    """A system's text with its human ratings."""

    record: Record
    text: str
    system: str
    ratings: Mapping[str, float]  # mean rating (0 to 100) by dimension
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """Pearson correlations of one score with human ratings; NaN where a score is constant."""

    per_text: Mapping[str, float]  # correlation by dimension, over all texts
    per_system: Mapping[str, float]  # the same over the systems' mean scores and mean ratings


def read_ratings(path: Path) -> list[RatedText]:
    """The rated texts of a file, with their ratings in `DIMENSIONS`; CorpusError, with the line, if one is invalid."""
    rated_texts = []
    for line, data in json_objects(path):
        try:
            record = Record.of({"id": str(line), "triples": data.get("triples")})
        except RecordError as error:
            raise CorpusError(f"{path}, line {line}: {error}") from error
        ratings = {name: float(data[name]) for name in DIMENSIONS if isinstance(data.get(name), int | float)}
        if not isinstance(data.get("text"), str) or not isinstance(data.get("system"), str) or not ratings:
            raise CorpusError(f"{path}, line {line}: needs text, system and a rating such as {', '.join(DIMENSIONS)}")
        references = data.get("references", [])
        if not isinstance(references, list) or not all(isinstance(text, str) for text in references):
            raise CorpusError(f"{path}, line {line}: references must be a list of texts, not {references!r}")
        rated_texts.append(RatedText(record, data["text"], data["system"], ratings, tuple(references)))
    return rated_texts


def agreement(rated_texts: Sequence[RatedText], scores: Sequence[float]) -> Agreement:
    """The correlation of `scores`, one per text, with each dimension that is rated for all texts."""
    values = np.asarray(scores, dtype=float)
    systems = sorted({text.system for text in rated_texts})
    masks = [np.array([text.system == system for text in rated_texts]) for system in systems]
    per_text, per_system = {}, {}
    for name in DIMENSIONS:
        ratings = np.array([text.ratings.get(name, np.nan) for text in rated_texts])
        if not np.isnan(ratings).any():
            per_text[name] = _correlation(values, ratings)
            means = [(values[mask].mean(), ratings[mask].mean()) for mask in masks]
            per_system[name] = _correlation(*map(np.array, zip(*means, strict=True)))
    return Agreement(per_text, per_system)


def reference_scores(rated_texts: Sequence[RatedText]) -> dict[str, list[float]]:
    """Sentence BLEU and chrF++ (sacreBLEU) of each text, by name; empty if a text has no references."""
    if not all(text.references for text in rated_texts):
        return {}
    metrics = {"sentence BLEU": BLEU(effective_order=True), "chrF++": CHRF(word_order=2)}
    return {
        name: [metric.sentence_score(text.text, list(text.references)).score for text in rated_texts]
        for name, metric in metrics.items()
    }


def passed_but_incorrect(rated_texts: Sequence[RatedText], passes: Sequence[bool]) -> tuple[float, float]:
    """The fraction of texts that pass, and the fraction of these whose Correctness is below `MIN_CORRECTNESS`."""
    passed = [text for text, text_passes in zip(rated_texts, passes, strict=True) if text_passes]
    n_incorrect = sum(text.ratings["Correctness"] < MIN_CORRECTNESS for text in passed)
    return len(passed) / len(rated_texts), n_incorrect / max(1, len(passed))


def _correlation(scores: np.ndarray, ratings: np.ndarray) -> float:
    if len(scores) < 2 or np.ptp(scores) == 0 or np.ptp(ratings) == 0:
        return float("nan")
    return float(pearsonr(scores, ratings)[0])
