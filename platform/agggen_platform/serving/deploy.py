"""Runs an endpoint: starts Ray Serve if necessary, deploys, updates and removes the application, follows an alias.

As with ``serve deploy``, Serve imports and builds the application on the cluster.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agggen.config import resolved
from agggen.errors import AggGenError, BundleError, ConfigError
from agggen_platform.ray_cluster import connected, starts_cluster
from agggen_platform.ray_private import (
    cluster_nodes,
    deploy_applications,
    deployed_applications,
    serve_address,
    wait_for_proxies,
)
from agggen_platform.registry import Registry, is_model_address, parse_address
from agggen_platform.registry.address import SCHEME, ModelAddress
from agggen_platform.serving.capacity import CapacityError, check_fits, local_cpus, one_replica_each, with_max_replicas
from agggen_platform.serving.config import HttpConfig, ServeConfig
from agggen_platform.serving.keys import check_keys_required
from agggen_platform.serving.target import Target, check_target, find_target

APPLICATION = "agggen"
"""The application's name. Its route is ``/``, so a cluster can have only one endpoint."""
_POLL_SECONDS = 0.25
_SECONDS_BETWEEN_NOTES = 15.0
_PROXY_SECONDS = 300  # timeout; Serve replaces proxies that are not ready within 5 s, then 10 s, and so on
_SECONDS_BETWEEN_CHECKS = 10.0  # a check takes 20 ms of CPU time in this process and in Serve's controller
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

Say = Callable[[str], None]
Stop = Callable[[], bool]


class DeployError(AggGenError):
    """The replicas of a bundle do not start."""

    exit_code = 3


class Stopped(Exception):
    """A stop was requested while the endpoint was starting."""


@dataclass(frozen=True)
class State:
    status: str  # NOT_STARTED, DEPLOYING, RUNNING, DEPLOY_FAILED, UNHEALTHY or DELETING
    reason: str  # one line about the failure; empty if the application has not failed


@contextmanager
def endpoint(config: ServeConfig, address: str | None = None, say: Say = print) -> Iterator[Endpoint]:
    """Runs Serve on a local cluster, or on the cluster at `address`, for the block; `Endpoint.deploy` deploys a bundle.

    At the end, rejects new requests, finishes active ones, and stops a local cluster. Raises PortError, CapacityError,
    ClusterError, and ConfigError if the endpoint would be reachable from other machines without a key.
    """
    config = _with_checked_keys(config)
    local = starts_cluster(address)
    cpus = local_cpus(config) if local else None
    if local:
        file = config.security.keys_file
        if file is not None and not Path(file).is_file():
            raise ConfigError(f"no keys file {file}: agggen serve-key NAME --file {file} creates it")
        config.http.listen().close()  # raises PortError
        # Serve replaces a dead proxy after three failed health checks: half a minute with the default period.
        os.environ.setdefault("RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S", "1")
        # The default of 0.1 s doubles the idle controller's CPU time.
        os.environ.setdefault("RAY_SERVE_CONTROL_LOOP_INTERVAL_S", "0.5")
        # The default of 100 ms costs each replica 3 ms of CPU time a second.
        os.environ.setdefault("RAY_SERVE_METRICS_EXPORT_INTERVAL_MS", "1000")
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's default lowers the CPU priority of replicas
    with connected(address, cpus=cpus) as cluster:
        nodes = cluster_nodes()
        check_fits(config, nodes)
        if cluster.local:  # the machine's CPUs plus those for an update, not the logical CPUs (`local_cpus`)
            nodes = [{"CPU": (os.cpu_count() or 1) + one_replica_each(config).cpus, "GPU": cluster.gpus}]
        endpoint = Endpoint(with_max_replicas(config, nodes), cluster.local, say)
        try:
            yield endpoint
        finally:
            endpoint.shut_down()


