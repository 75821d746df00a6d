"""Metrics of a replica that Ray exports to Prometheus, with the tags `application`, `deployment` and `replica`."""

from collections.abc import Mapping
from typing import Any

from ray.serve.metrics import Counter, Gauge, Histogram

_COUNTS = [1.0, 2, 4, 8, 16, 32, 64, 128, 256]
_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]


class Metrics:
    def __init__(self) -> None:
        def histogram(name: str, description: str, boundaries: list[float]) -> Any:
            return Histogram(name, description=description, boundaries=boundaries, tag_keys=("work",))

        def counter(name: str, description: str, *tags: str) -> Any:
            return Counter(name, description=description, tag_keys=tags)

        self._queue = Gauge("agggen_queue_records", description="Records that wait in a replica.")
        self._batch_records = histogram("agggen_batch_records", "Records of a batch.", _COUNTS)
        # Ray exports only an estimate of a histogram's sum, so exact sums are counters.
        self._records = counter("agggen_worked_records", "Records processed.", "work")
        self._seconds = counter("agggen_worked_seconds", "Seconds of work on batches.", "work")
        self._batch_wait = histogram("agggen_batch_wait_seconds", "Seconds that the oldest record waited.", _SECONDS)
        self._batch_work = histogram("agggen_batch_work_seconds", "Seconds of work on a batch.", _SECONDS)
        self._outcomes = counter("agggen_records", "Records answered, by outcome.", "route", "outcome")
        self._problems = counter("agggen_problems", "Requests answered with a problem, by its code.", "code")
        bundle_tags = ("fingerprint", "address")
        self._bundle = Gauge("agggen_bundle_info", description="1 for the bundle served.", tag_keys=bundle_tags)

    def queue(self, n_waiting: int) -> None:
        self._queue.set(n_waiting)

    def batch(self, work: str, n_records: int, wait_seconds: float, work_seconds: float) -> None:
        """`wait_seconds`: of the batch's oldest record."""
        tags = {"work": work}
        self._batch_records.observe(n_records, tags=tags)
        self._records.inc(n_records, tags=tags)
        self._seconds.inc(max(work_seconds, 1e-9), tags=tags)
        self._batch_wait.observe(max(wait_seconds, 1e-9), tags=tags)
        self._batch_work.observe(max(work_seconds, 1e-9), tags=tags)

    def request(self, route: str, outcomes: Mapping[str, int], problem: str) -> None:
        """Counts an answered request: its records by outcome, and the code of its problem, if any."""
        for outcome, count in outcomes.items():
            self._outcomes.inc(count, tags={"route": route, "outcome": outcome})
        if problem:
            self._problems.inc(tags={"code": problem})

    def bundle(self, fingerprint: str, address: str) -> None:
        """Exports the served bundle; must be called regularly, since Ray drops gauges that are not set again."""
        self._bundle.set(1, tags={"fingerprint": fingerprint, "address": address})
