"""Connects a job to a running Ray cluster, or to a new local cluster that ends with the job.

In order of precedence: the existing connection of the process; the requested `address`; ``RAY_ADDRESS``, which Ray sets
in submitted jobs; a local cluster. A local cluster requires a token that only this user can read, has no dashboard by
default, and has a small object store, because jobs pass addresses instead of data.
"""

import atexit
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agggen.errors import AggGenError
from agggen_platform.extras import require

_CONNECT_SECONDS = 5.0


class ClusterError(AggGenError):
    """A Ray cluster cannot be reached or started, or lacks resources."""

    exit_code = 6


@dataclass(frozen=True)
class Cluster:
    cpus: float
    gpus: float
    local: bool  # whether this process started the cluster


@contextmanager
def connected(
    address: str | None = None, cpus: int | None = None, gpus: int | None = None, dashboard: bool = False
) -> Iterator[Cluster]:
    """Connects to Ray for the block; uses an existing connection and leaves it open.

    `address`: a running cluster (``auto``, ``host:6379``, ``ray://host:10001``), or ``local``. A local cluster has all
    CPUs and GPUs of the machine by default. Without its dashboard, workers of a dead trial keep their CPUs.

    Raises ClusterError if nothing answers at the address, or a local cluster does not start.
    """
    local = starts_cluster(address)
    if local:
        _enable_token_authentication()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("ray")
    import ray

    if ray.is_initialized():
        yield _cluster(local=False)
        return
    options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if local:
            options |= {"address": "local", "num_cpus": cpus, "num_gpus": gpus, "include_dashboard": dashboard}
            options["object_store_memory"] = 256 << 20  # by default, a third of the machine's memory
        else:
            check_reachable(address or os.environ["RAY_ADDRESS"])
        ray.init(**options)
    except Exception as error:  # Ray raises a plain Exception if its processes start too slowly
        missing = f"no Ray cluster answers at {address or 'RAY_ADDRESS'}"
        problem = "a local Ray cluster does not start" if local else missing
        raise ClusterError(f"{problem}: {str(error).strip().splitlines()[0]}") from error
    try:
        yield _cluster(local)
    finally:
        ray.shutdown()


def starts_cluster(address: str | None) -> bool:
    """Whether `connected` starts a local cluster, unless the process is already connected."""
    return (address or os.environ.get("RAY_ADDRESS") or "local") == "local"


def check_reachable(address: str) -> None:
    """Raises OSError if nothing listens at the address; without this check, Ray would retry for minutes.

    ``auto`` is the cluster that ``ray start`` last started on this machine. Ray writes its address to a file, which
    remains after the cluster is killed.
    """
    if address == "auto":
        folder = os.environ.get("RAY_TMPDIR") or (sys.platform == "linux" and os.environ.get("TMPDIR")) or "/tmp"
        address_file = Path(folder) / "ray" / "ray_current_cluster"
        address = os.environ.get("RAY_ADDRESS") or (address_file.read_text("utf-8") if address_file.exists() else "")
    host, _, port = address.strip().rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


def nodes() -> list[dict[str, float]]:
    """The resources of each node of the cluster that this process is connected to."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def workers_that_fit(worker: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> int:
    """How many workers with these resources fit on the nodes; each worker needs a single node."""
    return sum(min(int(node.get(name, 0.0) / amount + 1e-9) for name, amount in worker.items()) for node in nodes)


def _cluster(local: bool) -> Cluster:
    import ray

    resources = ray.cluster_resources()
    return Cluster(resources.get("CPU", 1.0), resources.get("GPU", 0.0), local)


def _enable_token_authentication() -> None:
    """Creates a token for clusters that this process starts, unless the user has configured one."""
    if os.environ.keys() & {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
        return
    folder = Path(tempfile.mkdtemp(prefix="agggen-ray-"))  # 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "token"
    path.touch(0o600)
    path.write_text(secrets.token_hex(32), encoding="utf-8")
    # RAY_AUTH_MODE has no effect if Ray is already imported. If only the token is set, ray.init enables token
    # authentication for this process and its cluster.
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
