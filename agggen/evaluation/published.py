"""Scores of published systems with their sources, by corpus, split, training data and protocol.

``published.yaml`` has the numbers as printed in the sources, in the units of `agggen.evaluation.protocols`. Scores of
the AggGen paper and of the shared tasks were verified with the official scorers on the systems' outputs; other scores
are marked as cited.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class PublishedSystem:
    """A published system's scores on a test set, by a protocol."""

    name: str
    scores: dict[str, float]  # by metric of `agggen.evaluation.protocols`, or ``ser...``, in the metric's unit
    source: str
    runs: int = 1  # the scores are the mean of this number of runs or checkpoints


@dataclass(frozen=True, slots=True)
class Board:
    """Published systems that are comparable, since they have the same test set, training corpus and protocol."""

    corpus: str
    split: str
    inputs: int  # number of records of the test set
    trained_on: str  # the training corpus, by its name in the catalogue
    protocol: str
    method: str  # how the published numbers were computed
    systems: tuple[PublishedSystem, ...]


def _systems(tables: Iterable[Mapping[str, Any]]) -> tuple[PublishedSystem, ...]:
    return tuple(
        PublishedSystem(system, scores, table["source"], table.get("runs", 1))
        for table in tables
        for system, scores in table["scores"].items()
    )


_DATA = yaml.safe_load(resources.files("agggen.evaluation").joinpath("published.yaml").read_text(encoding="utf-8"))

BOARDS = tuple(Board(**(board | {"systems": _systems(board["systems"])})) for board in _DATA["boards"])

PLANNING = _systems(_DATA["planning"])
"""Agreement with human plans on the corpus `webnlg-plans`, by the names and in the units of `plans.plan_statistics`.

The ``human_...`` scores compare human plans with each other; their tau ignores inputs whose system plan has one group.
"""

ALIGNMENT = _systems(_DATA["alignment"])
"""Agreement with human alignments on the corpus `webnlg-plans`, by the names of `alignment_statistics`, in percent.

The Viterbi scores are computed on 273 of the 274 texts, since the release lacks the alignment of one text.
"""


def board_for(corpus: str, split: str, inputs: int, protocol: str, trained_on: str | None) -> tuple[Board | None, str]:
    """(published systems that are comparable with an evaluation, "") or (None, the reason why there are none).

    Args:
        inputs: the number of evaluated records.
        trained_on: the corpus on whose complete training split the model was trained; None if unknown.
    """
    boards = [board for board in BOARDS if (board.corpus, board.split) == (corpus, split)]
    if not boards:
        return None, f"No published scores on {corpus} {split}."
    if protocol != boards[0].protocol:
        return None, f"The published scores are by protocol {boards[0].protocol}; these are by {protocol}."
    expected_inputs = boards[0].inputs
    if inputs != expected_inputs:
        return None, f"The published scores are of all {expected_inputs:,} records; these are of {inputs:,}."
    for board in boards:
        if board.trained_on == trained_on:
            return board, ""
    corpora = " or ".join(board.trained_on for board in boards)
    return None, f"The published systems were trained on {corpora}; this one on {trained_on or 'unknown data'}."
