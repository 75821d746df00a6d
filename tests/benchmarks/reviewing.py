"""Errors found by reviewing texts in the order of their risk.

    python tests/benchmarks/reviewing.py RATINGS.jsonl

RATINGS has texts of several systems with human ratings (`agggen.evaluation.ratings`); a text whose Correctness is rated
below 70 is an error. Takes a minute. The last line is JSON. Per order: the recall of errors among the first 5, 10, 20
and 50 % of the texts. ``random`` is the expectation; ``best`` has the errors first; ``faults`` sorts by the number of
faults of the strict check, descending, ties in file order.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agggen.checks import check_all
from agggen.evaluation.ratings import MIN_CORRECTNESS, read_ratings

SHARES = (0.05, 0.1, 0.2, 0.5)


def recall_at(errors: np.ndarray, score: Sequence[float]) -> list[float]:
    """The recall of the errors (N booleans) among the top texts by `score`, for each of `SHARES`."""
    ordered = errors[np.argsort(-np.asarray(score), kind="stable")]
    return [round(float(ordered[: round(share * len(errors))].sum() / errors.sum()), 3) for share in SHARES]


def main() -> None:
    parser = argparse.ArgumentParser(description="errors found by reviewing the riskiest texts first")
    parser.add_argument("ratings", type=Path)
    options = parser.parse_args()
    rated = read_ratings(options.ratings)
    checked = check_all([text.record for text in rated], [text.text for text in rated])
    errors = np.array([text.ratings["Correctness"] < MIN_CORRECTNESS for text in rated])
    orders = {
        "risk": recall_at(errors, [text.risk for text in checked]),
        "faults": recall_at(errors, [len(text.faults) for text in checked]),
        "random": list(SHARES),
        "best": recall_at(errors, errors.astype(float).tolist()),
    }
    for name, shares in orders.items():
        print(f"{name:7}" + "".join(f"{share:8.1%}" for share in shares))
    print(json.dumps({"benchmark": "reviewing", "texts": len(rated), "errors": int(errors.sum()), "found": orders}))


if __name__ == "__main__":
    main()
