"""The application that Ray Serve runs: ingress, planners and generators, connected by deployment handles.

Before Serve changes anything, `app` resolves the bundle, verifies its hashes and runs its self-test: if it is broken,
the old replicas keep serving. New replicas get the resolved address and fingerprint, never an alias.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.serve import Application
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from agggen.config import load_config
from agggen.errors import AggGenError
from agggen_platform.ray_private import cluster_nodes, serve_address
from agggen_platform.serving.capacity import with_max_replicas
from agggen_platform.serving.config import ReplicaConfig, ServeConfig
from agggen_platform.serving.target import check_target, find_target, settings_of
from serve.api import api
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.observe import Metrics, log_as_replica
from serve.planner import PlannerReplica
from serve.reading import Admission
from serve.scaling import generator_state_query
from serve.security import key_ring

_UPSCALE_DELAY_S = 3.0


def app(args: dict[str, Any]) -> Application:
    """Builds the application from `args`, keys of `ServeConfig`, dotted or nested. Raises RayServeException."""
    try:
        return build(load_config(ServeConfig, None, settings_of(args)))
    except AggGenError as error:  # Serve would retry other types of exceptions twice and print their tracebacks
        raise RayServeException(str(error)) from error


def build(config: ServeConfig) -> Application:
    """Builds the deployments of a configuration after checking its keys and bundle."""
    keys_file = config.security.keys_file
    if keys_file is None or Path(keys_file).exists():  # otherwise, the file is on other nodes
        key_ring(_with_listening_host(config, default=config.http.host))
    target = find_target(config)
    check_target(target)
    config = with_max_replicas(target.pinned(config), cluster_nodes())
    planner = _deployment("Planner", PlannerReplica, config, config.planner).bind(config)
    generator = _deployment("Generator", GeneratorReplica, config, config.generator).bind(config)
    return _deployment("Ingress", Ingress, config, config.ingress).bind(config, planner, generator)


@serve.ingress()
class Ingress:
    """A replica that answers HTTP requests; it loads no model."""

    def __init__(self, config: ServeConfig, planner: DeploymentHandle, generator: DeploymentHandle) -> None:
        self._config = _with_listening_host(config, default="unknown")  # an unknown host requires keys
        self._traces = None
        if config.tracing.experiment is not None:
            from serve.tracing import MlflowExporter, Traces

            self._traces = Traces(MlflowExporter(config.tracing.experiment, config.tracing.server))
        span = self._traces.span if self._traces else None
        self._engine = HandleEngine(planner, generator, config, generator_state_query(), span)
        self._admission = Admission(config.limits.queue)
        log_as_replica(config.log)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        options: Any = {"meters": Metrics(), "admission": self._admission, "traces": self._traces}
        return api(self._engine, self._config, echo_request_id=False, **options)

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Called by Serve; with ``closed`` in `user_config`, refuses new requests and returns once none is active."""
        if user_config.get("closed"):
            await self._admission.close()
        else:
            self._admission.closed = False


def _with_listening_host(config: ServeConfig, default: str) -> ServeConfig:
    """`config` with the host on which Serve's proxies listen; `default` if Serve is not running."""
    address = serve_address() if ray.is_initialized() else None
    host = default if address is None else address[0] or "localhost"  # an empty host: no proxy runs
    return replace(config, http=replace(config.http, host=host))


def _deployment(name: str, replica_class: type, config: ServeConfig, replicas: ReplicaConfig) -> Any:
    options: dict[str, Any] = {
        # The ingress refuses requests beyond `limits.queue` itself. A generator gets few calls at once, so that further
        # calls wait in the handle's queue for the next free or new replica.
        "max_ongoing_requests": {"Ingress": 2 * config.limits.queue, "Planner": 64, "Generator": 16}[name],
        "max_queued_requests": config.limits.queue if name == "Ingress" else -1,
        "ray_actor_options": {"num_cpus": replicas.cpus, "num_gpus": replicas.gpus},
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": config.limits.longest_deadline_s,  # time to finish active requests
        "health_check_period_s": 2.0,  # how soon Serve notices that a replica died
        "health_check_timeout_s": 30.0,
        "max_constructor_retry_count": 2,  # loading a bundle rarely fails for a transient reason
        "max_surge_percent": 100 if config.update == "beside" else 0,
    }
    if replicas.min_replicas == replicas.max_replicas:
        options["num_replicas"] = replicas.min_replicas
    else:
        options["autoscaling_config"] = {
            "min_replicas": replicas.min_replicas,
            "initial_replicas": max(1, replicas.min_replicas),  # loads the bundle before the endpoint is ready
            "max_replicas": replicas.max_replicas,
            "target_ongoing_requests": replicas.target_records,
            "upscale_delay_s": _UPSCALE_DELAY_S,
            "downscale_delay_s": replicas.downscale_delay_s,
            "look_back_period_s": _UPSCALE_DELAY_S,  # averages load over this time; Serve's 30 s would hide a burst
            "metrics_interval_s": _UPSCALE_DELAY_S / 3,
            "policy": {"policy_function": "serve.scaling:by_records"},
        }
    return serve.deployment(name=name, **options)(replica_class)
