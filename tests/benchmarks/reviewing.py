"""Errors found by reviewing texts in the order of their risk, and cross-validated scores.

    python tests/benchmarks/reviewing.py RATINGS.jsonl [--critic ADDRESS]

RATINGS has texts of several systems with human ratings (`agggen.evaluation.ratings`); a text whose Correctness is rated
below 70 is an error. Takes a minute. The last line is JSON. Per order: the recall of errors among the first 5, 10, 20
and 50 % of the texts. ``random`` is the expectation; ``best`` has the errors first; ``faults`` sorts by the number of
faults of the strict check, descending, ties in file order. ``cross_validated``: 4 x 4 folds over systems and records;
the weights of the scores coverage and correctness, and a risk threshold with at most 4 % errors below it, are fitted on
texts that share neither a system nor a record with the scored ones.
"""

import argparse
import json
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from agggen.checks import CheckedText, check_all
from agggen.evaluation.ratings import MIN_CORRECTNESS, RatedText, agreement, read_ratings
from agggen_platform.storage.critics import open_critic

SHARES = (0.05, 0.1, 0.2, 0.5)
FOLDS = 4
WEIGHTS = tuple(product((0, 0.25, 0.5, 1, 1.5, 2, 3), (0, 0.25, 0.5, 1)))
"""Candidate weights (mentioned values, named subjects) relative to the critic's score, whose weight is 1."""
MAX_ERRORS = 0.04


def recall_at(errors: np.ndarray, score: Sequence[float]) -> list[float]:
    """The recall of the errors (N booleans) among the top texts by `score`, for each of `SHARES`."""
    ordered = errors[np.argsort(-np.asarray(score), kind="stable")]
    return [round(float(ordered[: round(share * len(errors))].sum() / errors.sum()), 3) for share in SHARES]


def splits(rated: Sequence[RatedText]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of training and test texts (N booleans each) that share neither a system nor a record."""

    def fold_of(items: Sequence[str]) -> np.ndarray:
        names = sorted(set(items))
        random.Random(1).shuffle(names)
        return np.array([names.index(item) % FOLDS for item in items])

    system, record = fold_of([text.system for text in rated]), fold_of([str(text.record.triples) for text in rated])
    return [
        ((system != i) & (record != j), (system == i) & (record == j)) for i, j in product(range(FOLDS), range(FOLDS))
    ]


def cross_validated(
    rated: Sequence[RatedText], checked: Sequence[CheckedText], errors: np.ndarray
) -> dict[str, object]:
    """Correlations per text and per system, the share of passing texts, and the share of errors among them."""
    mentioned, named = np.array([text.shares for text in checked]).T
    risk = np.array([text.risk for text in checked])
    result: dict[str, object] = {}
    for dimension, score_name in (("DataCoverage", "coverage"), ("Correctness", "correctness")):
        critic_scores = np.array([getattr(text.judgement, score_name) for text in checked])
        ratings, scores = np.array([text.ratings[dimension] for text in rated]), np.zeros(len(rated))
        for train, test in splits(rated):
            weighted = {(m, n): (critic_scores + m * mentioned + n * named) / (1 + m + n) for m, n in WEIGHTS}
            best = max(weighted, key=lambda key: np.corrcoef(weighted[key][train], ratings[train])[0, 1])
            scores[test] = weighted[best][test]
        agreed = agreement(rated, scores.tolist())
        result[score_name] = [round(agreed.per_text[dimension], 3), round(agreed.per_system[dimension], 3)]
    passes = np.zeros(len(rated), dtype=bool)
    for train, test in splits(rated):
        thresholds = (
            threshold
            for threshold in np.arange(0.02, 0.5, 0.01)
            if errors[train & (risk <= threshold)].sum() <= MAX_ERRORS * (train & (risk <= threshold)).sum()
        )
        passes |= test & (risk <= max(thresholds, default=0.0))
    return result | {"pass": round(float(passes.mean()), 3), "wrong": round(float(errors[passes].mean()), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description="errors found by reviewing the riskiest texts first")
    parser.add_argument("ratings", type=Path)
    parser.add_argument("--critic", default="included")
    options = parser.parse_args()
    rated = read_ratings(options.ratings)
    critic, _ = open_critic(options.critic)
    checked = check_all([text.record for text in rated], [text.text for text in rated], critic=critic)
    errors = np.array([text.ratings["Correctness"] < MIN_CORRECTNESS for text in rated])
    orders = {
        "risk": recall_at(errors, [text.risk for text in checked]),
        "faults": recall_at(errors, [len(text.faults) for text in checked]),
        "random": list(SHARES),
        "best": recall_at(errors, errors.astype(float).tolist()),
    }
    for name, shares in orders.items():
        print(f"{name:7}" + "".join(f"{share:8.1%}" for share in shares))
    result = {"benchmark": "reviewing", "texts": len(rated), "errors": int(errors.sum()), "found": orders}
    print(json.dumps(result | {"cross_validated": cross_validated(rated, checked, errors)}))


if __name__ == "__main__":
    main()
