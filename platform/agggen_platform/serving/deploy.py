"""Runs an endpoint: starts Serve if necessary, and deploys, updates and removes the application.

As with ``serve deploy``, Serve imports and builds the application on the cluster. Deploying the same arguments again
changes nothing; with other arguments, the application is built and its bundle tested before a replica is replaced.
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
from agggen.errors import ConfigError
from agggen_platform.ray_cluster import connected, starts_cluster
from agggen_platform.ray_private import (
    cluster_nodes,
    deploy_applications,
    deployed_applications,
    serve_address,
    wait_for_proxies,
)
from agggen_platform.serving.capacity import check_fits, local_cpus, one_replica_each, with_max_replicas
from agggen_platform.serving.config import HttpConfig, ServeConfig
from agggen_platform.serving.errors import CapacityError, DeployError
from agggen_platform.serving.keys import check_keys_required
from agggen_platform.serving.target import Target

IMPORT_PATH = "serve.app:app"
"""The import path of the application, which this package does not import."""
APPLICATION = "agggen"
"""The application's name. Its route is ``/``, so a cluster can have only one endpoint."""
_POLL_SECONDS = 0.25
_SECONDS_BETWEEN_NOTES = 15.0
_PROXY_SECONDS = 300  # Serve replaces a proxy that is not ready in 5 s, the next one in 10 s, and so on
_SECONDS_BETWEEN_CHECKS = 10.0  # a check takes 20 ms of CPU time, here and in the controller
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

Say = Callable[[str], None]
Stop = Callable[[], bool]


class Stopped(Exception):
    """A stop was requested while the endpoint was starting."""


@dataclass(frozen=True)
class State:
    """The state of the application according to Serve."""

    status: str  # NOT_STARTED, DEPLOYING, RUNNING, DEPLOY_FAILED, UNHEALTHY or DELETING
    reason: str  # why the application failed, in one line; empty without a failure


