"""Scores of published systems with their sources, by corpus, split, training data and protocol.

The numbers are as printed in the sources, in the units of `agggen.evaluation.protocols` (percent); ``runs`` is the
number of training runs or checkpoints of a mean. Rows of the AggGen paper and of the shared tasks were verified with
the official scorers on the outputs of those systems; the others are marked as cited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """A published system on one test set, under one protocol."""

    system: str
    scores: dict[str, float]
    """By metric of `agggen.evaluation.protocols` or ``ser...``, in its unit."""
    source: str
    runs: int = 1
    """Number of runs or checkpoints over which the scores are means; 1 if the source does not state it."""


@dataclass(frozen=True, slots=True)
class Board:
    """Published systems with comparable numbers: the same test set and protocol."""

    corpus: str
    split: str
    inputs: int
    """Number of records of the test set."""
    trained_on: str
    """The systems' training corpus, as named in the catalogue."""
    protocol: str
    how: str
    """How the published numbers were computed."""
    systems: tuple[Published, ...]


_PAPER = "AggGen (Xu et al., ACL 2021)"
_SEEN_TABLE = f"{_PAPER}, table 1"
_E2E_TABLE = f"{_PAPER}, table 2"
_E2E_APPENDIX = f"{_PAPER}, appendix"
_CHALLENGE = "WebNLG Challenge 2017 (Gardent et al., INLG 2017), the organisers' evaluation"
_RELEASED = f"{_PAPER}, texts and references of its code release, scored here by protocol webnlg-2017"
_WEBNLG_METRICS = ("bleu", "meteor", "ter")
_E2E_METRICS = ("bleu", "nist", "meteor", "rouge_l", "cider", "ser.add", "ser.miss", "ser.wrong", "ser.ser")


def _rows(names: tuple[str, ...], source: str, runs: int, table: str) -> Iterator[Published]:
    """Rows of a table written as ``system | value | value``; - for a value that was not published."""
    for line in table.strip().splitlines():
        system, *cells = (part.strip() for part in line.split("|"))
        scores = {name: float(cell) for name, cell in zip(names, cells, strict=True) if cell != "-"}
        if names == _WEBNLG_METRICS:  # the sources print fractions
            scores |= {name: round(100 * scores[name], 1) for name in ("meteor", "ter") if name in scores}
        yield Published(system, scores, source, runs)


_CLEANING = "outputs of Dusek, Howcroft and Rieser (INLG 2019), scored here with their slot_error.py"
_E2E_SCORER = (
    "the E2E Challenge's scorer (e2e-metrics), for the AggGen paper's own rows on tokenised texts and references; "
    "slot errors by slot_error.py of E2E cleaning, which ours equal on the AggGen paper's outputs"
)
_MULTI_BLEU = "lower-cased, tokenised, at most 3 references: Moses multi-bleu, METEOR 1.5 and tercom's TER (times 100)"

