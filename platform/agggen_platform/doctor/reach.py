"""Servers: whether one listens, what it says over HTTP, whose clock differs, and who holds a port of this machine."""

from __future__ import annotations

import ipaddress
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from agggen_platform.doctor.findings import Finding, error, ok, warning

SECONDS = 5.0
"""That a server may take to accept a connection, and again to answer."""
SKEW_OF_S3 = 900.0  # seconds; S3 refuses signatures beyond
_SKEW_NOTED = 60.0


def refusal(address: str) -> str | None:
    """Why nobody can be reached at ``HOST:PORT`` (a scheme before it does no harm); None where somebody listens."""
    from agggen_platform.ray_cluster import _knock

    try:
        _knock(address)
    except TimeoutError:
        return f"no connection within {SECONDS:g} s"
    except OSError as failed:
        return failed.strerror or str(failed).partition("\n")[0]
    return None


def clock(whose: str, date: str | None) -> Finding | None:
    """Our clock against the `date` that a server's answer carries; None where it carries none."""
    if date is None:
        return None
    ahead = time.time() - parsedate_to_datetime(date).timestamp()
    if abs(ahead) < _SKEW_NOTED:
        return ok("clock", f"as that of {whose}, within {_SKEW_NOTED:g} s")
    found = f"this machine's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} that of {whose}"
    remedy = "chronyc makestep  # or timedatectl set-ntp true; in a container, on its host"
    if abs(ahead) >= SKEW_OF_S3:
        return error("clock", f"{found}; S3 refuses signatures from {SKEW_OF_S3:g} s", remedy)
    return warning("clock", found, remedy)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Listener:
    """What listens at a port of this machine."""

    host: str
    pid: int | None
    name: str | None
    """Of the process; None where it is another user's."""

    def __str__(self) -> str:
        who = f"{self.name} (process {self.pid})" if self.name else "a process of another user or container"
        return f"{who} at {self.host}"


def listeners(port: int) -> list[Listener]:
    """All that listens at a TCP port of this machine."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS tells only root
        return [] if refusal(f"127.0.0.1:{port}") else [Listener("127.0.0.1", None, None)]
    found = []
    for one in connections:
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port:
            try:
                name = psutil.Process(one.pid).name() if one.pid else None
            except psutil.Error:  # it ended, or is not ours
                name = None
            found.append(Listener(one.laddr.ip, one.pid, name))
    return found
