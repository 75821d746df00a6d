"""METEOR 1.5 (Denkowski and Lavie 2014): its jar counts the matches, and the score is computed from them here.

They equal the jar's own to the last digits, for each text and in total, in the logs of the WebNLG challenge. One Java
process serves any number of texts; it takes some seconds to load its paraphrases, so score several systems as one
corpus and take each one's score from its part of the statistics.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation.java import PACKAGE, package_version, run_lines
from agggen.evaluation.segments import (
    References,
    SegmentScores,
    SegmentStatistics,
    count_of_references,
    one_line,
    ratio,
)

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75  # for English, tuned to rank
_STAGES = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase
_SEPARATOR = "|||"


def meteor_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """METEOR in percent, as `-l en -norm` computes it: it tokenises and lower-cases what it is given.

    Raises:
        AggGenError: no Java runtime, no jar, or its process failed.
    """
    lines = [_line(text, group) for text, group in zip(hypotheses, references, strict=True)]
    arguments = ("-", "-", "-stdio", "-l", "en", "-norm")
    printed = run_lines("METEOR", "meteor/meteor-1.5.jar", ("-Xmx2G", "-jar"), arguments, lines)
    try:
        rows = np.array([line.split() for line in printed], dtype=float).reshape(len(lines), 23)
    except ValueError as error:
        raise AggGenError(f"METEOR printed something else than 23 counts a text: {printed[0]!r:.80}") from error
    # Chunks of a text that matches as a whole in one piece count for nothing.
    rows[(rows[:, 20] == 1) & (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]), 20] = 0
    signature = (
        f"meteor|tool:{PACKAGE}|version:{package_version()}|meteor:1.5|args:-l en -norm"
        f"|nrefs:{count_of_references(references)}|case:lc|tok:norm"
    )
    return SegmentStatistics(rows, meteor_score, signature, SegmentScores(meteor_score(rows), signature))


def meteor_score(counts: np.ndarray) -> np.ndarray:
    """The scores, (...), in percent, of the counts, (..., 23), that the jar prints.

    These are: words of the text and of the reference, function words of each; for each of the 4 stages the matched
    content words of both, then function words; the chunks; all matched words of both.
    """
    words, other, function, other_function = np.moveaxis(counts[..., :4], -1, 0)
    stages = counts[..., 4:20].reshape(*counts.shape[:-1], 4, 4)
    matched = (_DELTA * stages[..., :2] + (1 - _DELTA) * stages[..., 2:]).swapaxes(-1, -2) @ _STAGES  # (..., 2)
    precision = ratio(matched[..., 0], _DELTA * (words - function) + (1 - _DELTA) * function)
    recall = ratio(matched[..., 1], _DELTA * (other - other_function) + (1 - _DELTA) * other_function)
    mean = ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    fragments = ratio(counts[..., 20], (counts[..., 21] + counts[..., 22]) / 2)
    return 100 * mean * (1 - _GAMMA * fragments**_BETA)


def _line(text: str, group: Sequence[str]) -> str:
    parts = [one_line(part).replace(_SEPARATOR, " ") for part in (*group, text)]
    return f" {_SEPARATOR} ".join(["SCORE", *parts])
