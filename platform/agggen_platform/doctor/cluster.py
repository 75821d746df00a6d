"""Ray: version, token, and the cluster that a job would join: reachable, of the same versions, large enough, protected.

A dashboard that strangers can reach without a token runs whatever they submit (the attack is known as ShadowRay), so
one that listens beyond loopback is an error wherever it is found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agggen_platform.doctor import reach
from agggen_platform.doctor.findings import Check, Finding, error, note, ok, warning
from agggen_platform.doctor.probing import ProbeError, probe
from agggen_platform.doctor.settings import Settings
from agggen_platform.doctor.versions import RAY, installed, is_older, judged

AREA = "ray"
DASHBOARD_PORT = 8265
_SECONDS = 30.0  # of the probe: half of it is to import Ray on a busy machine
_WITH_TOKEN = "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.ray/auth_token"
_NEW_TOKEN = "ray get-auth-token --generate >/dev/null && chmod 600 $HOME/.ray/auth_token"


def checks(settings: Settings) -> list[Check]:
    return [
        Check(AREA, "version", version, 5),
        Check(AREA, "token", lambda: token(settings), 5),
        Check(AREA, "cluster", lambda: cluster(settings), 2 * _SECONDS + 4 * reach.SECONDS),
        Check(AREA, "dashboard", lambda: dashboard_here(settings), 4 * reach.SECONDS),
    ]


def version() -> Iterator[Finding]:
    found = installed("ray")
    if found is None:
        yield note("version", "Ray is not installed: everything runs in this process", "pip install 'agggen[cluster]'")
    else:
        yield judged(found, RAY)


# --- the token ---------------------------------------------------------------------------------------------------


def token(settings: Settings) -> Iterator[Finding]:
    """Whether Ray's ports ask for a token, and whether it is one that others cannot read."""
    mode = os.environ.get("RAY_AUTH_MODE", "").lower()
    if mode == "disabled":
        yield error(
            "token",
            "RAY_AUTH_MODE=disabled: whoever reaches Ray's ports runs code as this user",
            f"unset RAY_AUTH_MODE && {_WITH_TOKEN}",
        )
        return
    if mode not in ("", "token"):
        yield error("token", f"RAY_AUTH_MODE={mode} is none of token, disabled", "export RAY_AUTH_MODE=token")
        return
    source = _token_source()
    if isinstance(source, Path):
        yield _file(source)
    elif source is not None:
        yield ok("token", f"taken from {source}")
    elif mode == "token" and settings.cluster:
        yield error("token", "RAY_AUTH_MODE=token, and there is no token to show to the cluster", _WITH_TOKEN)
    elif settings.cluster:
        yield warning(
            "token",
            f"no token is set for the cluster at {settings.cluster}; one that asks for none is open to whoever reaches "
            "its ports",
            f"{_NEW_TOKEN} && {_WITH_TOKEN}  # here and on every node",
        )
    else:
        yield ok("token", "none is set: jobs make one for each cluster of their own")
    if source is not None and not mode:
        yield note("token mode", "RAY_AUTH_MODE is not set, so `ray` commands may send no token", _WITH_TOKEN)


