"""The application that Ray Serve runs: ingress, planners, generators and the memory of answers, composed by handles.

    serve run serve.app:app bundle=models:/agggen@champion generator.max_replicas=4

`app` is a function of such arguments; in a ``serve deploy`` file they stand under ``args:``. ``serve build`` wants an
application instead, and gets one where ``AGGGEN_SERVE`` names a YAML file of the configuration.

Before Serve touches anything the function finds the bundle, compares it with its hashes and lets it write a text: a
broken one fails here, and what serves goes on. Every replica gets the bundle's place and fingerprint, never an alias.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from agggen.errors import AggGenError
from agggen_platform.config import load_config
from agggen_platform.serving.config import ReplicaConfig, ServeConfig
from agggen_platform.serving.proxies import listening_host
from agggen_platform.serving.target import check_target, find_target, settings_of
from serve.api import api
from serve.closing import Gate
from serve.engine import ModelCard
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.idempotency import Answers, RemoteAnswers
from serve.observe import Metrics, set_up_logging
from serve.planner import PlannerReplica
from serve.security import key_ring

CONFIG_FILE = "AGGGEN_SERVE"
"""The variable that names a configuration file where no arguments can be given."""


def build(args: dict[str, Any]) -> Application:
    """The application of these arguments: keys of `ServeConfig`, dotted or nested.

    Raises:
        RayServeException: a wrong argument, or a bundle that cannot be served; of this kind alone Serve shows the
            message without tracebacks and without trying three times.
    """
    try:
        return composed(load_config(ServeConfig, _config_file(), settings_of(args)))
    except AggGenError as error:
        raise RayServeException(str(error)) from error


def __getattr__(name: str) -> Any:
    if name == "app":
        return build({}) if _config_file() else build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _config_file() -> Path | None:
    name = os.environ.get(CONFIG_FILE)
    return Path(name) if name else None


def composed(config: ServeConfig) -> Application:
    """The deployments of a configuration, once its bundle has passed.

    Raises:
        ConfigError: others can reach the endpoint, and it asks for no key.
        BundleError, RegistryError, StorageError: there is no such bundle, or it does not work.
    """
    if config.security.keys_file is None or Path(config.security.keys_file).exists():  # else another node has it
        key_ring(_where_it_listens(config, default=config.http.host))
    target = find_target(config)
    check_target(target)
    config = target.fixed(config)
    planner = _deployment(Planner, config, config.planner).bind(config)
    generator = _deployment(Generator, config, config.generator).bind(config)
    memory = ReplicaConfig(max_ongoing_requests=1024, cpus=0)
    security = config.security
    answers = _deployment(Answers, config, memory).bind(security.idempotency_bytes, security.idempotency_seconds)
    return _deployment(Ingress, config, config.ingress).bind(config, planner, generator, answers)


class Planner(PlannerReplica):
    """A replica that searches plans."""

    def __init__(self, config: ServeConfig) -> None:
        super().__init__(config, config.bundle, config.fingerprint)
        self._shown_as = config.shown_as

    async def card(self) -> ModelCard:
        """What is served."""
        card = await super().card()
        return replace(card, address=self._shown_as or card.address)


class Generator(GeneratorReplica):
    """A replica that writes and aligns."""

    def __init__(self, config: ServeConfig) -> None:
        super().__init__(config, config.bundle, config.fingerprint)


@serve.ingress()
class Ingress:
    """A replica that speaks HTTP; it loads no model."""

    def __init__(
        self, config: ServeConfig, planner: DeploymentHandle, generator: DeploymentHandle, answers: DeploymentHandle
    ) -> None:
        self._config = _where_it_listens(config, default="unknown")  # keys are asked for then
        self._engine = HandleEngine(planner, generator, config.batch.records)
        self._answers = RemoteAnswers(answers)
        self._replica = serve.get_replica_context().replica_id.unique_id
        set_up_logging(config.log, replica=self._replica)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        metrics = Metrics(self._replica)
        self._gate = Gate(
            api(self._engine, self._config, metrics=metrics, answers=self._answers, echo_request_id=False)
        )
        return self._gate

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Serve's way to tell every replica something while it runs: ``closed`` takes no request any more, and returns
        when those inside are done, so that Serve, too, sees when that is."""
        if user_config.get("closed"):
            await self._gate.close()
        else:
            self._gate.open()


def _where_it_listens(config: ServeConfig, default: str) -> ServeConfig:
    """`config` with the host that Serve's proxies listen on, whatever it was told before."""
    return replace(config, http=replace(config.http, host=listening_host() or default))


def _deployment(kind: type, config: ServeConfig, replicas: ReplicaConfig) -> Any:
    return serve.deployment(name=kind.__name__, **_options(config, replicas))(kind)


def _options(config: ServeConfig, replicas: ReplicaConfig) -> dict[str, Any]:
    """What Serve is told about a deployment."""
    longest = max(config.limits.deadline_s, config.limits.longest_deadline_s)
    options: dict[str, Any] = {
        "max_ongoing_requests": replicas.max_ongoing_requests,
        "max_queued_requests": config.limits.queue,  # of each caller
        "ray_actor_options": {"num_cpus": replicas.cpus, "num_gpus": replicas.gpus},
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": longest,  # what is being worked on is finished
        "health_check_period_s": 2.0,  # a replica that died is replaced as soon as this shows it
        "health_check_timeout_s": 30.0,
        "max_constructor_retry_count": 2,  # a bundle that does not load twice will not load the third time
        "max_surge_percent": 100 if config.update == "beside" else 0,
    }
    if replicas.min_replicas == replicas.max_replicas:
        return options | {"num_replicas": replicas.min_replicas}
    # Averages over as short a time as the delays are: Serve's own half minute would hide a step for so long.
    look_back = min(30.0, max(1.0, replicas.upscale_delay_s))
    return options | {
        "autoscaling_config": {
            "min_replicas": replicas.min_replicas,
            "max_replicas": replicas.max_replicas,
            "target_ongoing_requests": replicas.target_ongoing_requests,
            "upscale_delay_s": replicas.upscale_delay_s,
            "downscale_delay_s": replicas.downscale_delay_s,
            "look_back_period_s": look_back,
            "metrics_interval_s": look_back / 3,
        }
    }
