"""Connects a job to Ray: to a running cluster, or to a local one that ends with the job.

Which one, in this order: the connection that the process has already; the `address` asked for; ``RAY_ADDRESS`` (which a
submitted job finds set); else a local cluster. A local cluster is protected by a token that only this user can read,
has no dashboard unless asked for, and stores little, because the jobs send addresses of data and not data.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agggen.errors import AggGenError
from agggen_platform.extras import require

OBJECT_STORE_BYTES = 256 << 20
"""Of a local cluster. Ray would take a third of the machine's memory."""
_REACH_SECONDS = 5.0


class ClusterError(AggGenError):
    """No Ray cluster answers, or it does not start."""

    exit_code = 6


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to."""

    cpus: float
    gpus: float
    local: bool
    """Whether this process started it."""


@contextmanager
def connected(
    address: str | None = None, cpus: int | None = None, gpus: int | None = None, dashboard: bool = False
) -> Iterator[Cluster]:
    """Connects to Ray for the block; an existing connection is kept.

    Args:
        address: ``local`` for a cluster of one's own, or where one runs (``auto``, ``host:6379``, ``ray://host:10001``).
        cpus: how many CPUs a local cluster offers to tasks and actors; all that the machine has by default.
        gpus: likewise.
        dashboard: whether a local cluster has one (without one, the workers of a trial that died keep
            their CPUs).

    Raises:
        ConfigError: Ray is not installed.
        ClusterError: nothing answers at the address, or a local cluster does not start.
    """
    local = (address or os.environ.get("RAY_ADDRESS") or "local") == "local"
    if local:
        _secure()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("ray")
    import ray

    if ray.is_initialized():
        yield _describe(local=False)
        return
    try:
        if local:
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus,
                include_dashboard=dashboard,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        else:
            check_reachable(address or os.environ["RAY_ADDRESS"])
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray raises a bare one where its own processes take too long to start
        where = (
            "a local Ray cluster does not start" if local else f"no Ray cluster answers at {address or 'RAY_ADDRESS'}"
        )
        raise ClusterError(f"{where}: {str(error).strip().splitlines()[0]}") from error
    try:
        yield _describe(local)
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Raises OSError where nothing listens at the address: Ray itself would try for minutes.

    ``auto`` is the cluster that ``ray start`` started last on this machine: Ray notes its address in a file, which
    stays when that cluster is killed.
    """
    if address == "auto":
        note = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
        address = os.environ.get("RAY_ADDRESS") or (note.read_text(encoding="utf-8") if note.exists() else "")
    host, _, port = address.strip().rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()


def nodes() -> list[dict[str, float]]:
    """The resources of each node of the cluster that this process is connected to."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def room_for(worker: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> int:
    """How many workers with these resources fit on the nodes; no worker spans two nodes."""
    return sum(min(int(node.get(name, 0.0) / amount + 1e-9) for name, amount in worker.items()) for node in nodes)


def _describe(local: bool) -> Cluster:
    import ray

    resources = ray.cluster_resources()
    return Cluster(resources.get("CPU", 1.0), resources.get("GPU", 0.0), local)


def _secure() -> None:
    """Turns Ray's token on for clusters that this process starts; a user's own settings win."""
    if "RAY_AUTH_MODE" in os.environ or "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    # Ray reads RAY_AUTH_MODE when it is imported; to set it here would be too late for a process that has imported
    # Ray before. Where only the token is given, ray.init turns the mode on for itself and its cluster.
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(_token_file())


@cache
def _token_file() -> Path:
    """A file with a new token that only this user can read; it goes with the process."""
    folder = Path(tempfile.mkdtemp(prefix="agggen-ray-"))  # 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "token"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    return path