def _token_source() -> Path | str | None:
    """The file or variable that Ray takes its token from, in its order."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    if path := os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return Path(path).expanduser()
    usual = Path.home() / ".ray" / "auth_token"
    return usual if usual.exists() else None


def _file(path: Path) -> Finding:
    try:
        empty = not path.read_text(encoding="utf-8").strip()
        bits = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as failed:
        why = getattr(failed, "strerror", None) or "not a text"
        return error("token", f"the token's file {path} cannot be read: {why}", f"{_NEW_TOKEN} && {_WITH_TOKEN}")
    if empty:
        return error("token", f"the token's file {path} is empty", f"{_NEW_TOKEN} && {_WITH_TOKEN}")
    if bits & 0o077:
        return warning("token", f"others may read the token in {path} (mode {bits & 0o777:04o})", f"chmod 600 {path}")
    return ok("token", f"taken from {path}, which only this user can read")


def _token_header() -> dict[str, str]:
    source = _token_source()
    if source is None:
        return {}
    try:
        secret = source.read_text(encoding="utf-8") if isinstance(source, Path) else os.environ[source]
    except (OSError, UnicodeDecodeError):
        return {}
    return {"Authorization": f"Bearer {secret.strip()}"}


# --- the cluster -------------------------------------------------------------------------------------------------


def cluster(settings: Settings) -> Iterator[Finding]:
    """Knocks, then asks the cluster's GCS what it is. Joins nothing and starts nothing."""
    address = settings.cluster
    if address is None:
        yield note("cluster", "no address is given, so jobs start a cluster of their own on this machine")
        return
    if installed("ray") is None:
        yield error("cluster", f"{address} cannot be joined: Ray is not installed", "pip install 'agggen[cluster]'")
        return
    if address.startswith(("http://", "https://")):
        yield from dashboard(address, told=True)
        return
    if (refused := reach.refusal(address)) is not None:
        yield error("cluster", f"no Ray cluster answers at {address}: {refused}", _how_to_reach(address))
        return
    if address.startswith("ray://"):
        yield ok("cluster", f"something listens at {address}; versions are compared when a job connects")
        return
    try:
        seen = probe("ray_probe", address, seconds=_SECONDS)
    except ProbeError as failed:
        yield _unanswered(address, str(failed))
        return
    yield from of_probe(seen, address, settings)
    yield _without_token(address)
    if seen["dashboard"]:
        yield from dashboard(f"http://{seen['dashboard']}", ours=True)


def _how_to_reach(address: str) -> str:
    if address == "auto":
        return "ray start --head --port=6379  # or give the address of the head: --address HOST:6379"
    return (
        f"nc -vz {' '.join(address.rpartition('://')[2].rsplit(':', 1))}  # is the head up, and does a firewall or "
        "network policy let this machine in?"
    )


def _unanswered(address: str, why: str) -> Finding:
    if _is_refusal(why):
        found = f"the cluster at {address} refuses this token: {why}"
        return error("cluster", found, f"{_WITH_TOKEN}  # with the token of the cluster's nodes")
    return error("cluster", f"what listens at {address} does not answer as Ray does: {why}", _how_to_reach(address))


def _without_token(address: str) -> Finding:
    """Asks the cluster again as a stranger would. Its GCS listens on all interfaces, whatever it is told."""
    stranger = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    nowhere = {"HOME": os.devnull, "RAY_AUTH_MODE": "disabled"}  # no token of the home folder either
    try:
        probe("ray_probe", address, seconds=_SECONDS, environment=stranger | nowhere)
    except ProbeError as refused:
        if _is_refusal(str(refused)):
            return ok("cluster token", f"{address} asks for a token")
        return note("cluster token", f"whether {address} asks for a token cannot be told: {refused}")
    return error(
        "cluster token",
        f"{address} asks for no token: whoever reaches its ports runs code",
        f"{_NEW_TOKEN} && {_WITH_TOKEN}  # on every node, then start the cluster anew",
    )


def _is_refusal(why: str) -> bool:
    return any(word in why.lower() for word in ("unauthenticated", "authentication", "token"))


def of_probe(seen: Mapping[str, Any], address: str, settings: Settings) -> Iterator[Finding]:
    """What the probe's answer means for the job."""
    cpus = sum(node.get("CPU", 0.0) for node in seen["nodes"])
    gpus = sum(node.get("GPU", 0.0) for node in seen["nodes"])
    yield ok("cluster", f"{address}: nodes {len(seen['nodes'])}, CPUs {cpus:g}, GPUs {gpus:g}")
    if is_older(seen["ray"], RAY):
        yield error(
            "cluster version",
            f"the cluster runs Ray {seen['ray']}, older than {RAY.oldest}: {RAY.why}",
            f"pip install '{RAY.requirement}'  # on every node, or their image",
        )
    for what, theirs, ours in (("Ray", seen["ray"], seen["own_ray"]), ("Python", seen["python"], seen["own_python"])):
        if theirs == ours:
            yield ok(f"same {what}", f"{what} {ours} here and on the cluster")
        else:
            remedy = f"pip install ray=={theirs}" if what == "Ray" else f"uv venv --python {theirs}"
            found = f"{what} {ours} here, {theirs} on the cluster: Ray refuses to connect"
            yield error(f"same {what}", found, f"{remedy}  # or submit the job, which runs there: ray job submit")
    yield from _room(cpus, gpus, settings)


