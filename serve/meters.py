"""How much replicas work together and how long records wait, as metrics of Ray (Prometheus); nothing without Ray."""

from __future__ import annotations

import sys
from typing import Any

_COUNTS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]


class Meters:
    """Counts nothing: outside of a replica of Ray Serve nobody reads it."""

    def queue(self, waiting: int) -> None:
        """`waiting` records are left in the queue."""

    def batch(self, work: str, records: int, waited: float, worked: float) -> None:
        """A batch was done: its records, the seconds its oldest one waited, the seconds of work."""


class _RayMeters(Meters):
    def __init__(self) -> None:
        from ray.serve.metrics import Counter, Gauge, Histogram

        def seconds(name: str, description: str) -> Any:
            return Histogram(name, description=description, boundaries=_SECONDS, tag_keys=("work",))

        self._queue = Gauge("agggen_queue_records", description="Records that wait in a replica.")
        self._records = Histogram(
            "agggen_batch_records",
            description="Records worked on together.",
            boundaries=_COUNTS,
            tag_keys=("work",),
        )
        # Ray keeps a histogram's buckets and guesses its sum from them, so what is to be added up is counted.
        self._worked_on = Counter("agggen_worked_records", description="Records worked on.", tag_keys=("work",))
        self._worked_for = Counter("agggen_worked_seconds", description="What batches took.", tag_keys=("work",))
        self._waited = seconds("agggen_batch_wait_seconds", "What the oldest record of a batch waited.")
        self._worked = seconds("agggen_batch_work_seconds", "What a batch took.")

    def queue(self, waiting: int) -> None:
        self._queue.set(waiting)

    def batch(self, work: str, records: int, waited: float, worked: float) -> None:
        tags = {"work": work}
        self._records.observe(records, tags=tags)
        self._worked_on.inc(records, tags=tags)
        self._worked_for.inc(max(worked, 1e-9), tags=tags)
        self._waited.observe(max(waited, 1e-9), tags=tags)
        self._worked.observe(max(worked, 1e-9), tags=tags)


def replica_id() -> str | None:
    """That of the Serve replica that this process is; None elsewhere."""
    if "ray.serve" not in sys.modules:
        return None
    from ray import serve
    from ray.serve.exceptions import RayServeException

    try:
        return str(serve.get_replica_context().replica_id.unique_id)
    except RayServeException:
        return None


def meters() -> Meters:
    """Those of the Serve replica that this process is, or some that count nothing."""
    return Meters() if replica_id() is None else _RayMeters()
