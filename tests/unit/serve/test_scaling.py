"""How many replicas Serve is asked for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from serve.scaling import RECORDS, by_records


@pytest.mark.parametrize(
    ("reported", "queued", "calls", "replicas"),
    [
        ([], 0, 0, 0),
        ([128], 0, 2, 2),  # two calls of 64 records
        ([64, 64, 64], 0, 5, 3),
        ([64], 64, 65, 2),  # calls that wait for a replica have a record at least
        ([], 0, 128, 2),  # replicas that report no records: the ingress, or those that are starting
    ],
)
def test_each_share_of_the_records_gets_a_replica(
    reported: list[float], queued: float, calls: float, replicas: float
) -> None:
    context = SimpleNamespace(
        aggregated_metrics={RECORDS: dict(enumerate(reported))} if reported else {},
        total_queued_requests=queued,
        total_num_requests=calls,
        config=SimpleNamespace(target_ongoing_requests=64),
    )
    assert by_records(context) == (replicas, {})  # type: ignore[arg-type]
