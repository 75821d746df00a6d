"""Alignments of triples to facts against human alignments (paper, section "Study of Alignment").

In the published table, "recall" is the fraction of triples that are aligned, correctly or not, and "precision" is the
fraction of these whose alignment is correct. The usual recall is reported as ``accuracy``.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from agggen.errors import AggGenError
from agggen.evaluation.segments import Formula, SegmentStatistics, percentage, ratio

# The index of each predicate's fact in the text; None or absent if the predicate is not aligned.
Positions = Mapping[str, int | None]


def positions(facts: Iterable[Iterable[str]]) -> dict[str, int]:
    """The fact index of each predicate, from the predicates of each fact in text order.

    Of several facts with the same predicate, the last is used, as in the published numbers.
    """
    return {predicate: number for number, predicates in enumerate(facts) for predicate in predicates}


def alignment_statistics(predicted: Sequence[Positions], gold: Sequence[Positions]) -> dict[str, SegmentStatistics]:
    """Precision, recall, F1 and accuracy in percent, with the paper's definitions.

    Triples without a gold fact are not counted; AggGenError if no triple has a gold fact.
    """
    counts = []
    for facts, gold_facts in zip(predicted, gold, strict=True):
        pairs = [(facts.get(predicate), fact) for predicate, fact in gold_facts.items() if fact is not None]
        if pairs:
            n_correct = sum(fact == gold_fact for fact, gold_fact in pairs)
            n_aligned = sum(fact is not None for fact, _ in pairs)
            counts.append((n_correct, n_aligned, len(pairs)))
    if not counts:
        raise AggGenError("the gold alignments are empty; at least one triple must have a fact")
    rows = np.array(counts, dtype=float)  # (texts, 3): correctly aligned, aligned, all triples
    return {
        name: SegmentStatistics(rows, formula, f"alignment|{definition}|percent|triples:{int(rows[:, 2].sum())}")
        for name, (formula, definition) in _MEASURES.items()
    }


_PRECISION, _RECALL = percentage(0, 1), percentage(1, 2)


def _f1(sums: np.ndarray) -> np.ndarray:
    precision, recall = _PRECISION(sums), _RECALL(sums)
    return ratio(2 * precision * recall, precision + recall)


_MEASURES: dict[str, tuple[Formula, str]] = {
    "precision": (_PRECISION, "right/aligned"),
    "recall": (_RECALL, "paper's recall: aligned, right or wrong/all"),
    "f1": (_f1, "of precision and the paper's recall"),
    "accuracy": (percentage(0, 2), "right/all"),
}
