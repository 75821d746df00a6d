"""METEOR 1.5 (Denkowski and Lavie 2014): the jar counts the matches, this module computes the score.

Scores equal those in the logs of the WebNLG challenge to the last digit. The Java process takes seconds to load its
paraphrase table, so it is faster to score the texts of several systems in one call.
"""

from collections.abc import Sequence

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation.java import PACKAGE, package_version, run_lines
from agggen.evaluation.segments import References, SegmentStatistics, count_of_references, one_line, ratio

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75  # METEOR's parameters for English
_STAGES = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase
_SEPARATOR = "|||"


def meteor_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """METEOR with the options `-l en -norm`, in percent; METEOR tokenises and lower-cases the texts.

    Raises:
        AggGenError: there is no Java runtime or no jar, or the process failed.
    """
    lines = [_input_line(text, group) for text, group in zip(hypotheses, references, strict=True)]
    arguments = ("-", "-", "-stdio", "-l", "en", "-norm")
    output_lines = run_lines("METEOR", "meteor/meteor-1.5.jar", ("-Xmx2G", "-jar"), arguments, lines)
    try:
        rows = np.array([line.split() for line in output_lines], dtype=float).reshape(len(lines), 23)
    except ValueError as error:
        raise AggGenError(f"METEOR must print 23 counts per text, but printed {output_lines[0]!r:.80}") from error
    # A complete match in a single chunk has no fragmentation penalty.
    rows[(rows[:, 20] == 1) & (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]), 20] = 0
    signature = (
        f"meteor|tool:{PACKAGE}|version:{package_version()}|meteor:1.5|args:-l en -norm"
        f"|nrefs:{count_of_references(references)}|case:lc|tok:norm"
    )
    return SegmentStatistics(rows, meteor_score, signature, meteor_score(rows))


def meteor_score(counts: np.ndarray) -> np.ndarray:
    """METEOR in percent (...) from the jar's counts (..., 23).

    The counts, in pairs (text, reference) except for the chunks: words; function words; for each of the 4 stages,
    matched content words and matched function words; chunks; matched words.
    """
    words, function_words = counts[..., :2], counts[..., 2:4]
    stages = counts[..., 4:20].reshape(*counts.shape[:-1], 4, 4)
    matched = (_DELTA * stages[..., :2] + (1 - _DELTA) * stages[..., 2:]).swapaxes(-1, -2) @ _STAGES  # (..., 2)
    weighted_words = _DELTA * (words - function_words) + (1 - _DELTA) * function_words
    precision, recall = np.moveaxis(ratio(matched, weighted_words), -1, 0)
    harmonic_mean = ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    fragmentation = ratio(counts[..., 20], (counts[..., 21] + counts[..., 22]) / 2)
    return 100 * harmonic_mean * (1 - _GAMMA * fragmentation**_BETA)


def _input_line(text: str, group: Sequence[str]) -> str:
    parts = [one_line(part).replace(_SEPARATOR, " ") for part in (*group, text)]
    return f" {_SEPARATOR} ".join(["SCORE", *parts])
