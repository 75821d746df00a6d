"""The autoscaling policy of the deployments, and the number of running generators."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingContext
from ray.serve.schema import DeploymentStatus

RECORDS = "records"  # the metric of a replica's queued and processed records


def by_records(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """An autoscaling policy by records, since a call has 1 to 64 of them; Serve applies bounds and delays.

    A waiting call counts as one record. The number of calls is a lower bound: ingress replicas report no records.
    """
    reported = (context.aggregated_metrics or {}).get(RECORDS, {})
    records = sum(reported.values()) + (context.total_queued_requests or 0.0)
    return max(records, context.total_num_requests) / context.config.target_ongoing_requests, {}


@dataclass(frozen=True)
class GeneratorState:
    running: int
    loaded: bool  # whether generators have loaded the bundle, perhaps before they were scaled to zero


def generator_state_query() -> Callable[[], GeneratorState]:
    """Returns a function that queries Serve's controller at most once a second, and calls (so starts) no generator."""
    application = serve.get_replica_context().app_name
    loaded_statuses = (DeploymentStatus.HEALTHY, DeploymentStatus.UPSCALING, DeploymentStatus.DOWNSCALING)
    queried_at, state = float("-inf"), GeneratorState(0, False)

    def query() -> GeneratorState:
        nonlocal queried_at, state
        if time.monotonic() - queried_at >= 1:
            deployment = serve.status().applications[application].deployments["Generator"]
            running = sum(number for name, number in deployment.replica_states.items() if name == "RUNNING")
            state = GeneratorState(running, running > 0 or deployment.status in loaded_statuses)
            queried_at = time.monotonic()
        return state

    return query
