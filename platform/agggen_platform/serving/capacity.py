"""Checks that a cluster has enough CPUs and GPUs for an endpoint; otherwise, Ray Serve would wait without an error."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agggen.errors import AggGenError
from agggen_platform.ray_cluster import workers_that_fit
from agggen_platform.serving.config import ReplicaConfig, ServeConfig

# Planners and ingress need only a few milliseconds per record, so there is one of each for eight generators.
GENERATORS_PER_PLANNER = 8
_MAX_GENERATORS = 1000


class CapacityError(AggGenError):
    """The cluster has too few CPUs or GPUs for the endpoint, or another application is at its address."""

    exit_code = 6


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs of a node or cluster, or those that replicas require."""

    cpus: float = 0.0
    gpus: float = 0.0

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpus + other.cpus, self.gpus + other.gpus)

    def can_fit(self, other: Resources) -> bool:
        """Whether these resources suffice for `other`, up to rounding errors."""
        return other.cpus <= self.cpus + 1e-6 and other.gpus <= self.gpus + 1e-6

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")


def _resources_of(nodes: Sequence[Mapping[str, float]]) -> list[Resources]:
    return [Resources(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes]


def _roles(config: ServeConfig) -> dict[str, ReplicaConfig]:
    return {"ingress": config.ingress, "planner": config.planner, "generator": config.generator}


def with_max_replicas(config: ServeConfig, nodes: Sequence[Mapping[str, float]]) -> ServeConfig:
    """`config` with each unset `max_replicas` set to the number of replicas that fit on these nodes.

    ``update=beside`` reserves resources for one more replica of each deployment: new ones start before old ones stop.
    """
    generator, spare = config.generator, int(config.update == "beside")
    replica = {name: amount for name, amount in (("CPU", generator.cpus), ("GPU", generator.gpus)) if amount}
    cluster = sum(_resources_of(nodes), Resources())
    reserved = one_replica_each(config) if spare else Resources()
    count = min(_MAX_GENERATORS, workers_that_fit(replica, nodes) - spare if replica else 1)
    while count > 1 and not cluster.can_fit(maximum_resources(_with_generators(config, count)) + reserved):
        count -= 1
    return _with_generators(config, count)


def _with_generators(config: ServeConfig, count: int) -> ServeConfig:
    def with_maximum(role: ReplicaConfig, limit: int) -> ReplicaConfig:
        return replace(role, max_replicas=max(1, limit, role.min_replicas)) if role.max_replicas is None else role

    generator = with_maximum(config.generator, count)
    planners = -(-(generator.max_replicas or 1) // GENERATORS_PER_PLANNER)
    ingress, planner = with_maximum(config.ingress, planners), with_maximum(config.planner, planners)
    return replace(config, ingress=ingress, planner=planner, generator=generator)


def _sum_resources(config: ServeConfig, count_replicas: Callable[[ReplicaConfig], int]) -> Resources:
    counts = ((role, count_replicas(role)) for role in _roles(config).values())
    return sum((Resources(role.cpus * count, role.gpus * count) for role, count in counts), Resources())


def one_replica_each(config: ServeConfig) -> Resources:
    """The resources for one replica of each deployment."""
    return _sum_resources(config, lambda role: 1)


def minimum_resources(config: ServeConfig) -> Resources:
    """The resources for `min_replicas` (at least 1) of each deployment."""
    return _sum_resources(config, lambda role: max(1, role.min_replicas))


def maximum_resources(config: ServeConfig) -> Resources:
    """The resources for `max_replicas` of each deployment; where unset, for `min_replicas` (at least 1)."""
    return _sum_resources(config, lambda role: role.max_replicas or max(1, role.min_replicas))


def local_cpus(config: ServeConfig) -> int:
    """The logical CPUs of a local cluster: twice the machine's CPUs or those of all replicas, whichever is more.

    The factor of two is for updates, when replicas of two bundles run; Ray uses logical CPUs only for scheduling.
    Raises CapacityError if `minimum_resources` needs more CPUs than the machine has.
    """
    machine = os.cpu_count() or 1
    if minimum_resources(config).cpus > max(machine, 2):
        raise _too_small(config, f"this machine has {machine} CPUs")
    return math.ceil(2 * max(machine, maximum_resources(config).cpus))


def check_fits(config: ServeConfig, nodes: Sequence[Mapping[str, float]]) -> None:
    """Raises CapacityError if a replica fits on no node, or the cluster has less than `minimum_resources`."""
    available = _resources_of(nodes)
    for name, role in _roles(config).items():
        replica = Resources(role.cpus, role.gpus)
        if not any(node.can_fit(replica) for node in available):
            largest = max(available, key=lambda node: (node.gpus if replica.gpus else 0, node.cpus, node.gpus))
            raise CapacityError(
                f"a replica of the {name} needs {replica}, but the largest node of the cluster has {largest}: lower "
                f"{name}.cpus or {name}.gpus"
            )
    if not (total := sum(available, Resources())).can_fit(minimum_resources(config)):
        raise _too_small(config, f"the cluster has {total}")


def _too_small(config: ServeConfig, available: str) -> CapacityError:
    parts = (f"{name}.cpus={role.cpus:g} x {max(1, role.min_replicas)}" for name, role in _roles(config).items())
    return CapacityError(f"the endpoint needs {minimum_resources(config)}, but {available}: lower {', '.join(parts)}")