def _room(cpus: float, gpus: float, settings: Settings) -> Iterator[Finding]:
    """The workers of a training job, as it counts them itself when it starts."""
    wanted = {
        "CPU": (settings.workers * settings.cpus_per_worker, cpus, "cluster.cpus_per_worker"),
        "GPU": (settings.workers * settings.gpus_per_worker, gpus, "cluster.gpus_per_worker"),
    }
    for kind, (needed, there, key) in wanted.items():
        if needed <= there:
            continue
        found = f"the job's {settings.workers} workers need {needed:g} {kind}s, and the cluster has {there:g}"
        if settings.autoscaling:
            yield note("room", f"{found} until it grows")
        else:
            remedy = f"cluster.workers=N, {key}=X, or cluster.autoscaling=true"
            yield error("room", f"{found}", f"agggen train PRESET cluster.workers=N  # fewer workers: {remedy}")


# --- the dashboard -----------------------------------------------------------------------------------------------


def dashboard_here(settings: Settings) -> Iterator[Finding]:
    """The dashboard at its usual port of this machine, and the one that ``ray job submit`` is told of."""
    jobs = os.environ.get("RAY_API_SERVER_ADDRESS")
    if jobs and jobs.startswith(("http://", "https://")) and jobs != settings.cluster:
        yield from dashboard(jobs, told=True)
    hosts = {one.host for one in reach.listeners(DASHBOARD_PORT)}
    if not hosts:
        yield ok("dashboard here", f"none listens at port {DASHBOARD_PORT} of this machine")
        return
    any_interface = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    host = sorted(hosts)[0]
    host = any_interface.get(host, f"[{host}]" if ":" in host else host)
    yield from dashboard(f"http://{host}:{DASHBOARD_PORT}")


def dashboard(url: str, told: bool = False, ours: bool = False) -> Iterator[Finding]:
    """Whether a dashboard asks for a token, and takes ours.

    Args:
        told: the user named it, to submit jobs there, so it must answer.
        ours: it is that of the job's cluster. Our token is shown to no other: whoever listens there would have it.
    """
    import httpx

    url, trusted = url.rstrip("/"), told or ours
    try:
        with httpx.Client(timeout=reach.SECONDS) as client:
            asked = client.get(f"{url}/api/authentication_mode")
            mode = asked.json().get("authentication_mode") if asked.status_code == 200 else None
            shown = _token_header() if mode == "token" and trusted else {}
            about = client.get(f"{url}/api/version", headers=shown)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError) as failed:
        yield _no_dashboard(url, str(failed) or type(failed).__name__, told)
        return
    if mode == "token":
        yield _asks_for_token(url, about.status_code, trusted)
    elif mode is None and about.status_code != 200:
        yield _no_dashboard(url, f"it answers {asked.status_code}, as no dashboard of Ray does", told)
    else:
        yield _open_to_all(url)


def _no_dashboard(url: str, why: str, told: bool) -> Finding:
    if told:
        remedy = "kubectl -n agggen get services  # then: kubectl -n agggen port-forward svc/NAME 8265:8265"
        return error("dashboard", f"no Ray dashboard answers at {url}: {why}", remedy)
    return note("dashboard", f"what listens at {url} is no Ray dashboard that can be asked from here: {why}")


def _asks_for_token(url: str, status: int, trusted: bool) -> Finding:
    if trusted and status in (401, 403):
        had = "no token" if status == 401 else "another token"
        found = f"the dashboard at {url} asks for a token, and this process has {had}"
        return warning("dashboard", found, f"{_WITH_TOKEN}  # with the token of the cluster's nodes")
    return ok("dashboard", f"{url} asks for a token" + (", and takes that of this process" if trusted else ""))


def _open_to_all(url: str) -> Finding:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    hosts = {parts.hostname or ""}
    if all(reach.is_loopback(host) for host in hosts):  # it may listen on other interfaces too
        hosts |= {one.host for one in reach.listeners(port)}
    beyond = sorted(host for host in hosts if not reach.is_loopback(host))
    remedy = f"{_NEW_TOKEN} && export RAY_AUTH_MODE=token  # then start the cluster anew"
    if beyond:
        found = f"the Ray dashboard at {url} asks for no token and listens at {', '.join(beyond)}: strangers run code"
        return error("dashboard", found, remedy)
    found = f"the Ray dashboard at {url} asks for no token: every user of this machine runs code as its owner"
    return warning("dashboard", found, remedy)
