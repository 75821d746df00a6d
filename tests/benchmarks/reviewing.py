"""Errors that a person finds by reviewing texts in the order of their risk, against other orders.

    python tests/benchmarks/reviewing.py RATINGS.jsonl [--critic ADDRESS]

RATINGS has texts of several systems with people's ratings (`agggen.evaluation.ratings`); a text is an error if people
rate its Correctness below 70. Takes a minute. The last line is JSON: by order, the share of all errors that are among
the first 5, 10, 20 and 50 % of the texts. ``random`` is the expectation; ``best`` reviews the errors first; ``faults``
is the number of faults of the check by words, in the order of the file where equal.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agggen.checks import check_all
from agggen.evaluation.ratings import INCORRECT, read_ratings
from agggen_platform.storage.critics import open_critic

SHARES = (0.05, 0.1, 0.2, 0.5)


def found(errors: np.ndarray, score: Sequence[float]) -> list[float]:
    """The share of the errors (N booleans) among the first texts by descending `score`, for each of `SHARES`."""
    ordered = errors[np.argsort(-np.asarray(score), kind="stable")]
    return [round(float(ordered[: round(share * len(errors))].sum() / errors.sum()), 3) for share in SHARES]


def main() -> None:
    parser = argparse.ArgumentParser(description="errors found by reviewing the riskiest texts first")
    parser.add_argument("ratings", type=Path)
    parser.add_argument("--critic", default="included")
    options = parser.parse_args()
    rated = read_ratings(options.ratings)
    critic, _ = open_critic(options.critic)
    checked = check_all([text.record for text in rated], [text.text for text in rated], critic=critic)
    errors = np.array([text.ratings["Correctness"] < INCORRECT for text in rated])
    orders = {
        "risk": found(errors, [one.risk for one in checked]),
        "faults": found(errors, [len(one.faults) for one in checked]),
        "random": list(SHARES),
        "best": found(errors, errors.astype(float).tolist()),
    }
    for name, shares in orders.items():
        print(f"{name:7}" + "".join(f"{share:8.1%}" for share in shares))
    print(json.dumps({"benchmark": "reviewing", "texts": len(rated), "errors": int(errors.sum()), "found": orders}))


if __name__ == "__main__":
    main()