@contextmanager
def endpoint(config: ServeConfig, address: str | None = None, say: Say = print) -> Iterator[Endpoint]:
    """Runs Serve on a local cluster, or on the cluster at `address`, for the block; `Endpoint.deploy` deploys a bundle.

    At the end, new requests are refused, active ones are finished, and a local cluster is stopped.

    Raises:
        ConfigError: other machines could use the endpoint without a key.
        PortError: a port is taken.
        CapacityError: the cluster is too small.
        ClusterError: no cluster answers at the address, or a local one does not start.
    """
    config = _checked(config)
    local = starts_cluster(address)
    if local:
        _check_local(config)
        # A dead proxy is replaced after three failed health checks; by default, that takes half a minute.
        os.environ.setdefault("RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S", "1")
        os.environ.setdefault("RAY_SERVE_CONTROL_LOOP_INTERVAL_S", "0.5")  # 0.1 doubles the idle controller's CPU time
        os.environ.setdefault("RAY_SERVE_METRICS_EXPORT_INTERVAL_MS", "1000")  # 100 costs each replica 3 ms a second
        os.environ.setdefault("RAY_worker_niceness", "0")  # by default, replicas yield to all other processes
    with connected(address, cpus=local_cpus(config) if local else None) as cluster:
        nodes = cluster_nodes()
        check_fits(config, nodes)
        if cluster.local:  # its CPUs are at least twice the machine's (`local_cpus`), enough for an update
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
            # Without a request timeout: streams may be long, and each of their records has its own deadline.
            try:
                serve.start(http_options=asdict(config.http), proxy_location="HeadOnly" if local else "EveryNode")
            except RayActorError:  # Serve replaced a proxy that started too slowly; `deploy` waits for the next one
                if serve_address() is None:
                    raise
        host, port = serve_address() or (config.http.host, config.http.port)
        http = HttpConfig(host or "localhost", port)  # None: there are no proxies
        self.url = http.url
        if http != config.http:
            say(f"Serve already runs on this cluster and listens at {self.url}; http.host and http.port are ignored")
        check_keys_required(replace(config, http=http))

    def deploy(self, target: Target, stop: Stop = lambda: False) -> None:
        """Deploys the bundle and waits until its replicas run. Until then the previous bundle is served.

        If the new replicas do not start, the previous bundle is deployed again.

        Raises:
            DeployError: the bundle fails its self-test on the cluster, or its replicas or Serve's proxies do not start.
            CapacityError: another application has the route ``/``.
            Stopped: `stop` returned True.
        """
        previous = self.target
        self._apply(target)
        try:
            self._wait(stop)
        except DeployError:
            if previous is not None:
                self._apply(previous)
                self._wait(stop)
            raise
        self.target = target

    def state(self) -> State:
        """The current state of the application."""
        from ray import serve

        application = serve.status().applications.get(APPLICATION)
        if application is None:
            return State("NOT_STARTED", "")
        failed = ("DEPLOY_FAILED", "UNHEALTHY")
        messages = [part.message for part in application.deployments.values() if part.status in failed]
        return State(application.status.value, _reason([*messages, application.message][0]))

    def shut_down(self) -> None:
        """Refuses new requests, finishes the active ones, and removes the application."""
        import ray
        from ray import serve

        if not ray.is_initialized() or serve_address() is None:  # the cluster or Serve was shut down
            return
        if self.target is not None:
            self._drain(self.target)
        if self._started_serve and not self._others():
            serve.shutdown()
        elif self._deployed:
            serve.delete(APPLICATION)

    def _drain(self, target: Target) -> None:
        """Waits until the ingress has finished its requests, because Serve stops all deployments at the same time."""
        self._apply(target, {"name": "Ingress", "user_config": {"closed": True}})
        deadline = time.monotonic() + self.config.limits.longest_deadline_s
        while self.state().status != "RUNNING" and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def watch(self) -> None:
        """Reports when the application stops or resumes running; must be called regularly."""
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

    # --- deploying --------------------------------------------------------------------------------------------------

    def _apply(self, target: Target, *overridden: dict[str, Any]) -> None:
        others = self._others()
        for name, details in others.items():
            if details["route_prefix"] == "/":
                raise CapacityError(
                    f"the application {name!r} is already deployed at {self.url}: `serve delete {name}` removes it"
                )
        application = application_of(target.pinned(self.config)) | {"deployments": list(overridden)}
        kept = [details.get("deployed_app_config") for details in others.values()]
        deploy_applications([*filter(None, kept), application])
        self._deployed = True

    def _others(self) -> dict[str, dict[str, Any]]:
        """Serve's details of each other application."""
        return {name: details for name, details in deployed_applications().items() if name != APPLICATION}

    def _wait(self, stop: Stop) -> None:
        from ray import serve

        noted = time.monotonic()
        while (state := self.state()).status != "RUNNING":
            if stop():
                raise Stopped
            if state.status == "DEPLOY_FAILED":
                raise DeployError(f"the endpoint does not start: {state.reason}")
            if time.monotonic() - noted > _SECONDS_BETWEEN_NOTES:
                noted = time.monotonic()
                self._say(f"replicas are starting ({self._waiting_for()})")
            time.sleep(_POLL_SECONDS)
        deadline = time.monotonic() + _PROXY_SECONDS
        while (proxies := serve.status().proxies.values()) and "HEALTHY" not in proxies:
            if stop():
                raise Stopped
            if time.monotonic() > deadline:
                raise DeployError(f"no proxy of Serve is healthy after {_PROXY_SECONDS} s; see `serve status`")
            time.sleep(_POLL_SECONDS)
        wait_for_proxies()

    def _waiting_for(self) -> str:
        from ray import serve

        application = serve.status().applications.get(APPLICATION)
        if application is None or not application.deployments:
            return "testing the bundle"
        states = (
            f"{name}: " + ", ".join(f"{count} {state.lower()}" for state, count in deployment.replica_states.items())
            for name, deployment in application.deployments.items()
        )
        return "; ".join(states)


def application_of(config: ServeConfig) -> dict[str, Any]:
    """The application's entry in a ``serve deploy`` file; the bundle in `config` must not be an alias."""
    return {"name": APPLICATION, "route_prefix": "/", "import_path": IMPORT_PATH, "args": resolved(config)}


def deploy_file(config: ServeConfig, target: Target) -> str:
    """The YAML file for ``serve deploy`` that serves this bundle with these settings."""
    import yaml

    config = target.pinned(_checked(config))
    content = {
        "proxy_location": "EveryNode",
        "http_options": asdict(config.http),
        "applications": [application_of(config)],
    }
    return yaml.safe_dump(content, sort_keys=False).rstrip()


def _checked(config: ServeConfig) -> ServeConfig:
    check_keys_required(config)
    keys = config.security.keys_file
    if keys is None:
        return config
    return replace(config, security=replace(config.security, keys_file=str(Path(keys).absolute())))


def _check_local(config: ServeConfig) -> None:
    """Checks the keys file, CPUs and port on this machine before anything is started."""
    keys = config.security.keys_file
    if keys is not None and not Path(keys).is_file():
        raise ConfigError(f"there is no keys file {keys}: agggen serve-key NAME --file {keys} creates it")
    local_cpus(config)
    config.http.listen().close()


def _reason(message: str) -> str:
    """The last line of a message of Serve, which is often a traceback, without the name of the exception."""
    lines = [line.strip() for line in _ANSI.sub("", message).splitlines() if line.strip()]
    return re.sub(r"^(ray\.exceptions\.)?[\w.]*(Error|Exception)(\([^)]*\))?: ", "", lines[-1]) if lines else ""
