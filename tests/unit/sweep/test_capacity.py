"""How many trials a cluster runs at once."""

from __future__ import annotations

import pytest

from agggen_platform.job_config import ClusterConfig
from agggen_platform.ray_cluster import ClusterError
from agggen_platform.sweep.trials import trials_at_once


def cpus(*nodes: float) -> list[dict[str, float]]:
    return [{"CPU": count, "memory": 1e9} for count in nodes]


@pytest.mark.parametrize(
    ("config", "nodes", "wanted", "expected"),
    [
        (ClusterConfig(), cpus(8), 0, 8),  # in its own process: one CPU a trial
        (ClusterConfig(), cpus(8), 3, 3),
        (ClusterConfig(), cpus(2), 5, 2),
        (ClusterConfig(workers=2), cpus(8), 0, 4),
        (ClusterConfig(workers=3), cpus(8), 0, 2),
        (ClusterConfig(workers=2, cpus_per_worker=2), cpus(3, 3), 0, 1),  # a worker does not span nodes
        (ClusterConfig(workers=2, cpus_per_worker=0.1), cpus(0.6), 0, 3),  # not 2 by rounding
        (ClusterConfig(workers=2, gpus_per_worker=1), [{"CPU": 64, "GPU": 4}], 0, 2),
        (ClusterConfig(cpus_per_worker=0, gpus_per_worker=0.5), [{"CPU": 1, "GPU": 1}], 0, 2),
        (ClusterConfig(workers=4, autoscaling=True), cpus(2), 6, 6),
        (ClusterConfig(workers=4, autoscaling=True), cpus(2), 0, 1),
    ],
)
def test_room(config: ClusterConfig, nodes: list[dict[str, float]], wanted: int, expected: int) -> None:
    assert trials_at_once(config, nodes, wanted) == expected


def test_a_cluster_without_room_for_one_trial_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"needs 3 workers of 1 CPUs, .* its nodes have 2 CPUs, 0 GPUs; lower"):
        trials_at_once(ClusterConfig(workers=3), cpus(2))
    with pytest.raises(ClusterError, match=r"of 1 CPUs and 1 GPUs"):
        trials_at_once(ClusterConfig(gpus_per_worker=1), cpus(8))