BOARDS = (
    Board(
        "webnlg",
        "test-seen",
        971,
        "webnlg",
        "webnlg-2017",
        f"{_MULTI_BLEU}; missing references were padded with blank lines, which flatters short texts. The AggGen "
        "paper's rows are on tokens of Stanza, by which its texts have about a point of BLEU less than by the "
        "challenge's, which score ours: compare with the rows of its released texts",
        (
            *_rows(
                _WEBNLG_METRICS,
                f"{_SEEN_TABLE}; cited there",
                1,
                """
                T5 (Kale and Rastogi 2020; pretrained) | 64.7 | .46 | -
                PlanEnc (Zhao et al. 2020) | 64.42 | .45 | .33
                ADAPT (Elder et al. 2017) | 60.59 | .44 | .37
                TILB-PIPE (Tilburg 2017) | 44.34 | .38 | .48
                """,
            ),
            *_rows(
                _WEBNLG_METRICS,
                f"{_SEEN_TABLE}",
                3,
                """
                Transformer | 58.47 | .42 | .37
                AggGen | 58.74 | .43 | .40
                AggGen -OD | 55.30 | .43 | .44
                AggGen -AG | 52.17 | .44 | .50
                """,
            ),
            *_rows(
                _WEBNLG_METRICS,
                _RELEASED,
                3,
                "Transformer, its released texts on the challenge's tokens | 59.45 | .421 | .367",
            ),
            *_rows(
                _WEBNLG_METRICS,
                _RELEASED,
                1,
                "AggGen, its released texts on the challenge's tokens | 59.90 | .434 | .391",
            ),
            *_rows(
                _WEBNLG_METRICS,
                _CHALLENGE,
                1,
                """
                TILB-SMT | 54.29 | .421 | .470
                baseline | 52.39 | .378 | .449
                """,
            ),
        ),
    ),
    Board(
        "webnlg",
        "test-unseen",
        891,
        "webnlg",
        "webnlg-2017",
        _MULTI_BLEU,
        tuple(
            _rows(
                _WEBNLG_METRICS,
                _CHALLENGE,
                1,
                """
                TILB-SMT | 29.88 | .333 | .617
                ADAPT | 10.53 | .192 | 1.405
                baseline | 6.13 | .075 | .807
                """,
            )
        ),
    ),
    Board(
        "webnlg",
        "test",
        1862,
        "webnlg",
        "webnlg-2017",
        _MULTI_BLEU,
        tuple(
            _rows(
                _WEBNLG_METRICS,
                _CHALLENGE,
                1,
                """
                TILB-SMT | 44.28 | .380 | .538
                baseline | 33.24 | .235 | .613
                ADAPT | 31.06 | .316 | .849
                """,
            )
        ),
    ),
    Board(
        "e2e",
        "test",
        630,
        "e2e",
        "e2e",
        _E2E_SCORER,
        (
            *_rows(
                _E2E_METRICS,
                _E2E_TABLE,
                3,
                """
                Transformer | 68.23 | 8.6765 | 44.31 | 69.88 | 2.2153 | .30 | 4.67 | .20 | 5.16
                AggGen | 64.14 | 8.3509 | 45.13 | 66.62 | 2.1953 | .32 | 1.66 | .71 | 2.70
                AggGen -OD | 58.90 | 7.9100 | 43.21 | 62.12 | 1.9656 | 1.65 | 2.99 | 3.01 | 7.65
                AggGen -AG | 44.00 | 6.0890 | 43.75 | 58.24 | .8202 | 8.74 | .45 | .92 | 10.11
                """,
            ),
            *_rows(
                _E2E_METRICS,
                _E2E_TABLE,
                5,
                "TGen | 66.41 | 8.5565 | 45.07 | 69.17 | 2.2253 | .14 | 4.11 | .03 | 4.27",
            ),
            *_rows(_E2E_METRICS, _CLEANING, 5, "TGen+ | - | - | - | - | - | .04 | 1.75 | .01 | 1.80"),
            *_rows(
                _E2E_METRICS,
                "E2E Challenge (Dusek et al., 2020), baseline",
                1,
                "TGen, the challenge's run | 65.93 | 8.6094 | 44.83 | 68.50 | 2.2338 | - | - | - | -",
            ),
        ),
    ),
    Board(
        "e2e-cleaned",
        "test",
        1847,
        "e2e",
        "e2e",
        _E2E_SCORER,
        (
            *_rows(
                _E2E_METRICS,
                _E2E_APPENDIX,
                3,
                """
                Transformer | 38.57 | 5.7555 | 35.92 | 55.45 | 1.6676 | 2.13 | 5.71 | .51 | 8.35
                AggGen | 41.06 | 6.2068 | 37.91 | 55.13 | 1.8443 | 2.04 | 3.38 | .64 | 6.06
                AggGen -OD | 38.24 | 5.9509 | 36.56 | 51.53 | 1.6525 | 2.94 | 3.67 | 2.18 | 8.80
                AggGen -AG | 30.44 | 4.6355 | 37.99 | 49.94 | .9359 | 8.71 | 1.60 | .87 | 11.24
                """,
            ),
            *_rows(
                _E2E_METRICS,
                _E2E_APPENDIX,
                5,
                "TGen | 39.23 | 6.0217 | 36.97 | 55.52 | 1.7623 | .40 | 3.59 | .07 | 4.05",
            ),
            *_rows(_E2E_METRICS, _CLEANING, 5, "TGen+ | - | - | - | - | - | .20 | 1.99 | .05 | 2.24"),
        ),
    ),
    Board(
        "e2e-cleaned",
        "test",
        1847,
        "e2e-cleaned",
        "e2e",
        _E2E_SCORER,
        (
            *_rows(
                _E2E_METRICS,
                _E2E_APPENDIX,
                3,
                """
                Transformer | 38.62 | 6.0804 | 36.03 | 54.82 | 1.7544 | 3.15 | 4.56 | 1.32 | 9.02
                AggGen | 39.88 | 6.1704 | 37.35 | 54.03 | 1.8193 | 1.10 | 1.85 | 1.25 | 4.21
                AggGen -OD | 38.28 | 6.0027 | 36.94 | 51.55 | 1.6397 | 1.74 | 2.74 | .62 | 5.11
                AggGen -AG | 26.92 | 4.2877 | 36.60 | 47.95 | .9205 | 5.99 | 1.54 | 2.31 | 9.98
                """,
            ),
            *_rows(
                _E2E_METRICS,
                _E2E_APPENDIX,
                5,
                "TGen | 40.73 | 6.1711 | 37.76 | 56.09 | 1.8518 | .07 | .72 | .08 | .87",
            ),
            *_rows(_E2E_METRICS, _CLEANING, 5, "TGen+ | - | - | - | - | - | .02 | .63 | .06 | .70"),
        ),
    ),
)


