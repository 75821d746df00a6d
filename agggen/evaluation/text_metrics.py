"""BLEU, chrF and TER by sacreBLEU, tercom's TER, and the two BLEU protocols of the paper's WebNLG table.

References are ragged: one list per hypothesis, with at least one text in each. All values are percentages. The
functions that end in `_statistics` give what was counted in each text, the others the score of the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER, lib_ter
from sacrebleu.metrics.base import Metric

from agggen.evaluation import Score
from agggen.evaluation.segments import (
    References,
    SegmentScores,
    SegmentStatistics,
    count_of_references,
    present_references,
    ratio,
)
from agggen.evaluation.ter import Distance, edits


def corpus_bleu(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Score:
    """sacreBLEU's BLEU of raw texts (tokenised by its 13a), with as many references as each input has."""
    return bleu_statistics(hypotheses, references, lowercase).corpus()


def corpus_chrf(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Score:
    """chrF2 (characters only) of raw texts."""
    return chrf_statistics(hypotheses, references, lowercase).corpus()


def corpus_ter(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Score:
    """Translation edit rate of raw texts, in percent (the paper prints it as a share); lower is better."""
    return ter_statistics(hypotheses, references, lowercase).corpus()


def bleu_statistics(
    hypotheses: Sequence[str], references: References, lowercase: bool = False, tokenised: bool = False
) -> SegmentStatistics:
    """sacreBLEU's BLEU; the BLEU of one text leaves out the orders for which it is too short.

    Args:
        tokenised: the texts are tokenised, with blanks between tokens; otherwise 13a tokenises them.
    """
    return _bleu(present_references(hypotheses, references), hypotheses, lowercase, tokenised, missing=None)


def multi_bleu_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """Moses multi-bleu over lower-cased, tokenised texts: how the paper's WebNLG column was computed.

    A missing reference counts as a blank one of length 0, as in the paper's reference files. Its length can then be
    the closest to a short text's, which flatters short output. (The Perl script does not smooth: only where no n-gram
    matches in all texts is it 0.)
    """
    groups = present_references(hypotheses, references)
    width = max(map(len, references))
    padded = [group + [""] * (width - len(group)) for group in groups]
    return _bleu(padded, hypotheses, lowercase=True, tokenised=True, missing="blank")


def chrf_statistics(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> SegmentStatistics:
    """sacreBLEU's chrF2, which does not look at blanks, so tokenised and raw texts score nearly alike."""
    metric = CHRF(lowercase=lowercase)
    rows = _rows(metric, hypotheses, present_references(hypotheses, references))
    return _statistics("chrf", metric, metric, rows)


def ter_statistics(
    hypotheses: Sequence[str], references: References, lowercase: bool = False, tokenised: bool = False
) -> SegmentStatistics:
    """sacreBLEU's TER, which splits off the punctuation of texts that are not `tokenised`."""
    metric = _FastTER(normalized=not tokenised, case_sensitive=not lowercase)
    rows = _rows(metric, hypotheses, present_references(hypotheses, references))
    return _statistics("ter", metric, metric, rows)


def tercom_statistics(hypotheses: Sequence[str], references: References) -> SegmentStatistics:
    """The TER of tercom 0.7.25 (see ``agggen.evaluation.ter``) over lower-cased words between blanks."""
    groups = [[text.lower().split() for text in group] for group in present_references(hypotheses, references)]
    counts = []
    for text, group in zip(hypotheses, groups, strict=True):
        words = text.lower().split()
        counts.append((min(edits(words, other) for other in group), sum(map(len, group)) / len(group)))
    rows = np.array(counts, dtype=float)

    def formula(sums: np.ndarray) -> np.ndarray:
        return 100 * ratio(sums[..., 0], sums[..., 1])

    signature = (
        f"ter|tool:agggen|as:tercom-0.7.25|version:{version('agggen')}"
        f"|nrefs:{count_of_references(groups)}|case:lc|tok:none"
    )
    return SegmentStatistics(rows, formula, signature, SegmentScores(formula(rows), signature))


def _bleu(
    groups: References, hypotheses: Sequence[str], lowercase: bool, tokenised: bool, missing: str | None
) -> SegmentStatistics:
    tokenize = "none" if tokenised else "13a"
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    single = BLEU(lowercase=lowercase, tokenize=tokenize, force=True, effective_order=True)
    return _statistics(
        "bleu", metric, single, _rows(metric, hypotheses, groups), f"|missing:{missing}" if missing else ""
    )


def _rows(metric: Metric, hypotheses: Sequence[str], groups: References) -> np.ndarray:
    """What sacreBLEU counts in each text, over references laid out in columns; None stands for one that is missing."""
    width = max(map(len, groups))
    columns = [[group[i] if i < len(group) else None for group in groups] for i in range(width)]
    return np.array(metric._extract_corpus_statistics(list(hypotheses), columns), dtype=float)


def _statistics(name: str, metric: Metric, single: Metric, rows: np.ndarray, remark: str = "") -> SegmentStatistics:
    """`metric` scores the corpus and `single` one text, from the same counts."""
    single.num_refs = metric.num_refs  # for its signature
    return SegmentStatistics(
        rows,
        _Formula(metric),
        f"{name}|tool:sacrebleu|{metric.get_signature()}{remark}",
        SegmentScores(_Formula(single)(rows), f"{name}|tool:sacrebleu|{single.get_signature()}{remark}"),
    )


class _Formula:
    """sacreBLEU's own arithmetic, applied to each sum of counts."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def __call__(self, sums: np.ndarray) -> np.ndarray:
        return np.apply_along_axis(self._score, -1, sums)

    def _score(self, sums: np.ndarray) -> float:
        return float(self.metric._compute_score_from_stats(sums.tolist()).score)


class _FastTER(TER):
    """sacreBLEU's TER, several times faster, with the same counts.

    The search for shifts is sacreBLEU's own, but the many distances that it asks for come from bit vectors.
    """

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, list[list[str]]]) -> list[float]:
        references = ref_kwargs["ref_words"]
        counts = [_sacrebleu_edits(hypothesis.split(), words) for words in references]
        return [min(counts), sum(map(len, references)) / len(references)]


def _sacrebleu_edits(words: list[str], reference: list[str]) -> int:
    if not reference:
        return len(words)
    distance = _SacrebleuDistance(reference)
    shifts = tried = 0
    while True:
        distance.start(words)
        saved, shifted, tried = lib_ter._shift(words, reference, distance, tried)
        if tried >= lib_ter._MAX_SHIFT_CANDIDATES or saved <= 0:
            return shifts + distance.before
        shifts += 1
        words = shifted


class _SacrebleuDistance(lib_ter.BeamEditDistance):
    """Distances within sacreBLEU's beam; of the words a search starts from, the path too.

    A path with d edits strays from the diagonal by (d + difference of lengths) / 2 at most, so it lies in a beam that
    is wider than that. Else the beam can only lengthen it: what is no improvement without the beam is none with it.
    """

    def __init__(self, reference: list[str]) -> None:
        super().__init__(reference)
        self._exact = Distance(reference)

    def start(self, words: list[str]) -> None:
        self._words = words
        self._found: tuple[int, str] = super().__call__(words)
        self.before = self._least = self._found[0]

    def __call__(self, words: list[str]) -> tuple[int, str]:
        if words is self._words:
            return self._found
        distance = self._exact(words)
        if distance >= self.before or distance > self._least:
            return distance, ""
        if distance + abs(len(words) - self._exact.size) >= 2 * (lib_ter._BEAM_WIDTH - 2):
            distance = super().__call__(words)[0]
        self._least = min(self._least, distance)
        return distance, ""