class Endpoint:
    """The application on the connected cluster; created by `endpoint`."""

    def __init__(self, config: ServeConfig, local: bool, say: Say) -> None:
        from ray import serve
        from ray.exceptions import RayActorError

        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        self.config = config
        self.target: Target | None = None
        """The served bundle; None before the first deployment has succeeded."""
        self._say = say
        self._deployed = False
        self._last_status, self._next_check = "", 0.0  # for `watch`
        self._started_serve = serve_address() is None
        if self._started_serve:
            # No request timeout: streams may take long, and each of their records has its own deadline.
            try:
                serve.start(http_options=asdict(config.http), proxy_location="HeadOnly" if local else "EveryNode")
            except RayActorError:  # Serve replaced a proxy that started too slowly; `deploy` waits for the new proxy
                if serve_address() is None:
                    raise
        host, port = serve_address() or (config.http.host, config.http.port)
        http = HttpConfig(host or "localhost", port)  # host is None without proxies
        self.url = http.url
        if http != config.http:
            say(f"Ray Serve already runs on this cluster at {self.url}; http.host and http.port are ignored")
        check_keys_required(replace(config, http=http))

    def deploy(self, target: Target, stop: Stop = lambda: False) -> None:
        """Deploys the bundle and waits until its replicas run; until then, Serve keeps serving the previous bundle.

        Raises CapacityError if another application has the route ``/``, Stopped if `stop` returned True, and
        DeployError, after deploying the previous bundle again, if the new replicas do not start.
        """
        previous = self.target
        self._apply(target)
        try:
            self._wait_until_running(stop)
        except DeployError:
            if previous is not None:
                self._apply(previous)
                self._wait_until_running(stop)
            raise
        self.target = target

    def state(self) -> State:
        from ray import serve

        application = serve.status().applications.get(APPLICATION)
        if application is None:
            return State("NOT_STARTED", "")
        failed = ("DEPLOY_FAILED", "UNHEALTHY")
        deployments = application.deployments.values()
        messages = [deployment.message for deployment in deployments if deployment.status in failed]
        return State(application.status.value, _reason([*messages, application.message][0]))

    def shut_down(self) -> None:
        """Rejects new requests, finishes active ones, and removes the application."""
        import ray
        from ray import serve

        if not ray.is_initialized() or serve_address() is None:  # already shut down
            return
        if self.target is not None:  # Serve stops all deployments simultaneously: first finish active requests
            self._apply(self.target, {"name": "Ingress", "user_config": {"closed": True}})
            deadline = time.monotonic() + self.config.limits.longest_deadline_s
            while self.state().status != "RUNNING" and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        if self._started_serve and not self._other_applications():
            serve.shutdown()
        elif self._deployed:
            serve.delete(APPLICATION)

    def watch(self) -> None:
        """Reports changes of the application's status; must be called regularly."""
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _SECONDS_BETWEEN_CHECKS
        state = self.state()
        if state.status != self._last_status:
            if state.status != "RUNNING":
                self._say(f"the endpoint is {state.status}" + (f": {state.reason}" if state.reason else ""))
            elif self._last_status:
                self._say("the endpoint is RUNNING again")
        self._last_status = state.status

    def _apply(self, target: Target, *overridden: dict[str, Any]) -> None:
        other_applications = self._other_applications()
        for name, details in other_applications.items():
            if details["route_prefix"] == "/":
                raise CapacityError(
                    f"the application {name!r} is already deployed at {self.url}: `serve delete {name}` removes it"
                )
        application = application_of(target.pinned(self.config)) | {"deployments": list(overridden)}
        other_configs = [details.get("deployed_app_config") for details in other_applications.values()]
        deploy_applications([*filter(None, other_configs), application])
        self._deployed = True

    def _other_applications(self) -> dict[str, dict[str, Any]]:
        return {name: details for name, details in deployed_applications().items() if name != APPLICATION}

    def _wait_until_running(self, stop: Stop) -> None:
        from ray import serve

        last_note_at = time.monotonic()
        while (state := self.state()).status != "RUNNING":
            if stop():
                raise Stopped
            if state.status == "DEPLOY_FAILED":
                raise DeployError(f"the endpoint does not start: {state.reason}")
            if time.monotonic() - last_note_at > _SECONDS_BETWEEN_NOTES:
                last_note_at = time.monotonic()
                application = serve.status().applications.get(APPLICATION)
                replicas = [
                    f"{name}: {count} {state.lower()}"
                    for name, deployment in (application.deployments if application else {}).items()
                    for state, count in deployment.replica_states.items()
                ]
                self._say(f"replicas are starting ({'; '.join(replicas) or 'testing the bundle'})")
            time.sleep(_POLL_SECONDS)
        deadline = time.monotonic() + _PROXY_SECONDS
        while (proxies := serve.status().proxies.values()) and "HEALTHY" not in proxies:
            if stop():
                raise Stopped
            if time.monotonic() > deadline:
                raise DeployError(f"no proxy of Ray Serve is healthy after {_PROXY_SECONDS} s; see `serve status`")
            time.sleep(_POLL_SECONDS)
        wait_for_proxies()


