"""Planning time per record: exact k-best against the paper's two-stage search.

    python tests/benchmarks/planning.py

Random scores with L = 3, for 20 records each of 3, 5, 7 and 10 triples; 10 exact plans, and beam 3 with 2 aggregations
per order as in the paper. The searches alternate in one process; each number is the median over seven repeats of the
mean milliseconds per record. The last line is JSON.
"""

import json
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from agggen.model.lattice import ordered_states
from agggen.planning.exact import k_best
from agggen.planning.scores import PlanScores
from agggen.planning.two_stage import two_stage

MAX_SIZE = 3
SEARCHES: dict[str, Callable[[PlanScores], object]] = {
    "exact_10": lambda scores: k_best(scores, 10),
    "two_stage": two_stage,
}


def random_scores(rng: np.random.Generator, n: int) -> PlanScores:
    """Scores of a random model: normalised start rows and p_out, Gaussian logits."""

    def log_softmax(logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))

    states = ordered_states(n, MAX_SIZE)
    return PlanScores(
        start=log_softmax(rng.normal(size=n)),
        out=log_softmax(rng.normal(size=(n, n))),
        inside_start=log_softmax(rng.normal(size=n)),
        inside=rng.normal(size=(n, n)),
        within=np.array([-len(state) for state in states]) + rng.normal(size=(2, len(states))) * 0.5,
        max_group_size=MAX_SIZE,
    )


def milliseconds(search: Callable[[PlanScores], object], records: list[PlanScores]) -> float:
    started_at = time.perf_counter()
    for scores in records:
        search(scores)
    return (time.perf_counter() - started_at) * 1000 / len(records)


def main() -> None:
    rng = np.random.default_rng(0)
    result: dict[str, dict[str, float]] = {}
    for n in (3, 5, 7, 10):
        records = [random_scores(rng, n) for _ in range(20)]
        k_best(records[0], 10)  # the first call builds index tables
        times: dict[str, list[float]] = {name: [] for name in SEARCHES}
        for _ in range(7):
            for name, search in SEARCHES.items():
                times[name].append(milliseconds(search, records))
        result[str(n)] = {name: round(median(values), 3) for name, values in times.items()}
        print(f"{n:2d} triples  {result[str(n)]}", flush=True)
    print(json.dumps({"benchmark": "planning", "unit": "ms/record", "triples": result}))


if __name__ == "__main__":
    main()
