"""Ray: the token, and whether the job's cluster answers, is large enough for its workers, and requires a token."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from agggen_platform.doctor.findings import Finding, Settings, error, note, ok, warning
from agggen_platform.extras import is_installed
from agggen_platform.ray_cluster import check_reachable

_TIMEOUT_SECONDS = 5.0  # of an HTTP request
_USE_TOKEN = "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.ray/auth_token"
_MAKE_TOKEN = "ray get-auth-token --generate >/dev/null && chmod 600 $HOME/.ray/auth_token"


def check(settings: Settings) -> Iterator[Finding]:
    yield from token(settings)
    address, install = settings.cluster, "pip install 'agggen[ray]'"
    if address is not None and is_installed("ray"):
        yield from cluster(address, settings)
    elif address is not None:
        yield error("cluster", f"{address} needs Ray, which is not installed", install)
    elif is_installed("ray"):
        yield note("cluster", "no address is set: jobs start a local cluster")
    else:
        message = "Ray is not installed: `agggen sweep`, `bulk` and `serve` need it, and training with cluster.workers"
        yield note("cluster", message, install)


def token(settings: Settings) -> Iterator[Finding]:
    mode = os.environ.get("RAY_AUTH_MODE", "").lower()
    source = _token_source()
    if mode == "disabled":
        message = "RAY_AUTH_MODE=disabled: anyone who can reach Ray's ports can run code as this user"
        yield error("token", message, f"unset RAY_AUTH_MODE && {_USE_TOKEN}")
    elif isinstance(source, Path):
        yield _token_file_finding(source)
    elif source is not None:
        yield ok("token", f"read from {source}")
    elif settings.cluster is None:
        yield ok("token", "no token is set: each local cluster creates its own")
    elif mode == "token":
        yield error("token", "RAY_AUTH_MODE=token, but no token is set for the cluster", _USE_TOKEN)
    else:
        message = f"no token is set for the cluster at {settings.cluster}; without a token, everyone can run code on it"
        yield warning("token", message, f"{_MAKE_TOKEN} && {_USE_TOKEN}  # here and on every node")


def _token_source() -> Path | str | None:
    """The file or the environment variable from which Ray reads its token; None if there is neither."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    if path := os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return Path(path).expanduser()
    default = Path.home() / ".ray" / "auth_token"
    return default if default.exists() else None


def _token_file_finding(path: Path) -> Finding:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as failure:
        return error("token", f"the token file {path} cannot be read: {failure}", f"{_MAKE_TOKEN} && {_USE_TOKEN}")
    if mode & 0o077:
        return warning("token", f"other users can read the token in {path} (mode {mode:04o})", f"chmod 600 {path}")
    return ok("token", f"read from {path}, which only this user can read")


def cluster(address: str, settings: Settings) -> Iterator[Finding]:
    import ray

    try:
        check_reachable(address)
        context = ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as failure:  # Ray raises many types, including Exception itself
        text = str(failure.__cause__ or failure).strip()
        message = (text.splitlines()[-1] if "Traceback" in text else " ".join(text.split()))[:500]
        yield error("cluster", f"no connection to {address}: {message}", remedy(message, address))
        return
    with context:
        resources = ray.cluster_resources()
        cpus, gpus = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
        nodes = sum(node["Alive"] for node in ray.nodes())
        yield ok("cluster", f"{address}: nodes: {nodes}, CPUs: {cpus:g}, GPUs: {gpus:g}, Ray {ray.__version__}")
        yield from worker_resources(cpus, gpus, settings)
        if context.dashboard_url:
            yield dashboard(f"http://{context.dashboard_url}")


def remedy(message: str, address: str) -> str:
    message = message.lower()
    if "authenti" in message or "token" in message:
        return f"{_USE_TOKEN}  # the token of the cluster's nodes"
    if "version mismatch" in message:
        return "pip install ray==VERSION  # and Python, in the versions of the nodes; or use `ray job submit`"
    if address == "auto":
        return "ray start --head --port=6379  # or set the address of the head: cluster.address=HOST:6379"
    host_and_port = address.rpartition("://")[2].replace(":", " ")
    return f"nc -vz {host_and_port}  # does the head run, and does a firewall or network policy allow the connection?"


def worker_resources(cpus: float, gpus: float, settings: Settings) -> Iterator[Finding]:
    units = ("CPU", settings.cpus_per_worker, cpus), ("GPU", settings.gpus_per_worker, gpus)
    for unit, per_worker, available in units:
        required, key = settings.workers * per_worker, f"cluster.{unit.lower()}s_per_worker"
        message = f"the job's {settings.workers} workers need {required:g} {unit}s, but the cluster has {available:g}"
        if required > available and settings.autoscaling:
            yield note("workers", f"{message} until it grows")
        elif required > available:
            yield error("workers", message, f"cluster.workers=N {key}=X  # or cluster.autoscaling=true")


def dashboard(url: str) -> Finding:
    """Whether the dashboard, whose jobs API can run any code, answers without a token."""
    try:
        status = build_opener(ProxyHandler({})).open(f"{url}/api/version", timeout=_TIMEOUT_SECONDS).status
    except HTTPError as failure:
        status = failure.code
    except OSError as failure:
        return note("dashboard", f"{url} cannot be reached from this machine: {failure}")
    if status in (401, 403):
        return ok("dashboard", f"{url} requires a token")
    message = f"{url} requires no token: anyone who can reach it can run code on the cluster"
    restart = f"{_MAKE_TOKEN} && {_USE_TOKEN}  # on every node, then restart the cluster"
    is_local = url.startswith(("http://127.", "http://localhost:"))
    return (warning if is_local else error)("dashboard", message, restart)