class Follower:
    """Deploys the bundle of an alias whenever the alias moves."""

    def __init__(self, config: ServeConfig, endpoint: Endpoint, say: Say) -> None:
        self._address = check_followed(config)
        self._config, self._endpoint, self._say = config, endpoint, say
        self._refused_address: str | None = None  # the address of a version that failed its self-test
        self._reported_failure = ""

    def check(self, stop: Stop = lambda: False) -> bool:
        """Deploys the alias's bundle if the alias has moved, and returns whether it did; reports a failure once."""
        try:
            deployed, failure = self._update(stop), ""
        except AggGenError as error:
            deployed, failure = False, f"{error}; the previous bundle stays in service"
        if failure and failure != self._reported_failure:
            self._say(failure)
        self._reported_failure = failure
        return deployed

    def _update(self, stop: Stop) -> bool:
        address, served = f"{SCHEME}{Registry().version(self._address)}", self._endpoint.target
        if address == self._refused_address or (served is not None and address == served.display_address):
            return False
        try:
            target = find_target(replace(self._config, bundle=address))
            check_target(target)  # before anything changes on the cluster
            if not self._reported_failure:  # not for a retry after a reported failure
                self._say(f"{self._config.bundle} is {address} now")
            self._endpoint.deploy(target, stop)
        except (BundleError, DeployError):  # other errors may be transient
            self._refused_address = address
            raise
        self._refused_address = None
        self._say(f"serving {address} ({target.fingerprint[:12]})")
        return True


def check_followed(config: ServeConfig) -> ModelAddress:
    """The alias to follow; raises ConfigError if `config.bundle` is not an alias, or the bundle is pinned."""
    if not is_model_address(config.bundle) or not (address := parse_address(config.bundle)).alias:
        raise ConfigError(f"--follow needs a registry alias, like models:/agggen@champion; not {config.bundle}")
    if config.fingerprint is not None or config.shown_as is not None:
        raise ConfigError("--follow serves every version that the alias names: remove fingerprint and shown_as")
    return address


def application_of(config: ServeConfig) -> dict[str, Any]:
    """The application's entry in a ``serve deploy`` file; `config` must name a pinned bundle (`Target.pinned`)."""
    # The import path is a string, because this package must not import `serve`.
    return {"name": APPLICATION, "route_prefix": "/", "import_path": "serve.app:app", "args": resolved(config)}


def deploy_file(config: ServeConfig, target: Target) -> str:
    """The content of a ``serve deploy`` YAML file that serves the bundle with these settings."""
    import yaml

    config = target.pinned(_with_checked_keys(config))
    http, applications = asdict(config.http), [application_of(config)]
    content = {"proxy_location": "EveryNode", "http_options": http, "applications": applications}
    return yaml.safe_dump(content, sort_keys=False).rstrip()


def _with_checked_keys(config: ServeConfig) -> ServeConfig:
    """`config` with the absolute path of the keys file; raises ConfigError if a keys file is required and missing."""
    check_keys_required(config)
    file = config.security.keys_file
    if file is None:
        return config
    return replace(config, security=replace(config.security, keys_file=str(Path(file).absolute())))


def _reason(message: str) -> str:
    """The last line of a message of Serve (often a traceback), without the exception's name."""
    lines = [line.strip() for line in _ANSI.sub("", message).splitlines() if line.strip()]
    return re.sub(r"^(ray\.exceptions\.)?[\w.]*(Error|Exception)(\([^)]*\))?: ", "", lines[-1]) if lines else ""
