"""How many trials a cluster runs at once.

A trial that trains in its own process books its CPUs and GPUs itself. A trial that starts a run of Ray Train books
nothing: its workers do, in a placement group of their own. If trials booked CPUs as well, trials could hold every CPU
while each waits for those of its workers, for ever; and if more trials were started than have room, they would only
wait in each other's way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agggen_platform.job_config import ClusterConfig
from agggen_platform.ray_cluster import ClusterError


def trials_at_once(config: ClusterConfig, nodes: Sequence[Mapping[str, float]], wanted: int = 0) -> int:
    """How many trials to run at once on nodes with these resources (``{"CPU": 8.0, "GPU": 1.0}``).

    `wanted`: no more than this; 0: as many as have room. A cluster that grows when asked gets what is `wanted`.

    Raises:
        ClusterError: not even one trial has room.
    """
    workers = max(1, config.workers)  # a trial that trains in its own process is its only worker
    room = sum(_fits(config, node) for node in nodes) // workers
    if config.autoscaling:
        return wanted or max(1, room)
    if not room:
        gpus = f" and {config.gpus_per_worker:g} GPUs" if config.gpus_per_worker else ""
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise ClusterError(
            f"a trial needs {workers} workers of {config.cpus_per_worker:g} CPUs{gpus}, and the cluster has no room "
            f"for one: its nodes have {have or 'nothing'}; lower cluster.workers or cluster.cpus_per_worker, or set "
            "cluster.autoscaling=true where nodes come when asked"
        )
    return min(wanted or room, room)


def _fits(config: ClusterConfig, node: Mapping[str, float]) -> int:
    """Workers that one node has room for."""
    needs = {"CPU": config.cpus_per_worker, "GPU": config.gpus_per_worker}
    return min(int(node.get(name, 0.0) / need + 1e-9) for name, need in needs.items() if need)
