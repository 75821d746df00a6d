"""The autoscaling policy of the deployments, and the number of running generators."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingContext
from ray.serve.schema import DeploymentStatus

RECORDS = "records"
"""The name of the metric by which replicas report their records, waiting and in a batch, to Serve's controller."""


def by_records(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Serve's autoscaling policy: the replicas that the current records need, before Serve applies bounds and delays.

    Serve's own policy counts calls, and a call has 1 to 64 records. Here, a call that waits for a replica counts as one
    record. The number of calls is a lower bound of the records, since ingress replicas report no records.
    """
    reported = (context.aggregated_metrics or {}).get(RECORDS, {})
    records = sum(reported.values()) + (context.total_queued_requests or 0.0)
    return max(records, context.total_num_requests) / context.config.target_ongoing_requests, {}


@dataclass(frozen=True)
class Generators:
    """The current state of the generators."""

    running: int
    loaded: bool
    """Whether they have loaded the bundle and passed their self-test: now, or before they were scaled to zero."""


def count_generators() -> Callable[[], Generators]:
    """A function that queries Serve's controller at most once a second. It calls, and so starts, no generator."""
    application = serve.get_replica_context().app_name
    steady = (DeploymentStatus.HEALTHY, DeploymentStatus.UPSCALING, DeploymentStatus.DOWNSCALING)
    queried_at, answer = float("-inf"), Generators(0, False)

    def count() -> Generators:
        nonlocal queried_at, answer
        if time.monotonic() - queried_at >= 1:
            deployment = serve.status().applications[application].deployments["Generator"]
            running = sum(count for state, count in deployment.replica_states.items() if state == "RUNNING")
            queried_at, answer = time.monotonic(), Generators(running, running > 0 or deployment.status in steady)
        return answer

    return count