_PLAN_TABLE = (
    f"{_PAPER}, planning table, whose header names NMI avg and tau max the wrong way round; here as the released plans "
    "and annotations give them"
)
_ALIGNMENT_TABLE = f"{_PAPER}, alignment table; on the release's tokenised texts"

PLANNING = tuple(
    _rows(
        ("nmi_max", "nmi_avg", "tau_max", "tau_avg"),
        _PLAN_TABLE,
        1,
        """
        people, among themselves | .9340 | .8415 | .7587 | .2488
        AggGen | .7101 | .6416 | .6247 | .2064
        """,
    )
)
"""Agreement with human plans on the corpus `webnlg-plans`, by the names and in the units of `plans.plan_scores`.

Scores among people are its ``human_...``; their tau skips the inputs for which the system's plan is a single group.
"""

ALIGNMENT = tuple(
    _rows(
        ("precision", "recall", "f1"),
        _ALIGNMENT_TABLE,
        1,
        """
        AggGen, Viterbi | 89.73 | 84.16 | 86.85
        rule-based | 86.20 | 100.00 | 92.59
        """,
    )
)
"""Agreement with human alignments on the corpus `webnlg-plans`, by the names of `alignment_statistics`, in percent.

The Viterbi scores are over 273 of the 274 texts, since the release lacks the alignment of one text.
"""


def board_for(corpus: str, split: str, inputs: int, protocol: str, trained_on: str | None) -> tuple[Board | None, str]:
    """The published numbers that are comparable with an evaluation, or None and the reason.

    Args:
        corpus: its name in the catalogue.
        split: likewise.
        inputs: the number of evaluated records.
        protocol: of the evaluation.
        trained_on: the corpus on whose complete training split the model was trained; None if unknown.
    """
    boards = [board for board in BOARDS if (board.corpus, board.split) == (corpus, split)]
    if not boards:
        return None, f"There are no published scores on {corpus} {split}."
    if protocol != boards[0].protocol:
        return None, f"The published scores are by protocol {boards[0].protocol}; these are by {protocol}."
    expected_inputs = boards[0].inputs
    if inputs != expected_inputs:
        return None, f"The published scores are of all {expected_inputs:,} records; these are of {inputs:,}."
    for board in boards:
        if board.trained_on == trained_on:
            return board, ""
    known = " or ".join(board.trained_on for board in boards)
    return None, f"The published systems were trained on {known}; this one on {trained_on or 'unknown data'}."
